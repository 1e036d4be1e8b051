"""The batches of a client's local steps, drawn from its stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from fedcore.base.lazy import Tensor, torch
from fedcore.engines.problem import Block

Size = int | Literal["full"]


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
