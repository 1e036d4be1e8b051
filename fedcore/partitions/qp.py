"""RADFed's partition: sizes, classes and features skewed independently, met by a quadratic program."""

from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, model_validator

from fedcore import partitions
from fedcore.base.options import nearest
from fedcore.data import Dataset, Partition
from fedcore.partitions import Clients, Concentration, PartitionOptions, Plugin, Random, SpecError
from fedcore.partitions.allocation import QP, Counts, Matrix, Search, StepReading, allocate

REDRAWS = 1000


class Options(PartitionOptions):
    """Concentrations, features and Algorithm 3's numbers, with the values of RADFed's sections IV-B and IV-D.

    Attributes:
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
    def _in_order(self) -> Self:
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
    """Draw client sizes [clients] of sum ``rows``, then, by dimension, distributions [clients, categories].

    ``categories`` are their numbers by dimension, first the class. ``rng`` is not used with a legacy seed.
    SpecError: no draw has ``min_size`` rows everywhere. (RADFed, section IV-A)
    """
    source: Random = rng if options.legacy_seed is None else np.random.RandomState(options.legacy_seed)
    for _ in range(REDRAWS):
        shares = partitions.draw_dirichlet(options.size_alpha, 1, options.clients, source)[0]
        if (shares * rows >= options.min_size).all():
            break
    else:
        raise SpecError(
            f"partition.min_size: got {options.min_size:g}, but none of {REDRAWS} draws has that many rows "
            "on every client; lower it or clients, or raise size_alpha"
        )
    alphas = [options.class_alpha, *[options.feature_alpha] * (len(categories) - 1)]
    return partitions.integers(shares, rows), [
        partitions.draw_dirichlet(alpha, options.clients, size, source)
        for alpha, size in zip(alphas, categories, strict=True)
    ]


def feature_columns(dataset: Dataset, options: Options) -> list[NDArray[np.int64]]:
    """Return eq. (2)'s columns besides the class, each [n] from 0; SpecError: the data lack one."""
    columns = []
    for name in options.features:
        if name not in dataset.client_features:
            names = sorted(dataset.client_features)
            has = f"; '{dataset.name}' has {', '.join(names) or 'no categorical columns'}"
            raise SpecError(f"partition.features: no column named '{name}'{nearest(name, names) or has}")
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
    targets = tuple(proportion * sizes[:, None] for proportion in proportions)
    problem = QP(sizes, counts.astype(np.int64), observed, targets)
    allocation = allocate(problem, options.search(), rng)
    rows = partitions.rows_of_classes(membership.reshape(-1), rng)
    clients = partitions.deal_classes(rows, allocation.T, options.clients)
    note = f"QP, sizes Dirichlet({options.size_alpha:g}), classes Dirichlet({options.class_alpha:g})"
    if options.features:
        note += f", {' and '.join(options.features)} Dirichlet({options.feature_alpha:g})"
    return Partition(clients=tuple(clients), note=note)


PLUGIN = Plugin(
    "qp",
    Options,
    build,
    "sizes, classes and features skewed independently and reconciled by a quadratic program",
    "RADFed, section IV-A, eq. (1), (2), Algorithm 3",
    released="legacy_seed, min_size 0.5, burn_in 500000; COVFEAT with feature_reading indicators",
)
