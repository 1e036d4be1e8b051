"""MNIST: 28 x 28 images of handwritten digits."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.data import Dataset, Rows, Size, Source
from fedcore.data.datasets.images import Scaling, pooled, scale_pixels
from fedcore.data.download import Entry, fetch
from fedcore.data.download.facts import declared
from fedcore.data.readers import read_idx, read_npz

MEAN, STD = (0.1306604762738429,), (0.30810780717887876,)
DECLARATION = declared(__file__)["mnist"]


class MnistOptions(Options):
    """``scaling``: see ``scale_pixels``; ``pool``: train rows are all rows, for a split by client."""

    edition: Literal["full", "demo"] = "full"
    scaling: Scaling = "standard"
    pool: bool = False


def pixels(edition: str, source: Source) -> tuple[NDArray[np.uint8], ...]:
    """Return train images [n, 28, 28], train labels, test images, test labels as bytes."""
    if edition == "demo":
        path = fetch.demo_file(source, "mnist/mnist.npz")
        return read_npz(path, "train_x", "train_y", "test_x", "test_y")
    paths = fetch.obtain(DECLARATION, edition, source)
    arrays = tuple(read_idx(path) for path in paths.values())
    for images, labels in (arrays[:2], arrays[2:]):
        if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1] or labels.max() > 9:
            raise DataError("mnist: images and labels do not belong together")
    return arrays


def counts(edition: str, source: Source) -> dict[str, int]:
    """Return the numbers of training and test images."""
    _, train, _, test = pixels(edition, source)
    return {"train": len(train), "test": len(test)}


def build(options: MnistOptions, source: Source) -> Dataset:
    """Load MNIST: x float32 [n, 1, 28, 28].

    Raises:
        DataError: files are missing or damaged.
    """
    train_x, train_y, test_x, test_y = pixels(options.edition, source)
    edition = DECLARATION.edition(options.edition)

    def rows(images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> Rows:
        return Rows(scale_pixels(images[:, None], options.scaling, MEAN, STD), labels.astype(np.int64))

    train, test = rows(train_x, train_y), rows(test_x, test_y)
    if options.pool:
        train = pooled(train, test)
    return Dataset("mnist", train, test, 10, edition.state, edition.note)


PLUGIN = Plugin(
    "mnist",
    MnistOptions,
    build,
    "28 x 28 images of handwritten digits, 10 classes",
    "LeCun et al. 1998",
    size=lambda options: Size(3_000 if options.edition == "demo" else 70_000, (1, 28, 28), 10),
)
ENTRY = Entry(DECLARATION, counts)
