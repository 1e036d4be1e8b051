"""CIFAR-10: 32 x 32 colour images of ten kinds of things."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.data import Dataset, Rows, Size, Source
from fedcore.data.datasets.images import IMAGENET_MEAN, IMAGENET_STD, Scaling, pooled, scale_pixels
from fedcore.data.download import Declaration, Edition, Entry, File, Form, fetch
from fedcore.data.readers import read_batch, read_npz

MEAN = (0.49139968, 0.48215841, 0.44653091)
STD = (0.24703223, 0.24348513, 0.26158784)
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
SHA256 = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"


def _file(name: str, sha256: str, size: int, xz: str) -> File:
    archive = Form("cifar-10-python.tar.gz", f"sha256:{SHA256}", (URL,), member=f"cifar-10-batches-py/{name}")
    return File(
        f"cifar-10-batches-py/{name}", sha256, size, forms=(Form(f"{name}.xz", f"sha256:{xz}"), archive)
    )


FILES = (
    _file(
        "data_batch_1",
        "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd",
        31035704,
        "100164745a398ebf7445d4f20ad954dd28639577c51b4ae2036371b79c395c74",
    ),
    _file(
        "data_batch_2",
        "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8",
        31035320,
        "9a6ecae74dddd011e7d1c70e5aa5a6c835a0687148c18b722285bcab09c5343a",
    ),
    _file(
        "data_batch_3",
        "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9",
        31035999,
        "3dcc56d8ed6303049342251ff2a03cdc7ed220be26a13145324542769322407f",
    ),
    _file(
        "data_batch_4",
        "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b",
        31035696,
        "c15939fc1f8b2992420d96840a6a6300c6acc8dff406fd72462e87ac39366fa7",
    ),
    _file(
        "data_batch_5",
        "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154",
        31035623,
        "60de99255eed625dad54377eaea39cf4f6ed60c29f2c11b38883e0ccbfffc5af",
    ),
    _file(
        "test_batch",
        "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831",
        31035526,
        "611b9c0d9f71a60c552c9a175bd4362d28ee0ebb56072dfba828627941086c04",
    ),
)

EXTRAS = (
    File(
        "cifar-10-batches-py/batches.meta",
        "f962466ef690d46b226450fb9aadc74ba4bc64a76aa526b5827fe4bc5c7125cb",
        158,
    ),
    File(
        "cifar-10-batches-py/readme.html",
        "4d1c3fb199d6a183ae03f5162b469d7bc04edf2fad9547bd5f224271d52f98e5",
        88,
    ),
)
DECLARATION = Declaration(
    name="cifar10",
    title="CIFAR-10 natural images",
    papers=("rfedavg", "comfed", "radfed"),
    citation="Krizhevsky: Learning multiple layers of features from tiny images, 2009",
    licence="none stated upstream; shared for research, cite the report",
    redistributable=True,
    shape="[3, 32, 32]",
    classes=10,
    upstream="https://www.cs.toronto.edu/~kriz/cifar.html",
    editions={
        "full": Edition("real", "CIFAR-10", FILES, {"train": 50000, "test": 10000}, extras=EXTRAS),
        "demo": Edition("subset", "600 + 300 images of CIFAR-10", counts={"train": 600, "test": 300}),
    },
)


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
    batches = [read_batch(paths[file.name]) for file in FILES]
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
