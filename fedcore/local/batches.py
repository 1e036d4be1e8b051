"""The batches of a client's local steps, drawn from its stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

    from fedcore.problem import Block

Rows = NDArray[np.int64]


def passes(
    n: int, size: int | Literal["full"], drop_last: bool, rng: np.random.Generator
) -> Iterator[Rows | None]:
    """Yield batches without end: shuffled passes over ``n`` rows, None for "all rows in order".

    A pass's last, smaller batch is kept unless ``drop_last`` (and then only if the pass has another).
    """
    if size == "full" or size >= n:
        while True:
            yield None
    stop = n - n % size if drop_last else n
    while True:
        order = rng.permutation(n)
        for low in range(0, stop, size):
            yield order[low : low + size]


def select(block: Block, rows: Rows | None) -> tuple[Tensor, Tensor]:
    """Return the rows and labels of a batch."""
    import torch

    if rows is None:
        return block.x, block.y
    index = torch.from_numpy(rows).to(block.y.device)
    return block.x.index_select(0, index), block.y.index_select(0, index)


def steps_per_pass(n: int, size: int | Literal["full"], drop_last: bool) -> int:
    """Return how many batches one pass has."""
    if size == "full" or size >= n:
        return 1
    return n // size if drop_last else -(-n // size)
