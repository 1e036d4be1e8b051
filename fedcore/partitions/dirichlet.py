"""Dirichlet partitions: six conventions that share little but the name."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from fedcore import partitions
from fedcore.base.errors import SpecError
from fedcore.data import Dataset, Partition
from fedcore.partitions import Clients, Concentration, Indices, Labels, PartitionOptions, Plugin, Random

Convention = Literal["by_class", "by_class_min", "by_label", "by_client_sizes", "by_client", "fedomw"]

OWN_KEYS = {
    "size_alpha": ("by_client_sizes",),
    "min_rows": ("by_class_min", "fedomw"),
    "capped": ("by_class_min",),
    "shuffled": ("fedomw",),
    "legacy_seed": ("fedomw",),
    "retries": ("by_class_min", "fedomw"),
}


def by_class(
    labels: Labels, clients: int, alpha: float, rng: Random, *, capped: bool = False, floor: bool = False
) -> list[Indices]:
    """Deal each class out over the clients in proportions drawn from Dirichlet(alpha) over clients.

    Clients that hold ``n / clients`` rows already get proportion 0 of the next classes if it is ``capped``;
    ``floor`` adds 1 / (rows of the class) to each proportion. Cumulated proportions times the rows of the
    class are rounded down, with a slack of 1e-9 that keeps floating-point error from moving a row to a client
    of proportion 0. numpy's legacy generator gives what scripts written for it drew, which have no slack.

    Source: Yurochkin et al. 2019; NIID-Bench (Li et al. 2022), which is capped.
    """
    classes = [np.flatnonzero(labels == label).astype(np.int64) for label in np.unique(labels)]
    counts = np.zeros((len(classes), clients), dtype=np.int64)
    slack = 1e-9 if isinstance(rng, np.random.Generator) else 0.0
    for rows, count in zip(classes, counts, strict=True):
        rng.shuffle(rows)
        weights = partitions.draw_dirichlet(alpha, 1, clients, rng)[0]
        if capped:
            weights = weights * (counts.sum(axis=0) < len(labels) / clients)
        if floor:
            weights = weights + 1 / len(rows)
        if weights.sum() == 0:
            weights = np.ones(clients)
        ends = (np.cumsum(weights / weights.sum()) * len(rows) + slack).astype(np.int64)
        ends[-1] = len(rows)
        count[:] = np.diff(ends, prepend=0)
    return partitions.deal_classes(classes, counts, clients)


def by_class_min(
    labels: Labels, clients: int, alpha: float, rng: Random, *, min_rows: int, retries: int, **how: bool
) -> list[Indices]:
    """Repeat ``by_class`` until the smallest client has ``min_rows`` rows; ``how`` are its other keys.

    SpecError: rows or ``retries`` are too few. Source: NIID-Bench (Li et al. 2022); ComFed, section V.
    """
    if min_rows * clients > len(labels):
        raise SpecError(
            f"partition.min_rows: got {min_rows} for {clients} clients, expected at most "
            f"{len(labels) // clients} (there are {len(labels)} rows)"
        )
    best = 0
    for _ in range(retries):
        drawn = by_class(labels, clients, alpha, rng, **how)
        smallest = min(len(rows) for rows in drawn)
        if smallest >= min_rows:
            return drawn
        best = max(best, smallest)
    raise SpecError(
        f"partition.min_rows: got {min_rows}, but in {retries} draws the smallest client had {best} rows "
        "at most; lower min_rows or clients, or raise alpha"
    )


def by_label(labels: Labels, clients: int, alpha: float, rng: np.random.Generator) -> list[Indices]:
    """Give clients of equal size label proportions drawn from Dirichlet(alpha) over labels.

    The alpha of Hsu, Qi and Brown 2019 is this times the number of classes, if these are equally frequent.
    """
    proportions = partitions.draw_dirichlet(alpha, clients, len(np.bincount(labels)), rng)
    return deal(labels, partitions.even(len(labels), clients), proportions, rng)


def by_client_sizes(
    labels: Labels, clients: int, alpha: float, rng: np.random.Generator, *, size_alpha: float
) -> list[Indices]:
    """Draw client sizes from Dirichlet(size_alpha) and each client's label proportions from Dirichlet(alpha).

    These are the targets of RADFed's eq. (1) (section IV-A), met by drawing without replacement instead of by
    a quadratic program (plug-in ``qp``).
    """
    sizes = partitions.integers(partitions.draw_dirichlet(size_alpha, 1, clients, rng)[0], len(labels))
    proportions = partitions.draw_dirichlet(alpha, clients, len(np.bincount(labels)), rng)
    return deal(labels, sizes, proportions, rng)


def by_client(labels: Labels, clients: int, alpha: float, rng: np.random.Generator) -> list[Indices]:
    """Let clients with label proportions from Dirichlet(alpha) draw rows in turn until the data are used up.

    At each turn a client at random draws a label of its own proportions and takes a row of that label,
    if one is left. So each row of label c goes to client t with probability p_tc / sum_s p_sc, which is
    how it is done here. Labels are skewed, sizes nearly equal. (A second reading of ComFed, section V)
    """
    proportions = partitions.draw_dirichlet(alpha, clients, len(np.bincount(labels)), rng)
    classes = partitions.rows_of_classes(labels, rng)
    weights = [column if column.sum() > 0 else np.ones(clients) for column in proportions.T]
    counts = [rng.multinomial(len(rows), w / w.sum()) for rows, w in zip(classes, weights, strict=True)]
    return partitions.deal_classes(classes, counts, clients)


def fedomw(
    labels: Labels,
    clients: int,
    alpha: float,
    rng: np.random.Generator,
    *,
    min_rows: int,
    retries: int,
    shuffled: bool = False,
    legacy_seed: int | None = None,
) -> list[Indices]:
    """Capped ``by_class_min`` with 1 / (rows of the class) added to each proportion: FedOMW, section 5.1.

    As in its released code, ``shuffled`` maps the indices through a random permutation of the rows. Draws,
    but not the permutation, are those of numpy's legacy generator if it has a ``legacy_seed``.
    """
    source: Random = rng if legacy_seed is None else np.random.RandomState(legacy_seed)
    drawn = by_class_min(
        labels, clients, alpha, source, min_rows=min_rows, retries=retries, capped=True, floor=True
    )
    if not shuffled:
        return drawn
    order = rng.permutation(len(labels)).astype(np.int64)
    return [order[rows] for rows in drawn]


def deal(
    labels: Labels, sizes: NDArray[np.int64], proportions: NDArray[np.float64], rng: np.random.Generator
) -> list[Indices]:
    """Fill clients of given ``sizes``, [clients], by drawing rows without replacement.

    Clients are filled one after another in random order, in their label ``proportions`` [clients, classes].
    When a label runs out, a client's others stand in for it; when all of them have, it takes what is left.
    """
    classes = partitions.rows_of_classes(labels, rng)
    left = np.array([len(rows) for rows in classes], dtype=np.int64)
    counts = np.zeros((len(sizes), len(classes)), dtype=np.int64)
    for client in rng.permutation(len(sizes)):
        need = int(sizes[client])
        while need:
            weights = np.where(left > 0, proportions[client], 0.0)
            if weights.sum() <= 0:
                weights = left.astype(float)
            taken = np.minimum(rng.multinomial(need, weights / weights.sum()), left)
            counts[client] += taken
            left -= taken
            need -= int(taken.sum())
    return partitions.deal_classes(classes, counts.T, len(sizes))


class Options(PartitionOptions):
    """Which convention, for how many clients, how concentrated.

    Attributes:
        alpha: the concentration; small is skewed.
        convention: ``by_class``, ``by_class_min``, ``by_label``, ``by_client_sizes``, ``by_client`` or
            ``fedomw``; see the functions of these names in ``fedcore.partitions.dirichlet``.
        size_alpha: ``by_client_sizes``: concentration of the client sizes (default 1).
        min_rows: ``by_class_min``, ``fedomw``: least rows a client may have (default 10).
        capped: ``by_class_min``: a client that holds its even share already gets nothing of the next class.
        shuffled: ``fedomw``: apply the index lists to shuffled data, as the released code does; labels are
            IID then and sizes alone are skewed.
        legacy_seed: ``fedomw``: draw from numpy's legacy generator with this seed (released: 2020).
        retries: how often a draw below ``min_rows`` is repeated.
    """

    clients: Clients
    alpha: Concentration
    convention: Convention
    size_alpha: Concentration | None = None
    min_rows: NonNegativeInt | None = None
    capped: bool = False
    shuffled: bool = False
    legacy_seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    retries: PositiveInt = 10_000

    @model_validator(mode="after")
    def _own_keys_only(self) -> Self:
        for key, allowed in OWN_KEYS.items():
            given = getattr(self, key) != type(self).model_fields[key].default
            if given and self.convention not in allowed:
                raise ValueError(f"{key}: only for convention {' or '.join(allowed)}, not {self.convention}")
        return self


def build(options: Options, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Split the training rows by the convention asked for."""
    least = 10 if options.min_rows is None else options.min_rows
    repeated: dict[str, Any] = {"min_rows": least, "retries": options.retries}
    conventions: Mapping[Convention, Callable[..., list[Indices]]] = {
        "by_class": by_class,
        "by_class_min": partial(by_class_min, capped=options.capped, **repeated),
        "by_label": by_label,
        "by_client_sizes": partial(by_client_sizes, size_alpha=options.size_alpha or 1.0),
        "by_client": by_client,
        "fedomw": partial(fedomw, shuffled=options.shuffled, legacy_seed=options.legacy_seed, **repeated),
    }
    drawn = conventions[options.convention](dataset.train.y, options.clients, options.alpha, rng)
    shuffled = ", labels shuffled" if options.shuffled else ""
    return Partition(tuple(drawn), note=f"Dirichlet({options.alpha:g}) {options.convention}{shuffled}")


PLUGIN = Plugin(
    "dirichlet",
    Options,
    build,
    "Dirichlet skew by one of six named conventions",
    "Yurochkin et al. 2019; Hsu et al. 2019; NIID-Bench; RADFed, IV-A; ComFed, V; FedOMW, 5.1",
    released="fedomw: shuffled with legacy_seed 2020, so that labels are IID and sizes alone are skewed",
)
