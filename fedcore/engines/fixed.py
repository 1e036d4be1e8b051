"""Rows mapped once: what a model never trains is not computed again at every step."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

from fedcore.base.lazy import Tensor, torch
from fedcore.engines.problem import Block, Problem
from fedcore.models import Split

LARGEST_BYTES = 1 << 31
ROWS = 128


def mapped(problem: Problem) -> Problem:
    """Return the problem that remains behind the fixed first part of its model.

    Its rows have gone through that part, and its model is the rest; the parameters stay the same. A model
    without such a part, or whose mapped rows would take more than 2 GiB, is returned as it is.
    """
    split: Split | None = getattr(problem.model, "split", lambda: None)()
    if split is None:
        return problem
    p = {**problem.model.trainable.views(problem.start), **problem.buffers}
    with torch.no_grad():
        one = split.trunk(p, problem.test.x[:1])
        rows = len(problem.train) + len(problem.test) + len(problem.validation or ())
        if rows * one.numel() * one.element_size() > LARGEST_BYTES:
            return problem

        def through(block: Block) -> Block:
            x = one.new_empty(len(block), *one.shape[1:])
            low = 0
            for part in block.x.split(ROWS):
                x[low : low + len(part)] = split.trunk(p, part)
                low += len(part)
            return Block(x, block.y)

        train = through(problem.train)
        return replace(
            problem,
            model=split.rest,
            clients=by_client(train, problem.sizes),
            train=train,
            test=through(problem.test),
            validation=None if problem.validation is None else through(problem.validation),
        )


def by_client(train: Block, sizes: list[int]) -> tuple[Block, ...]:
    """Return the clients' views into all rows."""

    def views(rows: Tensor) -> list[Tensor]:
        return [rows[low:high] for low, high in pairwise(accumulate(sizes, initial=0))]

    return tuple(Block(x, y) for x, y in zip(views(train.x), views(train.y), strict=True))
