"""The local steps of one client: batches, the optimizer and its rates."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from fedcore.base.lazy import Device, Tensor, torch
from fedcore.engines.problem import Block, Pair
from fedcore.spec import LrSchedule, Training

Size = int | Literal["full"]
RMSPROP_SMOOTHING = 0.99
RMSPROP_EPSILON = 1e-8


def batch_rows(
    n: int, size: Size, drop_last: bool, rng: np.random.Generator, device: Device | None = None
) -> Iterator[Tensor | None]:
    """Yield batches without end: indices of shuffled passes over ``n`` rows, None for "all rows in order".

    A pass's last, smaller batch is kept unless ``drop_last`` (and then only if the pass has another).
    """
    whole, _ = _sizes(n, size, drop_last)
    for order in _orders(n, size, drop_last, rng):
        if order is None:
            yield None
        else:
            yield from order.to(device).split(whole)


def batches(block: Block, size: Size, drop_last: bool, rng: np.random.Generator) -> Iterator[Pair]:
    """Yield the rows and labels of such batches of a client."""
    x, y = block.x, block.y
    for rows in batch_rows(len(block), size, drop_last, rng, y.device):
        yield (x, y) if rows is None else (x.index_select(0, rows), y.index_select(0, rows))


def batches_of(
    columns: Sequence[Tensor], size: Size, drop_last: bool, streams: Sequence[np.random.Generator]
) -> Iterator[tuple[Tensor, ...]]:
    """Yield such batches of as many clients as there are ``streams``, which have n rows each: indices among
    all their rows, and each of the ``columns`` [clients n, ...] there, client by client.

    All are views of one copy a pass, which takes less time than a copy a batch and as much memory as they do.
    """
    clients = len(streams)
    n = len(columns[0]) // clients
    whole, in_pass = _sizes(n, size, drop_last)
    sizes = [min(whole, in_pass - at) for at in range(0, in_pass, whole or 1)] or [0]
    starts = n * torch.arange(clients)[:, None]
    for orders in zip(*(_orders(n, size, drop_last, rng) for rng in streams), strict=True):
        rows = torch.stack([torch.arange(n) if order is None else order for order in orders]) + starts
        index = torch.cat([part.flatten() for part in rows.split_with_sizes(sizes, 1)]).to(columns[0].device)
        taken = [index, *(column.index_select(0, index) for column in columns)]
        parts = [part * clients for part in sizes]
        yield from zip(*(values.split_with_sizes(parts) for values in taken), strict=True)


def steps_per_pass(n: int, size: Size, drop_last: bool) -> int:
    """Return how many batches one pass has."""
    whole, in_pass = _sizes(n, size, drop_last)
    return math.ceil(in_pass / whole) if n else 1


def rows_of_steps(n: int, size: Size, drop_last: bool, steps: int) -> int:
    """Return how many rows the first ``steps`` batches of a client with ``n`` rows have."""
    whole, in_pass = _sizes(n, size, drop_last)
    passes, rest = divmod(steps, steps_per_pass(n, size, drop_last))
    return passes * in_pass + min(rest * whole, in_pass)


def _orders(n: int, size: Size, drop_last: bool, rng: np.random.Generator) -> Iterator[Tensor | None]:
    """Yield passes without end: the rows of each in the order taken, None for "all rows, in one batch"."""
    whole, in_pass = _sizes(n, size, drop_last)
    while True:
        yield None if whole == n else torch.from_numpy(rng.permutation(n)[:in_pass])


def _sizes(n: int, size: Size, drop_last: bool) -> tuple[int, int]:
    """Return the rows of a whole batch and those of a pass."""
    whole = n if size == "full" else min(size, n)
    return whole, n - n % whole if drop_last and n else n


def stepper(training: Training, w: Tensor) -> Callable[[Tensor, float], None]:
    """Return ``step(g, lr)``, which moves ``w`` [..., d] in place along ``g`` (and may overwrite ``g``).

    Momentum is the heavy ball v <- rho v + g, w <- w - lr v, with v = 0 at the start of every round;
    weight decay adds ``weight_decay * w`` to the gradient.
    """
    decay, rho = training.weight_decay, training.momentum or 0.0
    square = torch.zeros_like(w) if training.optimizer == "rmsprop" else None
    velocity = torch.zeros_like(w) if rho else None

    def add(target: Tensor, g: Tensor, factor: float) -> None:
        """Add ``factor`` g to ``target``; RMSProp divides g by the root of its mean square."""
        if square is None:
            target.add_(g, alpha=factor)
        else:
            square.mul_(RMSPROP_SMOOTHING).addcmul_(g, g, value=1 - RMSPROP_SMOOTHING)
            target.addcdiv_(g, square.sqrt().add_(RMSPROP_EPSILON), value=factor)

    def step(g: Tensor, lr: float) -> None:
        if decay:
            g.add_(w, alpha=decay)
        if velocity is None:
            add(w, g, -lr)
        else:
            add(velocity.mul_(rho), g, 1.0)
            w.add_(velocity, alpha=-lr)

    return step


def rate(lr: float, schedule: LrSchedule, round: int, step: int) -> float:
    """Return the local learning rate in a round (from 1) at a gradient step of the run (from 0)."""
    if schedule.name == "milestones":
        passed = [at for at in schedule.milestones if at <= round]
        return schedule.milestones[max(passed)] if passed else lr
    if schedule.name == "inverse_time":
        return lr / (1.0 + step / schedule.offset)
    return lr
