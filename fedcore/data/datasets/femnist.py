"""FEMNIST: handwritten characters by writer, in LEAF's json."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.data import Dataset, Options, Plugin, Rows, Size, Source
from fedcore.data.datasets.images import Scaling, scale_pixels
from fedcore.data.download import Entry, cache, declared, fetch
from fedcore.data.readers import read_leaf, read_npz

MEAN, STD = (0.9611606,), (0.1655615,)
CLASSES = 62
USES = ("train", "test")
WRITERS = "femnist/writers.npz"
DECLARATION = declared(__file__)["femnist"]


class FemnistOptions(Options):
    """``scaling``: see ``scale_pixels``; ``unseen_writers``: also test on writers without training rows."""

    edition: Literal["full", "sample", "demo"] = "full"
    scaling: Scaling = "standard"
    unseen_writers: bool = False


def pixels(edition: str, source: Source) -> dict[str, NDArray[Any]]:
    """Return ``{train,test}_x`` [n, 28, 28] (bytes), ``_y``, ``_writer`` (index), and writers' ``names``."""
    names = ("train_x", "train_y", "train_writer", "test_x", "test_y", "test_writer", "names")
    if edition == "demo":
        return dict(zip(names, read_npz(fetch.demo_file(source, WRITERS), *names), strict=True))
    if edition == "full":
        folder = source.root / "fetched" / "femnist" / "leaf"
        paths = {f"{use}/{path.name}": path for use in USES for path in sorted((folder / use).glob("*.json"))}
        if {path.parent.name for path in paths.values()} != set(USES):
            raise DataError(f"{folder}: no train and test json files; {DECLARATION.edition('full').how}")
    else:
        paths = fetch.obtain(DECLARATION, edition, source)
    files = {use: [path for path in paths.values() if path.parent.name == use] for use in USES}
    name = f"femnist-{edition}-1-{len(files['train'])}"  # in order, so many of the checksums are of training
    return cache.derived(source, name, paths, lambda: _parse(files))


def _parse(files: dict[str, list[Path]]) -> dict[str, NDArray[Any]]:
    train, test = (read_leaf(files[use]) for use in USES)
    names = sorted(train) + sorted(test.keys() - train.keys())
    arrays: dict[str, NDArray[Any]] = {"names": np.array(names)}
    for use, users in zip(USES, (train, test), strict=True):
        writers = [index for index, name in enumerate(names) if name in users]
        samples = [users[names[index]] for index in writers]
        arrays[f"{use}_x"] = _images(files[use][0].parent, [image for x, _ in samples for image in x])
        arrays[f"{use}_y"] = _labels(files[use][0].parent, [label for _, y in samples for label in y])
        arrays[f"{use}_writer"] = np.repeat(writers, [len(y) for _, y in samples])
    return arrays


def _images(folder: Path, values: list[Any]) -> NDArray[np.uint8]:
    try:
        x = np.array(values, np.float32).reshape(len(values), 28, 28)
    except (ValueError, TypeError):
        raise DataError(f"{folder}: an image does not have 784 numbers") from None
    if not (np.isfinite(x).all() and x.min(initial=0) >= 0 and x.max(initial=0) <= 1):
        raise DataError(f"{folder}: pixels outside [0, 1]")
    return np.rint(x * 255).astype(np.uint8)


def _labels(folder: Path, values: list[Any]) -> NDArray[np.uint8]:
    y = np.array(values)
    if y.dtype.kind != "i" or not 0 <= y.min(initial=0) <= y.max(initial=0) < CLASSES:
        raise DataError(f"{folder}: labels must be integers from 0 to {CLASSES - 1}")
    return y.astype(np.uint8)


def size(options: FemnistOptions) -> Size:
    """Return how large an edition is; of LEAF's whole set, about."""
    rows = DECLARATION.editions[options.edition].counts
    return Size(sum(rows.get(use, 0) for use in USES) or 800_000, (1, 28, 28), CLASSES, test=rows.get("test"))


def counts(edition: str, source: Source) -> dict[str, int]:
    """Return the numbers of images and of writers with training and with test images."""
    data = pixels(edition, source)
    images = {use: len(data[f"{use}_y"]) for use in USES}
    return images | {f"{use}_writers": len(np.unique(data[f"{use}_writer"])) for use in USES}


def build(options: FemnistOptions, source: Source) -> Dataset:
    """Load FEMNIST: x float32 [n, 1, 28, 28], one group per writer; writers with training rows come first."""
    data = pixels(options.edition, source)
    names = tuple(map(str, data["names"]))
    seen = len(names) if options.unseen_writers else 1 + int(data["train_writer"].max())

    def rows(use: str) -> Rows:
        keep = data[f"{use}_writer"] < seen
        x, y, writer = (data[f"{use}_{part}"][keep] for part in ("x", "y", "writer"))
        x = scale_pixels(x[:, None], options.scaling, MEAN, STD)
        return Rows(x, y.astype(np.int64), writer.astype(np.int64))

    return DECLARATION.dataset(options.edition, rows("train"), rows("test"), group_names=names[:seen])


PLUGIN = Plugin(
    "femnist",
    FemnistOptions,
    build,
    "handwritten characters by writer, 62 classes",
    "Caldas et al. 2018 (LEAF)",
    size=size,
)
ENTRY = Entry(DECLARATION, counts)
