"""The local steps of one client: batches, optimizer, and the loop that every sequential engine shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Literal

import numpy as np

from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Engine, Task, Upload
from fedcore.engines.problem import Block
from fedcore.spec import LrSchedule, Training

Size = int | Literal["full"]
RMSPROP_SMOOTHING = 0.99
RMSPROP_EPSILON = 1e-8


def train_client(engine: Engine, task: Task) -> Upload:
    """Train one client from the model it received."""
    training, direction = task.training, task.direction
    adders = [term.add_gradient for term in task.terms if term.add_gradient]
    plain = training.optimizer == "sgd" and not adders and not direction.anchored
    drawn = batches(task.block, training.batch_size, training.drop_last, task.rng)
    if task.loop:
        trained, extras = task.loop(islice(drawn, len(task.rates)))
        return replace(task.upload(trained), extras=extras)
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


def passes(
    n: int, size: Size, drop_last: bool, rng: np.random.Generator, device: torch.device | None = None
) -> Iterator[Tensor | None]:
    """Yield batches without end: indices of shuffled passes over ``n`` rows, None for "all rows in order".

    A pass's last, smaller batch is kept unless ``drop_last`` (and then only if the pass has another).
    """
    if size == "full" or size >= n:
        while True:
            yield None
    stop = n - n % size if drop_last else n
    while True:
        yield from torch.from_numpy(rng.permutation(n)[:stop]).to(device).split(size)


def batches(
    block: Block, size: Size, drop_last: bool, rng: np.random.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the rows and labels of such batches of a client."""
    x, y = block.x, block.y
    for rows in passes(len(block), size, drop_last, rng, y.device):
        yield (x, y) if rows is None else (x.index_select(0, rows), y.index_select(0, rows))


def steps_per_pass(n: int, size: Size, drop_last: bool) -> int:
    """Return how many batches one pass has."""
    if size == "full" or size >= n:
        return 1
    return n // size if drop_last else -(-n // size)


def rows_of_steps(n: int, size: Size, drop_last: bool, steps: int) -> int:
    """Return how many rows the first ``steps`` batches of a client with ``n`` rows have."""
    if size == "full" or size >= n:
        return steps * n
    per_pass = n - n % size if drop_last else n
    passes, rest = divmod(steps, steps_per_pass(n, size, drop_last))
    return passes * per_pass + min(rest * size, per_pass)


def stepper(training: Training, w: Tensor) -> Callable[[Tensor, float], None]:
    """Return ``step(g, lr)``, which moves ``w`` [..., d] in place along ``g`` (and may overwrite ``g``).

    Momentum is the heavy ball v <- rho v + g, w <- w - lr v, with v = 0 at the start of every round;
    weight decay adds ``weight_decay * w`` to the gradient.
    """
    decay = training.weight_decay
    rho = training.momentum or 0.0

    def decayed(g: Tensor) -> Tensor:
        return g.add_(w, alpha=decay) if decay else g

    if training.optimizer == "rmsprop":
        square = torch.zeros_like(w)
        velocity = torch.zeros_like(w) if rho else None

        def rmsprop(g: Tensor, lr: float) -> None:
            g = decayed(g)
            square.mul_(RMSPROP_SMOOTHING).addcmul_(g, g, value=1 - RMSPROP_SMOOTHING)
            if velocity is None:
                w.addcdiv_(g, square.sqrt().add_(RMSPROP_EPSILON), value=-lr)
            else:
                velocity.mul_(rho).addcdiv_(g, square.sqrt().add_(RMSPROP_EPSILON))
                w.add_(velocity, alpha=-lr)

        return rmsprop
    if rho:
        buffer = torch.zeros_like(w)

        def heavy_ball(g: Tensor, lr: float) -> None:
            buffer.mul_(rho).add_(decayed(g))
            w.add_(buffer, alpha=-lr)

        return heavy_ball

    def sgd(g: Tensor, lr: float) -> None:
        w.add_(decayed(g), alpha=-lr)

    return sgd


def rate(lr: float, schedule: LrSchedule, round: int, step: int) -> float:
    """Return the local learning rate in a round (from 1) at a gradient step of the run (from 0)."""
    if schedule.name == "milestones":
        passed = [at for at in schedule.milestones if at <= round]
        return schedule.milestones[max(passed)] if passed else lr
    if schedule.name == "inverse_time":
        return lr / (1.0 + step / schedule.offset)
    return lr
