"""A client's local steps: how many, at which rates, and the task that an engine gets."""

from __future__ import annotations

from fedcore.engines import Job, Task
from fedcore.engines.batches import steps_per_pass
from fedcore.engines.optimizer import rate
from fedcore.parts import Run, State


def number_of_steps(run: Run, client: int) -> int:
    """Return tau_k, the client's gradient steps in one round."""
    given = run.steps[client]
    if given is not None:
        return given
    training = run.spec.training
    n = len(run.problem.clients[client])
    return (training.local_epochs or 1) * steps_per_pass(n, training.batch_size, training.drop_last)


def learning_rate(run: Run, state: State, client: int, step: int = 0) -> float:
    """Return the local learning rate at one step of the coming round."""
    training = run.spec.training
    done = state.round * number_of_steps(run, client) + step
    return rate(training.lr, training.lr_schedule, state.round + 1, done)


def learning_rates(run: Run, state: State, client: int) -> list[float]:
    """Return the local learning rates of all of a client's steps in the coming round."""
    steps = number_of_steps(run, client)
    if run.spec.training.lr_schedule.name == "inverse_time":
        return [learning_rate(run, state, client, step) for step in range(steps)]
    return [learning_rate(run, state, client)] * steps


def round_rate(run: Run, state: State) -> float:
    """Return the local learning rate at the coming round's first step, of the first client with data.

    Clients differ in it only under a rate that decays by steps, with unequal numbers of them.
    """
    return learning_rate(run, state, run.problem.active[0])


def make_task(run: Run, state: State, job: Job) -> Task:
    """Bind a job to its client's data, random stream, terms and update rule."""
    purpose = f"batches/{job.stage}" if job.stage else "batches"
    return Task(
        job,
        run.problem.clients[job.client],
        run.spec.training,
        learning_rates(run, state, job.client),
        run.streams.get(purpose, state.round, job.client),
        [term.bind(run, state, job) for term in run.recipe.objective],
        run.recipe.update.direction(run, state, job),
    )
