"""RADFed's partition problem: the quadratic programs (1) and (2), Algorithm 3, and exact rounding.

An allocation is a matrix [clients, configurations] of row counts. A configuration is a class (eq. 1) or an
observed combination of a class and categorical features (eq. 2). ``categories`` [configurations,
dimensions] numbers each configuration's class and features; eq. (1) is the case of one dimension in which
configuration k is class k. ``targets`` holds one matrix [clients, categories] a dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, model_validator

from fedcore.base.errors import SpecError
from fedcore.base.lazy import cvxpy as cp
from fedcore.base.lazy import scipy
from fedcore.base.options import Clients, nearest
from fedcore.base.registry import Plugin
from fedcore.data import Dataset, Partition
from fedcore.partitions import Concentration, PartitionOptions, Rows, cut, draw_dirichlet, gathered, integers

Matrix = NDArray[np.float64]
Counts = NDArray[np.int64]
StepReading = Literal["relative", "samples", "fraction"]
BLOCK = 20_000
REDRAWS = 1000


@dataclass(frozen=True)
class Problem:
    """Sizes to meet exactly and distributions to come close to.

    Attributes:
        sizes: rows of each client, [clients].
        counts: rows of each configuration, [configurations]; adds up to the same total.
        categories: [configurations, dimensions].
        targets: for each dimension, wanted rows of each category on each client, [clients, categories].
    """

    sizes: Counts
    counts: Counts
    categories: Counts
    targets: tuple[Matrix, ...]

    def marginals(self, allocation: Matrix) -> list[Matrix]:
        """Return, for each dimension, the rows of each category on each client."""
        return [
            allocation @ one_hot(column, target.shape[1])
            for column, target in zip(self.categories.T, self.targets, strict=True)
        ]

    def loss(self, allocation: Matrix) -> float:
        """Return the objective of eq. (1) or (2): squared distances of all marginals to their targets."""
        found = self.marginals(allocation)
        return float(sum(((own - want) ** 2).sum() for own, want in zip(found, self.targets, strict=True)))


@dataclass(frozen=True)
class Search:
    """Algorithm 3's options.

    Attributes:
        burn_in: P, random moves before the search.
        steps: Q, random moves of the search.
        xi: bound of a move's size.
        reading: what ``xi`` bounds: ``relative``, the fraction of the smaller of the two entries;
            ``samples``, a number of rows; ``fraction``, a fraction of all rows.
        stop: the burn-in ends as soon as the root of the loss lies within these multiples of the root of
            the loss it started from; None runs all of it.
    """

    burn_in: int = 100_000
    steps: int = 500_000
    xi: float = 0.002
    reading: StepReading = "relative"
    stop: tuple[float, float] | None = (1.1, 1.2)


def one_hot(column: Counts, categories: int) -> Matrix:
    """Return the indicator matrix [len(column), categories]."""
    return np.eye(categories)[column]


def class_problem(sizes: Counts, counts: Counts, proportions: Matrix) -> Problem:
    """Return eq. (1): rows of class k on client t near ``proportions[t, k] * sizes[t]``."""
    return Problem(sizes, counts, np.arange(len(counts))[:, None], (proportions * sizes[:, None],))


def solve(problem: Problem) -> Matrix:
    """Return a minimiser of eq. (1) or (2), [clients, configurations], non-negative, sums met to 1e-9.

    Raises:
        SpecError: the solver did not reach an optimum.
    """
    clients, configurations = len(problem.sizes), len(problem.counts)
    scale = max(problem.sizes.sum() / clients, 1.0)
    x = cp.Variable((clients, configurations), nonneg=True)
    wanted = np.hstack(problem.targets) / scale
    each_its_own = np.array_equal(problem.categories, np.arange(configurations)[:, None])
    if each_its_own and wanted.shape == x.shape:
        residual = x - wanted
    else:
        blocks = [one_hot(c, t.shape[1]) for c, t in zip(problem.categories.T, problem.targets, strict=True)]
        residual = x @ scipy.sparse.csr_array(np.hstack(blocks)) - wanted
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


def move(allocation: Matrix, first: tuple[int, int], second: tuple[int, int], size: float) -> Matrix:
    """Shift ``size`` rows round the rectangle that two entries span; row and column sums stay.

    Both entries lose ``size``, the other two corners gain it. RADFed, Algorithm 3.
    """
    (i, j), (k, m) = first, second
    moved = allocation.copy()
    for row, column, sign in ((i, j, -1), (k, m, -1), (i, m, 1), (k, j, 1)):
        moved[row, column] += sign * size
    return moved


def randomise(problem: Problem, allocation: Matrix, search: Search, rng: np.random.Generator) -> Matrix:
    """Return a random near-optimal allocation with the same row and column sums (RADFed, Algorithm 3).

    Args:
        problem: whose loss decides.
        allocation: where to start, usually the optimum.
        search: numbers of moves and their size.
        rng: for the moves.
    """
    walk = _Walk(problem, allocation, search)
    window = None
    if search.stop is not None:
        window = tuple(bound * bound * walk.loss for bound in search.stop)
    walk.run(search.burn_in, rng, window=window)
    return walk.run(search.steps, rng, keep_best=True)


class _Walk:
    """A random walk over allocations, with residuals and loss kept up to date move by move."""

    def __init__(self, problem: Problem, allocation: Matrix, search: Search) -> None:
        found = problem.marginals(allocation)
        offsets = np.cumsum([0, *(target.shape[1] for target in problem.targets[:-1])])
        self.allocation: list[list[float]] = allocation.tolist()
        self.residuals: list[list[float]] = (np.hstack(found) - np.hstack(problem.targets)).tolist()
        self.columns: list[list[int]] = (problem.categories + offsets).tolist()
        self.loss = problem.loss(allocation)
        self.limit = {
            "relative": math.inf,
            "samples": search.xi,
            "fraction": search.xi * float(problem.sizes.sum()),
        }[search.reading]
        self.factor = search.xi if search.reading == "relative" else 1.0

    def run(
        self,
        steps: int,
        rng: np.random.Generator,
        *,
        window: tuple[float, ...] | None = None,
        keep_best: bool = False,
    ) -> Matrix:
        """Make ``steps`` moves, fewer if the loss enters ``window``; return the best or last allocation."""
        allocation, residuals, columns = self.allocation, self.residuals, self.columns
        limit, factor, loss = self.limit, self.factor, self.loss
        low, high = (math.inf, -math.inf) if window is None else window
        least = math.inf if keep_best else -math.inf
        best = allocation
        done = 0
        while done < steps:
            block = min(BLOCK, steps - done)
            done += block
            rows = rng.integers(len(allocation), size=(2, block)).tolist()
            picks = rng.integers(len(columns), size=(2, block)).tolist()
            for i, k, j, m, share in zip(*rows, *picks, rng.random(block).tolist(), strict=True):
                own, other = allocation[i], allocation[k]
                bound = own[j]
                if other[m] < bound:
                    bound = other[m]
                if bound > limit:
                    bound = limit
                if bound > 0.0 and i != k and j != m:
                    size = share * factor * bound
                    own[j] -= size
                    other[m] -= size
                    own[m] += size
                    other[j] += size
                    gap, rest = residuals[i], residuals[k]
                    for a, b in zip(columns[j], columns[m], strict=True):
                        if a != b:
                            loss += 2.0 * size * (2.0 * size - gap[a] + gap[b] + rest[a] - rest[b])
                            gap[a] -= size
                            gap[b] += size
                            rest[a] += size
                            rest[b] -= size
                if loss < least:
                    least = loss
                    best = [row[:] for row in allocation]
                if low < loss < high:
                    done = steps
                    break
        self.loss = loss
        return np.array(best)


def round_exactly(allocation: Matrix, sizes: Counts, counts: Counts) -> Counts:
    """Round entries up or down so that row sums are ``sizes`` and column sums ``counts``.

    Which entries go up is the solution of a transportation problem that minimises the sum of changes; its
    vertices are integer, so sums are met exactly.

    Args:
        allocation: [clients, configurations], with these sums up to floating-point error.
        sizes: row sums.
        counts: column sums.
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
        missing = np.concatenate([sizes - result.sum(axis=1), counts - result.sum(axis=0)])
        cost = 1.0 - 2.0 * part[rows, columns]
        solved = scipy.optimize.linprog(
            cost,
            A_eq=scipy.sparse.vstack([per_row, per_column]),
            b_eq=missing,
            bounds=(0, 1),
            method="highs-ds",
        )
        if solved.x is None:
            raise SpecError(f"partition: the allocation can't be rounded ({solved.message})")
        result[rows, columns] += np.rint(solved.x).astype(np.int64)
    if (result.sum(axis=1) != sizes).any() or (result.sum(axis=0) != counts).any() or (result < 0).any():
        raise SpecError("partition: the allocation's sums are not those it should be rounded to")
    return result


def _ratio(wanted: Counts, found: Matrix) -> Matrix:
    return np.divide(wanted, found, out=np.ones(len(found)), where=found > 0)


class Options(PartitionOptions):
    """Concentrations, features and Algorithm 3's numbers, with the values of RADFed's sections IV-B and IV-D.

    Attributes:
        clients: how many.
        size_alpha: mu, the concentration of client sizes.
        class_alpha: lambda, of each client's class distribution.
        features: names of categorical columns of the data to skew too: eq. (2) instead of (1).
        feature_alpha: theta, the concentration of each client's distribution of each feature.
        feature_reading: ``categories`` takes a column as one feature with its categories; ``indicators``
            each category as a feature of its own with two, as the released code does.
        burn_in, steps, xi: P, Q and xi of Algorithm 3; no moves at all if both numbers are 0.
        xi_reading: what xi bounds, ``relative``, ``samples`` or ``fraction``; see ``Search``.
        stop: the burn-in ends once the root of the loss is within these multiples of the optimum's
            (released code); null runs all of it.
        min_size: sizes are redrawn until each is this many rows at least, before rounding (released: 0.5).
        legacy_seed: draw sizes and distributions from numpy's legacy generator with this seed.
    """

    clients: Clients
    size_alpha: Concentration = 1.0
    class_alpha: Concentration = 0.1
    features: tuple[str, ...] = ()
    feature_alpha: Concentration = 0.1
    feature_reading: Literal["categories", "indicators"] = "categories"
    burn_in: NonNegativeInt = 100_000
    steps: NonNegativeInt = 500_000
    xi: PositiveFloat = 0.002
    xi_reading: StepReading = "relative"
    stop: tuple[PositiveFloat, PositiveFloat] | None = (1.1, 1.2)
    min_size: NonNegativeFloat = 0.0
    legacy_seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Options:
        if self.stop is not None and self.stop[0] >= self.stop[1]:
            raise ValueError(f"stop: got {list(self.stop)}, expected a lower and a higher multiple")
        if self.xi_reading != "samples" and self.xi > 1:
            raise ValueError(f"xi: got {self.xi}, expected at most 1 for the reading '{self.xi_reading}'")
        return self

    def search(self) -> Search:
        """Return Algorithm 3's options."""
        return Search(self.burn_in, self.steps, self.xi, self.xi_reading, self.stop)


def draw_targets(
    options: Options, rows: int, categories: list[int], rng: np.random.Generator
) -> tuple[Counts, list[Matrix]]:
    """Draw integer client sizes and, for each dimension, each client's distribution over its categories.

    Args:
        options: concentrations and where the draws come from.
        rows: what the sizes add up to.
        categories: number of categories of each dimension; the first is the class.
        rng: unused with a legacy seed.

    Source: RADFed, section IV-A; sizes are drawn before distributions.

    Raises:
        SpecError: no draw has ``min_size`` rows everywhere.
    """
    legacy = None if options.legacy_seed is None else np.random.RandomState(options.legacy_seed)

    def draw(alpha: float, vectors: int, size: int) -> Matrix:
        if legacy is None:
            return draw_dirichlet(alpha, vectors, size, rng)
        return legacy.dirichlet(np.full(size, alpha), vectors)

    for _ in range(REDRAWS):
        shares = draw(options.size_alpha, 1, options.clients)[0]
        if (shares * rows >= options.min_size).all():
            break
    else:
        raise SpecError(
            f"partition.min_size: got {options.min_size:g}, but none of {REDRAWS} draws has that many rows "
            "on every client; lower it or clients, or raise size_alpha"
        )
    alphas = [options.class_alpha, *[options.feature_alpha] * (len(categories) - 1)]
    return integers(shares, rows), [
        draw(alpha, options.clients, size) for alpha, size in zip(alphas, categories, strict=True)
    ]


def allocate(problem: Problem, search: Search, rng: np.random.Generator) -> Counts:
    """Solve, randomise and round: a whole number of rows of each configuration for each client.

    Row and column sums equal ``problem.sizes`` and ``problem.counts``.

    Source: RADFed, eq. (1), (2) and Algorithm 3.
    """
    allocation = solve(problem)
    if search.burn_in or search.steps:
        allocation = randomise(problem, allocation, search, rng)
    return round_exactly(allocation, problem.sizes, problem.counts)


def deal_out(membership: NDArray[np.int64], allocation: Counts, rng: np.random.Generator) -> list[Rows]:
    """Give each client its number of rows of each configuration, picked at random.

    Args:
        membership: configuration of each row, [n].
        allocation: rows of each configuration on each client, [clients, configurations].
        rng: for the picking.
    """
    shuffled = rng.permutation(len(membership)).astype(np.int64)
    grouped = shuffled[np.argsort(membership[shuffled], kind="stable")]
    columns = [
        cut(own, column)
        for own, column in zip(cut(grouped, allocation.sum(axis=0)), allocation.T, strict=True)
    ]
    return gathered([[column[client] for column in columns] for client in range(len(allocation))])


def feature_columns(dataset: Dataset, options: Options) -> list[NDArray[np.int64]]:
    """Return the feature columns that eq. (2) takes besides the class, each numbered from 0.

    Raises:
        SpecError: the data have no such column.
    """
    columns = []
    for name in options.features:
        if name not in dataset.client_features:
            known = sorted(dataset.client_features)
            hint = (
                nearest(name, known)
                or f"; '{dataset.name}' has {', '.join(known) or 'no categorical columns'}"
            )
            raise SpecError(f"partition.features: no column named '{name}'{hint}")
        values, column = np.unique(dataset.client_features[name], return_inverse=True)
        if options.feature_reading == "categories":
            columns.append(column)
        elif len(values) > 1:
            columns.extend((column == value).astype(np.int64) for value in range(len(values)))
    return columns


def build(options: Options, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Draw targets for the training rows and meet them as closely as the data allow."""
    table = np.stack([dataset.train.y, *feature_columns(dataset, options)], axis=1)
    observed, membership, counts = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    categories = [dataset.classes, *(int(column.max()) + 1 for column in observed.T[1:])]
    sizes, proportions = draw_targets(options, len(table), categories, rng)
    targets = tuple(own * sizes[:, None] for own in proportions)
    problem = Problem(sizes, counts.astype(np.int64), observed, targets)
    allocation = allocate(problem, options.search(), rng)
    clients = deal_out(membership.reshape(-1), allocation, rng)
    note = f"QP, sizes Dirichlet({options.size_alpha:g}), classes Dirichlet({options.class_alpha:g})"
    if options.features:
        note += f", {' and '.join(options.features)} Dirichlet({options.feature_alpha:g})"
    return Partition(clients=tuple(clients), note=note)


PLUGIN = Plugin(
    name="qp",
    options=Options,
    build=build,
    summary="Sizes, classes and features skewed independently and reconciled by a quadratic program.",
    source="RADFed, section IV-A, eq. (1), (2), Algorithm 3",
    released="legacy_seed, min_size 0.5, burn_in 500000; COVFEAT with feature_reading indicators",
)
