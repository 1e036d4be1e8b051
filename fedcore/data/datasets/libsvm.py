"""The LIBSVM sets: a1a, svmguide1, splice, vehicle, dna, pendigits, satimage, usps, letter.

Features are taken as LIBSVM ships them unless another scaling is asked for; labels become 0, 1, ... in
increasing order of what the file says (-1 before +1).
"""

from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt

from fedcore.base.errors import DataError
from fedcore.base.options import omit_default
from fedcore.base.rng import Streams
from fedcore.data import Dataset, Options, Plugin, Rows, Source
from fedcore.data.download import Declaration, Entry, declared, fetch
from fedcore.data.readers import USES, read_libsvm, read_npz
from fedcore.data.standardise import SCALINGS

Scaling = Literal["as_shipped", "minmax", "standard"]
VEHICLE_TRAIN = 500
DECLARATIONS = tuple(declared(__file__).values())
FEATURES = {declaration.name: int(declaration.shape.strip("[]")) for declaration in DECLARATIONS}


class LibsvmOptions(Options):
    """``scaling``: ``minmax`` to [0, 1] or ``standard`` (z-score), both by the training rows.

    ``pool``: train rows are all rows, for a split into new sets.
    """

    edition: Literal["full", "demo"] = "full"
    scaling: Scaling = "as_shipped"
    pool: bool = omit_default(False)


class RebuiltOptions(LibsvmOptions):
    """``edition: rebuilt`` takes files put together from other copies of the same data."""

    edition: Literal["full", "rebuilt", "demo"] = "full"  # type: ignore[assignment]


class VehicleOptions(LibsvmOptions):
    """``split_seed``: of the split of LIBSVM's one file into 500 + 346 rows (the demo has seed 0's)."""

    split_seed: NonNegativeInt = 0


def raw(data: Declaration, edition: str, source: Source, split_seed: int = 0) -> tuple[NDArray[Any], ...]:
    """Return training features [n, d] and labels, test features and labels, without any preprocessing."""
    if edition == "demo":
        return read_npz(fetch.demo_file(source, f"libsvm/{data.name}.npz"), *USES)
    paths = fetch.obtain(data, edition, source).values()
    arrays = [array for path in paths for array in read_libsvm(path, FEATURES[data.name])]
    if len(arrays) == 2:
        x, y = arrays
        order = Streams(split_seed).get(f"{data.name}/split").permutation(len(y))
        train, test = np.sort(order[:VEHICLE_TRAIN]), np.sort(order[VEHICLE_TRAIN:])
        arrays = [x[train], y[train], x[test], y[test]]
    return tuple(arrays)


def load(declaration: Declaration, options: LibsvmOptions, source: Source) -> Dataset:
    """Load one set: x float32 [n, d], y in 0..classes-1, labels that training rows have."""
    seed = options.split_seed if isinstance(options, VehicleOptions) else 0
    train_x, train_labels, test_x, test_labels = raw(declaration, options.edition, source, seed)
    labels, train_y = np.unique(train_labels, return_inverse=True)
    if not np.isin(test_labels, labels).all():
        raise DataError(f"{declaration.name}: test rows have a label that training rows lack")
    train_x, test_x = SCALINGS[options.scaling](train_x.astype(np.float64), test_x.astype(np.float64))
    train = Rows(train_x.astype(np.float32), train_y.astype(np.int64))
    test = Rows(test_x.astype(np.float32), np.searchsorted(labels, test_labels))
    return declaration.dataset(options.edition, train.joined(test) if options.pool else train, test)


def _plugin(declaration: Declaration) -> Plugin:
    rebuilt = RebuiltOptions if "rebuilt" in declaration.editions else LibsvmOptions
    features = FEATURES[declaration.name]
    options = VehicleOptions if declaration.name == "vehicle" else rebuilt
    return Plugin(
        declaration.name,
        options,
        lambda options, source: load(declaration, options, source),
        f"{features} features, {declaration.classes} classes: {declaration.title}",
        declaration.citation,
        size=lambda options: declaration.size(options.edition, (features,)),
    )


def counts(declaration: Declaration, edition: str, source: Source) -> dict[str, int]:
    """Return the numbers of training and test rows."""
    _, train, _, test = raw(declaration, edition, source)
    return {"train": len(train), "test": len(test)}


PLUGINS = tuple(map(_plugin, DECLARATIONS))
ENTRIES = tuple(Entry(declaration, partial(counts, declaration)) for declaration in DECLARATIONS)
