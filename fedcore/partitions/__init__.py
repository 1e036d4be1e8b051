"""What all partitions share: options, and the dealing of rows, whose classes ``labels`` [n] are."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from fedcore.base.errors import SpecError as SpecError
from fedcore.base.options import Clients as Clients
from fedcore.base.options import Options, omit_default
from fedcore.base.registry import Plugin as Plugin

Indices = NDArray[np.int64]
Labels = NDArray[np.integer]
Random = np.random.Generator | np.random.RandomState
Fraction = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
Concentration = Annotated[float, Field(ge=1e-6)]


class Fold(Options):
    """One fold of a split by client: whole clients are training, validation or test clients.

    The clients are dealt into ``of`` sets; set ``index`` is the test set, the set ``rotation`` places
    after it (cyclically) the validation set, the others train. RADFed, section IV-C.
    """

    of: Annotated[int, Field(ge=3)] = 5
    index: NonNegativeInt
    rotation: PositiveInt = 1

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        if self.index >= self.of:
            raise ValueError(f"index: got {self.index}, expected 0 to {self.of - 1} (of {self.of} folds)")
        if self.rotation >= self.of:
            raise ValueError(f"rotation: got {self.rotation}, expected 1 to {self.of - 1}")
        return self

    @property
    def validation(self) -> int:
        """The index of the set that validates."""
        return (self.index + self.rotation) % self.of


class PartitionOptions(Options):
    """The keys that every partition understands.

    ``validation`` of the pool, ``selection`` and ``test`` are cut in this order from one permutation: each
    moves the next, so methods to be compared need the same shares.

    Attributes:
        seed: a seed of its own, so that repetitions share one partition; None takes the run's seed.
        validation: fraction of the rows that the server holds out for validation; DL-opt and FedOMW train
            on them.
        validation_from: ``clients`` takes the fraction (rounded down) of each client's rows; ``pool``
            takes it of all rows before they are partitioned.
        selection: fraction of all rows, taken before they are partitioned, that nothing trains on: for
            choosing between runs, which are measured there under ``evaluation.tested_on: selection``.
        test: fraction of all rows that are taken likewise, as test rows in place of the data's own.
        noise: client k of N (from 1) has Gaussian noise of variance ``noise k / N`` on its inputs: the
            noise-based feature imbalance of NIID-Bench (Li et al., ICDE 2022).
        fold: split by client, see ``Fold``; excludes ``validation``, ``selection`` and ``test``.
    """

    seed: NonNegativeInt | None = None
    validation: Share = 0.0
    validation_from: Literal["clients", "pool"] = "clients"
    selection: Share = omit_default(0.0)
    test: Share = omit_default(0.0)
    noise: NonNegativeFloat = omit_default(0.0)
    fold: Fold | None = None

    @model_validator(mode="after")
    def _one_validation_set(self) -> Self:
        if self.fold is not None and self.validation > 0:
            raise ValueError("validation and fold both define the validation rows, expected one of them")
        if self.fold is not None and (self.selection or self.test):
            raise ValueError("selection and test take rows, fold takes whole clients; expected one of them")
        if (taken := sum(self.from_pool().values())) >= 1:
            raise ValueError(f"got {taken:g} of all rows held out, expected less than 1")
        return self

    def seed_or(self, seed: int) -> int:
        """Return the partition's seed, or else the run's."""
        return seed if self.seed is None else self.seed

    def from_pool(self) -> dict[str, float]:
        """Return the share of each set that is taken of all rows before these are partitioned."""
        validation = self.validation if self.validation_from == "pool" else 0.0
        return {"validation": validation, "selection": self.selection, "test": self.test}


def rows_of_classes(labels: Labels, rng: np.random.Generator) -> list[Indices]:
    """Return the rows of each class 0..max(labels) in random order."""
    return cut(by_label(labels, rng), np.bincount(labels))


def by_label(labels: Labels, rng: np.random.Generator) -> Indices:
    """Return all rows sorted by label, rows of one label in random order."""
    shuffled = rng.permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")].astype(np.int64)


def deal_classes(
    classes: Sequence[Indices], counts: Iterable[NDArray[np.integer]], clients: int
) -> list[Indices]:
    """Deal each class's rows out in order, ``counts[c][k]`` of class c to client k, and join by client."""
    pieces = [cut(rows, count) for rows, count in zip(classes, counts, strict=True)]
    return [joined(piece[k] for piece in pieces) for k in range(clients)]


def joined(parts: Iterable[Indices]) -> Indices:
    """Return the rows of all parts in one array; of no part, an empty one."""
    return np.concatenate([np.empty(0, np.int64), *parts])


def cut(rows: Indices, counts: NDArray[np.integer]) -> list[Indices]:
    """Cut ``rows`` into consecutive pieces of the given lengths (which add up to ``len(rows)``)."""
    return np.split(rows, np.cumsum(counts)[:-1]) if len(counts) else []


def even(total: int, parts: int) -> NDArray[np.int64]:
    """Return counts [parts] that add up to ``total`` and differ by one at most, larger ones first."""
    return total // parts + (np.arange(parts) < total % parts).astype(np.int64)


def floor_share(share: float, total: int) -> int:
    """Return ``share`` of ``total`` rounded down; .29 of 100 is 29, though .29 * 100 < 29 in binary."""
    return int(share * total + 1e-9)


def integers(shares: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Round non-negative ``shares`` [parts] to counts that add up to ``total``: largest remainders go up.

    Shares are relative (they need not add up to one); all zero means equal shares. SpecError: infinite sum.
    """
    mass = _finite(shares).sum()
    exact = shares * (total / mass) if mass > 0 else np.full(len(shares), total / len(shares))
    counts = np.floor(exact).astype(np.int64)
    largest = np.argsort(counts - exact, kind="stable")
    counts[largest[: total - counts.sum()]] += 1
    return counts  # type: ignore[no-any-return]


def _finite(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    if not np.isfinite(shares.sum()):
        raise SpecError("partition: shares are beyond the range of numbers, expected less extreme options")
    return shares


def draw_dirichlet(alpha: float, rows: int, size: int, rng: Random) -> NDArray[np.float64]:
    """Draw symmetric Dirichlet vectors [rows, size].

    Gamma variates are drawn as logarithms (Gamma(a) = Gamma(a + 1) U^(1/a)), so that tiny ``alpha``
    gives vectors with one entry near 1 instead of 0/0. numpy's legacy generator draws as scripts for it do,
    where a tiny ``alpha`` can be a SpecError.
    """
    if isinstance(rng, np.random.RandomState):
        return _finite(rng.dirichlet(np.full(size, alpha), rows))
    log = np.log(rng.standard_gamma(alpha + 1, (rows, size))) + np.log1p(-rng.random((rows, size))) / alpha
    weights = np.exp(log - log.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]
