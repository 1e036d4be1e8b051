"""The local steps of one client: the loop that every sequential engine shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedcore.base.lazy import Tensor, torch
from fedcore.engines.batches import batches, steps_per_pass
from fedcore.engines.optimizer import rate, stepper
from fedcore.engines.problem import Block
from fedcore.parts import BoundTerm, Direction, Job, Run, State, Upload
from fedcore.spec import Training

if TYPE_CHECKING:
    from fedcore.engines.forward import Engine


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


@dataclass(frozen=True)
class Task:
    """One client's local training, ready to run.

    Attributes:
        block: the client's rows.
        training: the run's settings of local training.
        rates: the learning rate of each gradient step.
        rng: the stream that batches are drawn from.
        terms, direction: the objective's terms and the update rule, bound to the client.
    """

    job: Job
    block: Block
    training: Training
    rates: list[float]
    rng: np.random.Generator
    terms: list[BoundTerm]
    direction: Direction

    def upload(self, w: Tensor) -> Upload:
        """Return what the client sends back with its model ``w`` [d]."""
        job = self.job
        return Upload(job.client, job.slot, len(self.block), job.received, w, len(self.rates), self.rates[0])


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


def train_client(engine: Engine, task: Task) -> Upload:
    """Train one client from the model it received."""
    training, direction = task.training, task.direction
    adders = [term.add_gradient for term in task.terms if term.add_gradient]
    plain = training.optimizer == "sgd" and not adders and not direction.anchored
    drawn = batches(task.block, training.batch_size, training.drop_last, task.rng)
    steps = zip(task.rates, drawn, strict=False)
    w = task.job.received.clone()
    with torch.no_grad():
        if plain and engine.in_place:
            descend = engine.bind(w, w, task.terms)
            for lr, (x, y) in steps:
                descend(x, y, 1 - lr * training.weight_decay, -lr * direction.scale)
                if direction.offset is not None:
                    w.add_(direction.offset, alpha=-lr)
        else:
            g = torch.empty_like(w)
            gradient = engine.bind(w, g, task.terms)
            anchor = engine.bind(task.job.received, g, ()) if direction.anchored else None
            step = stepper(training, w)
            for lr, (x, y) in steps:
                gradient(x, y)
                for add_gradient in adders:
                    add_gradient(g, w)
                if anchor is not None:
                    anchor(x, y, 1.0, -1.0)
                if direction.scale != 1.0:
                    g.mul_(direction.scale)
                if direction.offset is not None:
                    g.add_(direction.offset)
                step(g, lr)
    return task.upload(w)
