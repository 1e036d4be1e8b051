"""FEMNIST: handwritten characters by writer, in LEAF's json."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.data import Dataset, Rows, Size, Source
from fedcore.data.datasets.images import Scaling, scale_pixels
from fedcore.data.download import Entry, cache, fetch
from fedcore.data.download.facts import declared
from fedcore.data.readers import read_leaf, read_npz

MEAN, STD = (0.9611606,), (0.1655615,)
CLASSES = 62
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
    paths = _leaf_folder(source) if edition == "full" else fetch.obtain(DECLARATION, edition, source)
    return cache.derived(source, f"femnist-{edition}-1", paths, lambda: _parse(paths))


def _leaf_folder(source: Source) -> dict[str, Path]:
    folder = source.root / "fetched" / "femnist" / "leaf"
    found = {f"{use}/{path.name}": path for use in ("train", "test") for path in _jsons(folder / use)}
    if not {name.split("/")[0] for name in found} == {"train", "test"}:
        raise DataError(f"{folder}: no train and test json files; {DECLARATION.edition('full').how}")
    return found


def _jsons(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def _parse(paths: dict[str, Path]) -> dict[str, NDArray[Any]]:
    parts = {
        use: read_leaf(path for path in paths.values() if path.parent.name == use)
        for use in ("train", "test")
    }
    names = sorted(parts["train"]) + sorted(parts["test"].keys() - parts["train"].keys())
    arrays: dict[str, NDArray[Any]] = {"names": np.array(names)}
    for use, users in parts.items():
        own = [name for name in names if name in users]
        where = next((path for path in paths.values() if path.parent.name == use), Path(use))
        arrays[f"{use}_x"] = _images(where, [image for name in own for image in users[name][0]])
        arrays[f"{use}_y"] = _labels(where, [label for name in own for label in users[name][1]])
        counts = [len(users[name][1]) for name in own]
        arrays[f"{use}_writer"] = np.repeat([names.index(name) for name in own], counts)
    return arrays


def _images(path: Path, values: list[Any]) -> NDArray[np.uint8]:
    try:
        x = np.array(values, np.float32).reshape(-1, 28, 28)
    except (ValueError, TypeError):
        raise DataError(f"{path.parent}: an image does not have 784 numbers") from None
    if not (np.isfinite(x).all() and x.min(initial=0) >= 0 and x.max(initial=0) <= 1):
        raise DataError(f"{path.parent}: pixels outside [0, 1]")
    return np.rint(x * 255).astype(np.uint8)


def _labels(path: Path, values: list[Any]) -> NDArray[np.uint8]:
    y = np.array(values)
    if y.dtype.kind != "i" or not 0 <= y.min(initial=0) <= y.max(initial=0) < CLASSES:
        raise DataError(f"{path.parent}: labels must be integers from 0 to {CLASSES - 1}")
    return y.astype(np.uint8)


def size(options: FemnistOptions) -> Size:
    """Return how large an edition is; of LEAF's whole set, about."""
    known = DECLARATION.editions[options.edition].counts
    return Size(known["train"] + known["test"] if known else 800_000, (1, 28, 28), 62)


def counts(edition: str, source: Source) -> dict[str, int]:
    """Return the numbers of images and of writers with training and with test images."""
    data = pixels(edition, source)
    uses = ("train", "test")
    images = {use: len(data[f"{use}_y"]) for use in uses}
    return images | {f"{use}_writers": len(np.unique(data[f"{use}_writer"])) for use in uses}


def build(options: FemnistOptions, source: Source) -> Dataset:
    """Load FEMNIST: x float32 [n, 1, 28, 28], one group a writer; writers with training rows come first.

    Raises:
        DataError: files are missing or damaged.
    """
    data = pixels(options.edition, source)
    edition = DECLARATION.edition(options.edition)
    names = [str(name) for name in data["names"]]
    writers = 1 + int(data["train_writer"].max())

    def rows(use: str, keep: NDArray[np.bool_]) -> Rows:
        x = scale_pixels(data[f"{use}_x"][keep][:, None], options.scaling, MEAN, STD)
        return Rows(x, data[f"{use}_y"][keep].astype(np.int64), data[f"{use}_writer"][keep].astype(np.int64))

    known = data["test_writer"] < writers
    test = rows("test", known | options.unseen_writers)
    train = rows("train", np.ones(len(data["train_y"]), np.bool_))
    seen = names if options.unseen_writers else names[:writers]
    return Dataset("femnist", train, test, CLASSES, edition.state, edition.note, group_names=tuple(seen))


PLUGIN = Plugin(
    "femnist",
    FemnistOptions,
    build,
    "handwritten characters by writer, 62 classes",
    "Caldas et al. 2018 (LEAF)",
    size=size,
)
ENTRY = Entry(DECLARATION, counts)
