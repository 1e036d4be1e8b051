"""The local steps of one client: the loop that every sequential engine shares."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from fedcore.local.batches import passes, steps_per_pass
from fedcore.local.optimizer import rate, stepper
from fedcore.parts import Job, Run, State, Upload

if TYPE_CHECKING:
    from fedcore.local.engine import Engine


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


def round_rate(run: Run, state: State) -> float:
    """Return the local learning rate at the coming round's first step, of the first client with data.

    Clients differ in it only under a rate that decays by steps, with unequal numbers of them.
    """
    return learning_rate(run, state, run.problem.active[0])


def train_client(engine: Engine, run: Run, state: State, job: Job) -> Upload:
    """Train one client from the model it received."""
    import torch

    training = run.spec.training
    block = run.problem.clients[job.client]
    steps = number_of_steps(run, job.client)
    purpose = f"batches/{job.stage}" if job.stage else "batches"
    rng = run.streams.get(purpose, state.round, job.client)
    terms = [term.bind(run, state, job) for term in run.recipe.objective]
    direction = run.recipe.update.direction(run, state, job)

    w = job.received.clone()
    g = torch.empty_like(w)
    gradient = engine.bind(w, g, terms)
    adders = [term.add_gradient for term in terms if term.add_gradient]
    anchor = torch.empty_like(w) if direction.anchored else None
    anchor_gradient = engine.bind(job.received, anchor, ()) if anchor is not None else None
    step = stepper(training, w)

    batches = passes(len(block), training.batch_size, training.drop_last, rng)
    for t, rows in enumerate(islice(batches, steps)):
        if rows is None:
            x, y = block.x, block.y
        else:
            index = torch.from_numpy(rows).to(block.y.device)
            x, y = block.x[index], block.y[index]
        gradient(x, y)
        for add_gradient in adders:
            add_gradient(g, w)
        if anchor_gradient is not None and anchor is not None:
            anchor_gradient(x, y)
            g.sub_(anchor)
        if direction.scale != 1.0:
            g.mul_(direction.scale)
        if direction.offset is not None:
            g.add_(direction.offset)
        step(g, learning_rate(run, state, job.client, t))
    lr = learning_rate(run, state, job.client)
    return Upload(job.client, job.slot, len(block), job.received, w, steps, lr)
