"""The LIBSVM sets: a1a, svmguide1, splice, vehicle, dna, pendigits, satimage, usps, letter.

Features are taken as LIBSVM ships them unless another scaling is asked for; labels become 0, 1, ... in
increasing order of what the file says (-1 before +1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedcore.base.errors import DataError
from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.base.rng import Streams
from fedcore.data import Dataset, Rows, Size, Source
from fedcore.data.download import Declaration, Entry, fetch
from fedcore.data.download.facts import declared
from fedcore.data.readers import read_libsvm, read_npz
from fedcore.data.standardise import minmax, standardise

Scaling = Literal["as_shipped", "minmax", "standard"]
VEHICLE_TRAIN = 500
DECLARATIONS = tuple(declared(__file__).values())
FEATURES = {known.name: int(known.shape.strip("[]")) for known in DECLARATIONS}


class LibsvmOptions(Options):
    """``scaling``: ``minmax`` to [0, 1] or ``standard`` (z-score), both by the training rows."""

    edition: Literal["full", "demo"] = "full"
    scaling: Scaling = "as_shipped"


class RebuiltOptions(LibsvmOptions):
    """``edition: rebuilt`` takes files put together from other copies of the same data."""

    edition: Literal["full", "rebuilt", "demo"] = "full"  # type: ignore[assignment]


class VehicleOptions(LibsvmOptions):
    """``split_seed``: of the split of LIBSVM's one file into 500 + 346 rows (the demo has seed 0's)."""

    split_seed: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True)
class Raw:
    """Features [n, d] (float64) and labels as the files have them, by use."""

    train_x: NDArray[Any]
    train_y: NDArray[Any]
    test_x: NDArray[Any]
    test_y: NDArray[Any]


def raw(declaration: Declaration, edition: str, source: Source, split_seed: int = 0) -> Raw:
    """Read a set without any preprocessing."""
    name = declaration.name
    if edition == "demo":
        path = fetch.demo_file(source, f"libsvm/{name}.npz")
        return Raw(*read_npz(path, "train_x", "train_y", "test_x", "test_y"))
    paths = list(fetch.obtain(declaration, edition, source).values())
    parts = [read_libsvm(path, FEATURES[name]) for path in paths]
    if len(parts) == 1:
        x, y = parts[0]
        order = Streams(split_seed).get(f"{name}/split").permutation(len(y))
        some, others = np.sort(order[:VEHICLE_TRAIN]), np.sort(order[VEHICLE_TRAIN:])
        parts = [(x[some], y[some]), (x[others], y[others])]
    return Raw(*parts[0], *parts[1])


def load(declaration: Declaration, options: LibsvmOptions, source: Source) -> Dataset:
    """Load one set: x float32 [n, d], y in 0..classes-1.

    Raises:
        DataError: files are missing or damaged, or the test rows have a label that training rows lack.
    """
    data = raw(declaration, options.edition, source, getattr(options, "split_seed", 0))
    labels, train_y = np.unique(data.train_y, return_inverse=True)
    if not np.isin(data.test_y, labels).all():
        raise DataError(f"{declaration.name}: test rows have a label that training rows lack")
    transforms: dict[str, Callable[..., tuple[NDArray[Any], ...]]] = {
        "as_shipped": lambda *arrays: arrays,
        "minmax": minmax,
        "standard": standardise,
    }
    train_x, test_x = transforms[options.scaling](
        data.train_x.astype(np.float64), data.test_x.astype(np.float64)
    )
    edition = declaration.edition(options.edition)
    return Dataset(
        declaration.name,
        Rows(train_x.astype(np.float32), train_y.astype(np.int64)),
        Rows(test_x.astype(np.float32), np.searchsorted(labels, data.test_y)),
        declaration.classes,
        edition.state,
        edition.note,
    )


def _plugin(declaration: Declaration) -> Plugin:
    options: type[LibsvmOptions] = LibsvmOptions
    if declaration.name == "vehicle":
        options = VehicleOptions
    elif "rebuilt" in declaration.editions:
        options = RebuiltOptions

    def build(options: LibsvmOptions, source: Source) -> Dataset:
        return load(declaration, options, source)

    def size(options: LibsvmOptions) -> Size:
        rows = sum(declaration.editions[options.edition].counts.values())
        return Size(rows, (FEATURES[declaration.name],), declaration.classes)

    summary = f"{FEATURES[declaration.name]} features, {declaration.classes} classes: {declaration.title}"
    return Plugin(declaration.name, options, build, summary, declaration.citation, size=size)


def _entry(declaration: Declaration) -> Entry:
    def counts(edition: str, source: Source) -> dict[str, int]:
        data = raw(declaration, edition, source)
        return {"train": len(data.train_y), "test": len(data.test_y)}

    return Entry(declaration, counts)


PLUGINS = tuple(_plugin(declaration) for declaration in DECLARATIONS)
ENTRIES = tuple(_entry(declaration) for declaration in DECLARATIONS)
