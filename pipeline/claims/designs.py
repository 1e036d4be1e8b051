"""Designs of readings and what they tell: which combinations to run, and what each point explains."""

from functools import cache
from itertools import combinations, product
from math import comb, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = tuple[int, ...]


@cache
def design(levels: Row, most: int, first: tuple[Row, ...] = ()) -> tuple[Row, ...]:
    """Return combinations of the levels of several points, of which each has ``levels[i]``.

    All of them if there are at most ``most``. Otherwise as few as a greedy search finds that hold each pair
    of levels of two points. ``first`` come first; the same arguments give the same combinations.
    """
    every, chosen = tuple(product(*map(range, levels))), dict.fromkeys(first)
    if prod(levels) <= most:
        return tuple(chosen | dict.fromkeys(every))
    left = set().union(*map(_pairs, every)).difference(*map(_pairs, chosen))
    while left:
        best = max(every, key=lambda row: len(left & _pairs(row)))
        chosen[best] = None
        left -= _pairs(best)
    return tuple(chosen)


@cache
def _pairs(row: Row) -> frozenset[tuple[tuple[int, int], ...]]:
    return frozenset(combinations(enumerate(row), 2))


def shares(rows: NDArray[Any], values: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the share of the variance of ``values`` [n] that each point explains by itself, by ``rows``
    [n, points], the level of each point.

    These are Shapley's shares of R squared, of linear models with a constant and the levels of a set of
    points: the mean, over all orders of the points, of what a point adds to those before it (Lindeman,
    Merenda and Gold, 1980). In a full design they are the main effects of an analysis of variance. What they
    lack to 1 is due to combinations. All are 0 where the values don't vary.
    """
    count, total = rows.shape[1], values.var()

    @cache
    def explained(points: frozenset[int]) -> float:
        columns = [rows[:, [i]] == np.unique(rows[:, i])[1:] for i in sorted(points)]
        x = np.hstack([np.ones((len(values), 1)), *columns])
        left = values - x @ np.linalg.lstsq(x, values)[0]
        return float(1 - left.var() / total) if total else 0.0

    def share(i: int) -> float:
        others = [other for other in range(count) if other != i]
        sets = (frozenset(own) for size in range(count) for own in combinations(others, size))
        gains = ((explained(own | {i}) - explained(own)) / comb(count - 1, len(own)) for own in sets)
        return float(sum(gains) / count)

    return tuple(map(share, range(count)))


def verdict(share: float) -> str:
    """Say in a word in which share of the readings a claim holds."""
    return "all" if share == 1 else "none" if share == 0 else "most" if share > 1 / 2 else "some"
