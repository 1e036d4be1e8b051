"""RADFed's partition problem: the quadratic programs (1) and (2), Algorithm 3, and exact rounding.

An allocation is a matrix [clients, configurations] of row counts. A configuration is a class (eq. 1) or an
observed combination of a class and categorical features (eq. 2). ``categories`` [configurations,
dimensions] numbers each configuration's class and features; eq. (1) is the case of one dimension in which
configuration k is class k.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import SpecError
from fedcore.base.lazy import cvxpy as cp
from fedcore.base.lazy import scipy

Matrix = NDArray[np.float64]
Counts = NDArray[np.int64]
Move = tuple[int, int, int, int, float]
StepReading = Literal["relative", "samples", "fraction"]
BLOCK = 20_000
NEVER = (math.inf, -math.inf)  # the window that no loss enters


@dataclass(frozen=True)
class QP:
    """Sizes to meet exactly and distributions to come close to."""

    sizes: Counts  # rows of each client [clients]
    counts: Counts  # rows of each configuration [configurations], of the same total
    categories: Counts  # [configurations, dimensions]
    targets: tuple[Matrix, ...]  # by dimension: rows wanted of each category [clients, categories]

    def indicators(self) -> list[Matrix]:
        """Return, for each dimension, which configuration has which category [configurations, categories]."""
        pairs = zip(self.categories.T, self.targets, strict=True)
        return [np.eye(target.shape[1])[column] for column, target in pairs]

    def marginals(self, allocation: Matrix) -> list[Matrix]:
        """Return, for each dimension, the rows of each category on each client [clients, categories]."""
        return [allocation @ indicator for indicator in self.indicators()]

    def loss(self, allocation: Matrix) -> float:
        """Return the objective of eq. (1) or (2): squared distances of all marginals to their targets."""
        pairs = zip(self.marginals(allocation), self.targets, strict=True)
        return float(sum(((marginal - target) ** 2).sum() for marginal, target in pairs))


@dataclass(frozen=True)
class Search:
    """Algorithm 3's options: P random moves before the search (``burn_in``) and Q of it (``steps``).

    ``xi`` bounds a move's size. By its ``reading`` that is ``relative``, a fraction of the smaller of the two
    entries; ``samples``, a number of rows; or ``fraction``, a fraction of all rows. The burn-in stops once
    the root of the loss lies within ``stop``, multiples of the root of the loss it started from.
    """

    burn_in: int = 100_000
    steps: int = 500_000
    xi: float = 0.002
    reading: StepReading = "relative"
    stop: tuple[float, float] | None = (1.1, 1.2)


def allocate(problem: QP, search: Search, rng: np.random.Generator) -> Counts:
    """Solve, randomise and round: a whole number of rows of each configuration for each client.

    Row and column sums equal ``problem.sizes`` and ``problem.counts``. (RADFed, eq. (1), (2), Algorithm 3)
    """
    return round_exactly(randomise(problem, solve(problem), search, rng), problem.sizes, problem.counts)


def solve(problem: QP) -> Matrix:
    """Return a non-negative minimiser [clients, configurations] of eq. (1) or (2), or raise SpecError."""
    clients, configurations = len(problem.sizes), len(problem.counts)
    scale = max(problem.sizes.sum() / clients, 1.0)
    x = cp.Variable((clients, configurations), nonneg=True)
    targets = np.hstack(problem.targets) / scale
    each_its_own = np.array_equal(problem.categories, np.arange(configurations)[:, None])
    if each_its_own and targets.shape == x.shape:
        residual = x - targets
    else:
        residual = x @ scipy.sparse.csr_array(np.hstack(problem.indicators())) - targets
    sums = [cp.sum(x, axis=1) == problem.sizes / scale, cp.sum(x, axis=0) == problem.counts / scale]
    task = cp.Problem(cp.Minimize(cp.sum_squares(residual)), sums)
    try:
        task.solve(solver=cp.CLARABEL)
    except cp.SolverError as error:
        raise SpecError(f"partition: the quadratic program's solver failed ({error})") from None
    if x.value is None:
        raise SpecError(f"partition: the quadratic program has no solution ({task.status})")
    return balance(np.maximum(x.value, 0.0) * scale, problem.sizes, problem.counts)


def balance(allocation: Matrix, sizes: Counts, counts: Counts) -> Matrix:
    """Scale rows and columns in turn until their sums are met, which a solver does to its tolerance only."""
    total = max(float(sizes.sum()), 1.0)
    for _ in range(200):
        allocation = allocation * _ratio(sizes, allocation.sum(axis=1))[:, None]
        allocation = allocation * _ratio(counts, allocation.sum(axis=0))[None, :]
        if np.abs(allocation.sum(axis=1) - sizes).max(initial=0.0) <= 1e-12 * total:
            break
    return allocation


def randomise(problem: QP, allocation: Matrix, search: Search, rng: np.random.Generator) -> Matrix:
    """Return a random near-optimal allocation with the row and column sums of one to start from, the optimum.

    Residuals and loss are kept up to date move by move. (RADFed, Algorithm 3)
    """
    marginals, start = problem.marginals(allocation), problem.loss(allocation)
    offsets = np.cumsum([0, *(target.shape[1] for target in problem.targets[:-1])])
    entries: list[list[float]] = allocation.tolist()
    residuals: list[list[float]] = (np.hstack(marginals) - np.hstack(problem.targets)).tolist()
    columns: list[list[int]] = (problem.categories + offsets).tolist()
    limits = {"relative": math.inf, "samples": search.xi, "fraction": search.xi * float(problem.sizes.sum())}
    factor = search.xi if search.reading == "relative" else 1.0
    walk = partial(_losses, entries, residuals, columns, factor, limits[search.reading])
    low, high = NEVER if search.stop is None else (bound * bound * start for bound in search.stop)
    reached = start
    for reached in walk(_moves(search.burn_in, problem, rng), start):
        if low < reached < high:
            break
    best, least = entries, math.inf
    for loss in walk(_moves(search.steps, problem, rng), reached):
        if loss < least:
            best, least = [row[:] for row in entries], loss
    return np.array(best)


def _losses(
    entries: list[list[float]],
    residuals: list[list[float]],
    columns: list[list[int]],
    factor: float,
    limit: float,
    moves: Iterable[Move],
    loss: float,
) -> Iterator[float]:
    """Do moves in place, and yield the loss after each: two clients swap rows of two configurations."""
    for giver, taker, out, into, share in moves:
        given, taken = entries[giver], entries[taker]
        bound = given[out]
        if taken[into] < bound:
            bound = taken[into]
        if bound > limit:
            bound = limit
        if bound > 0.0 and giver != taker and out != into:
            size = share * factor * bound
            twice = 2.0 * size
            given[out] -= size
            taken[into] -= size
            given[into] += size
            taken[out] += size
            given_gap, taken_gap = residuals[giver], residuals[taker]
            for a, b in zip(columns[out], columns[into], strict=True):
                if a != b:
                    loss += twice * (twice - given_gap[a] + given_gap[b] + taken_gap[a] - taken_gap[b])
                    given_gap[a] -= size
                    given_gap[b] += size
                    taken_gap[a] += size
                    taken_gap[b] -= size
        yield loss


def _moves(steps: int, problem: QP, rng: np.random.Generator) -> Iterator[Move]:
    """Yield random moves, drawn in blocks: two clients, two configurations, and a share of the largest."""
    for start in range(0, steps, BLOCK):
        block = min(BLOCK, steps - start)
        rows = rng.integers(len(problem.sizes), size=(2, block)).tolist()
        picks = rng.integers(len(problem.counts), size=(2, block)).tolist()
        yield from zip(*rows, *picks, rng.random(block).tolist(), strict=True)


def round_exactly(allocation: Matrix, sizes: Counts, counts: Counts) -> Counts:
    """Round entries up or down so that row sums, met but for floating-point error, are ``sizes`` exactly.

    So are column sums ``counts``. Which entries go up is the solution of a transportation problem that
    minimises the sum of changes; its vertices are integer, so sums are met exactly. SpecError: no solution.
    """
    floor = np.floor(allocation + 1e-9)
    part = allocation - floor
    rows, columns = np.nonzero(part > 1e-9)
    result = floor.astype(np.int64)
    if len(rows):
        entries = np.arange(len(rows))
        ones = np.ones(len(rows))
        per_row = scipy.sparse.csr_array((ones, (rows, entries)), shape=(len(sizes), len(rows)))
        per_column = scipy.sparse.csr_array((ones, (columns, entries)), shape=(len(counts), len(rows)))
        sums = scipy.sparse.vstack([per_row, per_column])
        missing = np.concatenate([sizes - result.sum(axis=1), counts - result.sum(axis=0)])
        cost = 1.0 - 2.0 * part[rows, columns]
        solved = scipy.optimize.linprog(cost, A_eq=sums, b_eq=missing, bounds=(0, 1), method="highs-ds")
        if solved.x is None:
            raise SpecError(f"partition: the allocation can't be rounded ({solved.message})")
        result[rows, columns] += np.rint(solved.x).astype(np.int64)
    if (result.sum(axis=1) != sizes).any() or (result.sum(axis=0) != counts).any() or (result < 0).any():
        raise SpecError("partition: the allocation's sums are not those it should be rounded to")
    return result


def _ratio(targets: Counts, sums: Matrix) -> Matrix:
    return np.divide(targets, sums, out=np.ones(len(sums)), where=sums > 0)
