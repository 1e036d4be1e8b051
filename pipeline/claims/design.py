"""Which combinations of open points run, and what each point explains of what they give."""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain, combinations, product
from math import comb, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.reports.agreement import ROUNDING

Row = tuple[int, ...]


@cache
def design(levels: Row, most: int, first: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return combinations of the levels of several points, of which each has ``levels[i]``.

    All of them if there are at most ``most``. Otherwise as few as a greedy search finds that hold each pair
    of levels of two points. ``first`` come first; the same arguments give the same combinations.
    """
    if prod(levels) <= most:
        return tuple(dict.fromkeys((*first, *product(*map(range, levels)))))
    pairs = combinations(range(len(levels)), 2)
    uncovered = {(i, j): np.ones((levels[i], levels[j]), bool) for i, j in pairs}
    chosen = []
    for row in chain(dict.fromkeys(first), _best(levels, uncovered)):
        chosen.append(row)
        for (i, j), still in uncovered.items():
            still[row[i], row[j]] = False
    return tuple(chosen)


def _best(levels: Row, uncovered: Mapping[tuple[int, int], NDArray[np.bool_]]) -> Iterator[Row]:
    """Yield the first combination that holds most uncovered pairs, as long as there are any."""
    axes = np.ogrid[tuple(map(slice, levels))]
    while any(still.any() for still in uncovered.values()):
        gains = sum(still[axes[i], axes[j]].astype(np.int16) for (i, j), still in uncovered.items())
        yield tuple(map(int, np.unravel_index(np.argmax(gains), levels)))


def parameters(rows: NDArray[Any]) -> int:
    """Return how many parameters a linear model with a constant and the levels of all points has."""
    return int(np.linalg.matrix_rank(_model(rows)))


def _model(rows: NDArray[Any]) -> NDArray[np.float64]:
    levels = [rows[:, [i]] == np.unique(rows[:, i])[1:] for i in range(rows.shape[1])]
    return np.hstack([np.ones((len(rows), 1)), *levels])


def shares(rows: NDArray[Any], values: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the share of the variance of ``values`` [n] that each point explains by itself, by ``rows``
    [n, points], the level of each point.

    These are Shapley's shares of R squared, of linear models with a constant and the levels of a set of
    points: the mean, over all orders of the points, of what a point adds to those before it (Lindeman,
    Merenda and Gold, 1980). In a full design they are the main effects of an analysis of variance. What they
    lack to 1 is due to combinations. All are 0 where the values don't vary; there are none where the model of
    all points has as many parameters as there are values, and so would explain anything.
    """
    count, total = rows.shape[1], values.var() if np.ptp(values) > ROUNDING * abs(values).max() else 0.0
    if len(values) <= parameters(rows):
        return ()

    @cache
    def explained(points: frozenset[int]) -> float:
        x = _model(rows[:, sorted(points)])
        left = values - x @ np.linalg.lstsq(x, values)[0]
        return float(1 - left.var() / total) if total else 0.0

    def share(i: int) -> float:
        others = [other for other in range(count) if other != i]
        sets = (frozenset(group) for size in range(count) for group in combinations(others, size))
        gains = ((explained(group | {i}) - explained(group)) / comb(count - 1, len(group)) for group in sets)
        return float(sum(gains) / count)

    return tuple(map(share, range(count)))
