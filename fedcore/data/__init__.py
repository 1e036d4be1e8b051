"""What a data set is once loaded, and where its files may come from."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.options import Options as Options
from fedcore.base.registry import Plugin as Plugin
from fedcore.base.rng import Streams

DataState = Literal["real", "subset", "rebuilt", "synthetic"]


@dataclass(frozen=True)
class Source:
    """Where data files are looked for: the local folder first, then the mirror, then upstream.

    Attributes:
        root: the project's data folder; ``root/demo`` holds demo data (without it, the package's own are
            used), ``root/fetched`` is a cache.
        mirror: a folder or URL that holds upstream's files (compressed or not), or None.
        offline: never go to upstream.
    """

    root: Path = Path("data")
    mirror: str | None = None
    offline: bool = False

    def __post_init__(self) -> None:
        """Take text for the folder, and a path for the mirror, too."""
        object.__setattr__(self, "root", Path(self.root))
        object.__setattr__(self, "mirror", None if self.mirror is None else str(self.mirror))


@dataclass(frozen=True)
class Size:
    """About how large a data set is, known before it is loaded: for guesses of time and memory."""

    rows: int  # of all uses
    inputs: tuple[int, ...]  # shape of one row
    classes: int
    clients: int = 100  # natural ones, or how many a partition is likely to have
    vocabulary: int | None = None  # number of symbols of token indices
    vectors: tuple[int, int] | None = None  # shape of pre-trained token vectors
    test: int | None = None  # test rows among all; None where the data set has none of its own


@dataclass(frozen=True)
class Rows:
    """Rows of one kind of use: ``x`` [n, ...] (float32, float64 or int64), ``y`` [n] int64.

    ``groups`` [n] gives each row's natural client (user, writer, role, hospital) as an index into
    ``Dataset.group_names``, or is None.
    """

    x: NDArray[np.generic]
    y: NDArray[np.int64]
    groups: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, chosen: NDArray[np.integer] | NDArray[np.bool_]) -> "Rows":
        """Return the rows of these indices, or those that a mask marks."""
        return Rows(self.x[chosen], self.y[chosen], None if self.groups is None else self.groups[chosen])

    def split(self, share: float, seed: int = 0) -> "tuple[Rows, Rows]":
        """Return the training rows, and a share that is drawn for testing: one row at least and not all."""
        count = min(max(1, round(share * len(self))), len(self) - 1)
        drawn = Streams(seed).get("test rows").permutation(len(self)) < count
        return self.take(~drawn), self.take(drawn)

    def joined(self, other: "Rows") -> "Rows":
        """Return these rows and then the other's: what a split by client starts from (RADFed, IV-C)."""
        groups = None
        if self.groups is not None and other.groups is not None:
            groups = np.concatenate([self.groups, other.groups])
        return Rows(np.concatenate([self.x, other.x]), np.concatenate([self.y, other.y]), groups)


@dataclass(frozen=True)
class Dataset:
    """A loaded data set, preprocessed and ready to be partitioned.

    Attributes:
        name: registered name.
        train: training rows.
        test: test rows.
        validation: validation rows, where the data bring their own.
        classes: number of classes.
        state: ``real`` (upstream's full data), ``subset`` of it, ``rebuilt`` or ``synthetic``.
        note: a short phrase for captions, such as "2,000 + 1,000 images of MNIST".
        group_names: names of the natural clients, if rows have any.
        vocabulary: number of symbols if x holds token indices, else None.
        embeddings: pre-trained token vectors [vocabulary, width], or None.
        client_features: categorical columns by name for partitions that use them (QP), [n] each.
        standardise_by_client: each client is to standardise its own features once rows are dealt out.
    """

    name: str
    train: Rows
    test: Rows
    classes: int
    state: DataState
    note: str
    validation: Rows | None = None
    group_names: tuple[str, ...] = ()
    vocabulary: int | None = None
    embeddings: NDArray[np.float32] | None = None
    client_features: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    standardise_by_client: bool = False

    def names_of(self, clients: Iterable[NDArray[np.int64]]) -> tuple[str | None, ...]:
        """Return each client's natural client (None: no rows); nothing if one has two, or two have one."""
        groups = self.train.groups if self.group_names else None
        held = [] if groups is None else [set(groups[rows].tolist()) for rows in clients]
        alone = all(len(places) < 2 for places in held) and len(set().union(*held)) == sum(map(len, held))
        return tuple(self.group_names[min(places)] if places else None for places in held) if alone else ()

    def sha256(self) -> str:
        """Return a hash of every array that partitioning, training or evaluation can see."""
        digest = hashlib.sha256()
        arrays: list[NDArray[np.generic] | None] = []
        for rows in (self.train, self.test, self.validation):
            arrays += [rows.x, rows.y, rows.groups] if rows is not None else []
        arrays += [self.embeddings, *(column for _, column in sorted(self.client_features.items()))]
        for array in arrays:
            if array is not None:
                digest.update(f"{array.dtype}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Partition:
    """Which rows of ``Dataset.train`` belong to whom.

    Attributes:
        clients: one sorted index array per training client, in client-id order; may be empty arrays.
        validation: rows held out for the server's validation set, which some algorithms train on.
        selection: rows held out to choose between runs, which nothing trains on.
        test: rows of ``train`` that are test rows, or None for ``Dataset.test``.
        dropped: rows that no one holds, by the partition's own definition.
        note: what a reader should know (convention, empty clients, what was dropped).
        held_out: one index array for each client that is held out whole, its rows being validation or
            test rows.
    """

    clients: tuple[NDArray[np.int64], ...]
    validation: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    selection: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    test: NDArray[np.int64] | None = None
    dropped: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    note: str = ""
    held_out: tuple[NDArray[np.int64], ...] = ()

    def sets(self) -> dict[str, NDArray[np.int64]]:
        """Return the rows that no training client holds, by name; ``test`` unless it is None."""
        sets = {"validation": self.validation, "selection": self.selection, "dropped": self.dropped}
        return sets if self.test is None else {**sets, "test": self.test}


def misfits(dataset: object) -> Iterator[str]:
    """Say what a loaded data set has that no run can use, and what was expected."""
    if not isinstance(dataset, Dataset):
        yield f"returned {type(dataset).__name__}, expected a Dataset"
        return
    used = {"train": dataset.train, "test": dataset.test, "validation": dataset.validation}
    for use, rows in used.items():
        arrays = isinstance(rows, Rows) and all(isinstance(part, np.ndarray) for part in (rows.x, rows.y))
        if not arrays and (rows is not None or use != "validation"):
            yield f"{use}: got {type(rows).__name__}, expected Rows whose x and y are arrays"
            return
    for use, rows in used.items():
        if rows is not None:
            yield from (f"{use}: {wrong}" for wrong in _misfits_of(rows, dataset))
            if use != "validation" and not len(rows):
                yield f"{use}: no rows, expected some"
    if not isinstance(features := dataset.client_features, Mapping):
        yield f"client_features: got {type(features).__name__}, expected arrays by name"
        return
    for name, cells in features.items():
        if not isinstance(cells, np.ndarray) or cells.shape != (len(dataset.train),):
            yield f"client_features '{name}': expected an array of one value a training row"


def _misfits_of(rows: Rows, dataset: Dataset) -> Iterator[str]:
    x, y, groups = rows.x, rows.y, rows.groups
    if len(x) != len(y):
        yield f"{len(x)} rows of x, {len(y)} labels"
    if x.shape[1:] != (shape := dataset.train.x.shape[1:]):
        yield f"rows have shape {x.shape[1:]}, training rows {shape}"
    if y.dtype != np.int64:
        yield f"labels are {y.dtype}, expected int64"
    if x.dtype not in (np.float32, np.float64, np.int64):
        yield f"x is {x.dtype}, expected float32, float64, or int64 for tokens"
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        yield "x has nan or inf"
    size = dataset.vocabulary
    if size and (x.dtype != np.int64 or x.min(initial=0) < 0 or x.max(initial=0) >= size):
        found = f"{x.dtype} from {x.min(initial=0)} to {x.max(initial=0)}"
        yield f"x is {found}, expected int64 tokens from 0 to {size - 1}"
    if len(y) and not 0 <= y.min() <= y.max() < dataset.classes:
        yield f"labels from {y.min()} to {y.max()}, expected 0 to {dataset.classes - 1}"
    names = len(dataset.group_names)
    if groups is not None and (not isinstance(groups, np.ndarray) or len(groups) != len(y)):
        yield f"groups are {type(groups).__name__} of shape {np.shape(groups)}, expected an array of {len(y)}"
    elif groups is not None and len(groups) and not 0 <= groups.min() <= groups.max() < names:
        yield f"groups from {groups.min()} to {groups.max()}, expected 0 to {names - 1}, as group_names has"
