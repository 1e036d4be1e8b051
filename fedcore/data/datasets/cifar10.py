"""CIFAR-10: 32 x 32 colour images of ten kinds of things."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.data import Dataset, Rows, Size, Source
from fedcore.data.datasets.images import IMAGENET_MEAN, IMAGENET_STD, Scaling, pooled, scale_pixels
from fedcore.data.download import Entry, fetch
from fedcore.data.download.facts import declared
from fedcore.data.readers import read_batch, read_npz

MEAN = (0.49139968, 0.48215841, 0.44653091)
STD = (0.24703223, 0.24348513, 0.26158784)
DECLARATION = declared(__file__)["cifar10"]


class Cifar10Options(Options):
    """Keys of CIFAR-10.

    ``scaling``: see ``scale_pixels``; ``imagenet`` is ``standard`` with ImageNet's means and deviations.
    ``pool``: train rows are all rows, for a split by client.
    """

    edition: Literal["full", "demo"] = "full"
    scaling: Scaling | Literal["imagenet"] = "standard"
    pool: bool = False


def pixels(edition: str, source: Source) -> tuple[NDArray[Any], ...]:
    """Return train images [n, 3, 32, 32], train labels, test images, test labels."""
    if edition == "demo":
        path = fetch.demo_file(source, "cifar10/cifar10.npz")
        return read_npz(path, "train_x", "train_y", "test_x", "test_y")
    paths = fetch.obtain(DECLARATION, edition, source)
    batches = [read_batch(path) for path in paths.values()]
    train_x, train_y = (np.concatenate(parts) for parts in zip(*batches[:-1], strict=True))
    return train_x, train_y, *batches[-1]


def counts(edition: str, source: Source) -> dict[str, int]:
    """Return the numbers of training and test images."""
    _, train, _, test = pixels(edition, source)
    return {"train": len(train), "test": len(test)}


def build(options: Cifar10Options, source: Source) -> Dataset:
    """Load CIFAR-10: x float32 [n, 3, 32, 32].

    Raises:
        DataError: files are missing or damaged.
    """
    train_x, train_y, test_x, test_y = pixels(options.edition, source)
    edition = DECLARATION.edition(options.edition)

    def rows(images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> Rows:
        if options.scaling == "imagenet":
            return Rows(
                scale_pixels(images, "standard", IMAGENET_MEAN, IMAGENET_STD), labels.astype(np.int64)
            )
        return Rows(scale_pixels(images, options.scaling, MEAN, STD), labels.astype(np.int64))

    train, test = rows(train_x, train_y), rows(test_x, test_y)
    if options.pool:
        train = pooled(train, test)
    return Dataset("cifar10", train, test, 10, edition.state, edition.note)


PLUGIN = Plugin(
    "cifar10",
    Cifar10Options,
    build,
    "32 x 32 colour images, 10 classes",
    "Krizhevsky 2009",
    size=lambda options: Size(900 if options.edition == "demo" else 60_000, (3, 32, 32), 10),
)
ENTRY = Entry(DECLARATION, counts)
