"""A client's local steps: how many, at which rates, how gradients add up, and the task of an engine."""

from collections.abc import Sequence
from functools import lru_cache

from fedcore.base import sum_in_order
from fedcore.base.errors import BrokenContract, SpecError
from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Job, Task, Upload
from fedcore.engines.train import rate, rows_of_steps, steps_per_pass
from fedcore.parts import OptimizerState, Run, State, Step
from fedcore.spec import Spec


def number_of_steps(run: Run, client: int) -> int:
    """Return tau_k, the client's gradient steps in one round."""
    if (steps := run.steps[client]) is not None:
        return steps
    training = run.spec.training
    n = len(run.problem.clients[client])
    return (training.local_epochs or 1) * steps_per_pass(n, training.batch_size, training.drop_last)


def learning_rate(run: Run, state: State, client: int, step: int = 0) -> float:
    """Return the local learning rate at one step of the coming round."""
    training = run.spec.training
    steps = state.round * number_of_steps(run, client) + step
    return rate(training.lr, training.lr_schedule, state.round + 1, steps)


def learning_rates(run: Run, state: State, client: int) -> list[float]:
    """Return the local learning rates of all of a client's steps in the coming round."""
    steps = number_of_steps(run, client)
    if run.spec.training.lr_schedule.name == "inverse_time":
        return [learning_rate(run, state, client, step) for step in range(steps)]
    return [learning_rate(run, state, client)] * steps


def refuse_rates_by_step(spec: Spec, what: str) -> None:
    """Refuse rates by step where one client's steps in all rounds are not those of the model."""
    if spec.training.lr_schedule.name == "inverse_time":
        raise SpecError(
            f"training.lr_schedule.name: got 'inverse_time' with {what}, expected 'constant' or 'milestones'"
        )


def coefficients(rates: Sequence[float], momentum: float = 0.0, mu: float = 0.0) -> list[float]:
    """Return FedNova's vector a, with w_0 - w_tau = rates[0] * sum_j a_j g_j, one entry per local step.

    The steps are v <- momentum v + g_j + mu (w - w_0), w <- w - rates[j] v from v = 0, which is linear in
    the gradients; one pass backwards through it (its adjoint) gives every a_j. Plain SGD: 1. Heavy ball: a_j
    = (1 - momentum^(tau - j)) / (1 - momentum). Proximal, of weight mu: a_j = (1 - rate mu)^(tau - 1 - j).
    Both together, and rates that change within the round, have no shorter form. Wang et al. (FedNova).
    """
    backwards: list[float] = []
    from_position, from_velocity = 1.0, 0.0
    for lr in reversed(rates):
        coefficient = from_velocity + from_position * lr / rates[0]
        backwards.append(coefficient)
        from_position -= mu * rates[0] * coefficient
        from_velocity = momentum * coefficient
    return backwards[::-1]


def coefficient_sum(run: Run, state: State, client: int, mu: float = 0.0) -> float:
    """Return ||a_k||_1 of one client's coming local steps, with the run's local optimizer."""
    return _coefficient_sum(tuple(learning_rates(run, state, client)), run.spec.training.momentum or 0.0, mu)


@lru_cache(maxsize=4096)
def _coefficient_sum(rates: tuple[float, ...], momentum: float, mu: float) -> float:
    return sum_in_order(map(abs, coefficients(rates, momentum, mu)))


def count_rows(run: Run, state: State, task: Task) -> None:
    """Count the rows of a task, and of what its client computes besides, if the specification asks for it.

    A loop counts its own, as they pass the model.
    """
    if not run.spec.evaluation.count_rows:
        return
    training, work, n = task.training, run.recipe.work(0.0), len(task.block)
    steps = 0 if task.loop else len(task.rates)
    rows = rows_of_steps(n, training.batch_size, training.drop_last, steps)
    piece = rows_of_steps(n, training.batch_size, False, 1)
    validation = len(run.problem.validation or ())
    state.rows_gradient += rows * (1 + task.direction.anchored) + n * work.gradients
    state.rows_forward += rows * sum(term.passes for term in task.terms) + n * work.rows
    state.rows_forward += piece * work.pieces + validation * work.validation


def count_first_rows(run: Run, state: State) -> None:
    """Count the rows that clients work on before the first round, if the specification asks for it."""
    if run.spec.evaluation.count_rows:
        work, n = run.recipe.work(0.0), sum(run.problem.sizes)
        state.rows_gradient += n * work.first_gradients
        state.rows_forward += n * work.first_rows


def server_step(run: Run, state: State, model: Tensor, uploads: list[Upload], past: OptimizerState) -> Step:
    """Aggregate uploads and take the server's step; return the new model [d] and the optimizer's state.

    Raises:
        BrokenContract: a part of the algorithm returned no vector [d].
    """
    recipe = run.recipe
    change = recipe.aggregate.change(run, state, model, uploads)
    _require_vector(model, change, f"{type(recipe.aggregate).__name__}.change")
    moved, now = recipe.server.step(run, state, model, change, past)
    _require_vector(model, moved, f"{type(recipe.server).__name__}.step")
    return moved, now


def _require_vector(model: Tensor, vector: object, where: str) -> None:
    if not isinstance(vector, torch.Tensor) or vector.shape != model.shape:
        found = f"shape {[*vector.shape]}" if isinstance(vector, torch.Tensor) else type(vector).__name__
        raise BrokenContract(f"algorithm: {where} returned {found}, expected a tensor of {[*model.shape]}")


def make_task(run: Run, state: State, job: Job) -> Task:
    """Bind a job to its client's data, random stream, terms and update rule."""
    return Task(
        job=job,
        block=run.problem.clients[job.client],
        training=run.spec.training,
        rates=learning_rates(run, state, job.client),
        rng=run.streams.get(f"batches/{job.stage}" if job.stage else "batches", state.round, job.client),
        terms=[term.bind(run, state, job) for term in run.recipe.objective],
        direction=run.recipe.update.direction(run, state, job),
        loop=run.recipe.update.loop(run, state, job),
    )
