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
from fedcore.data.download import Declaration, Edition, Entry, File, Form, fetch
from fedcore.data.readers import read_idx, read_npz

MEAN, STD = (0.1306604762738429,), (0.30810780717887876,)
HOSTS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
    "http://yann.lecun.com/exdb/mnist",
)


def _file(name: str, sha256: str, size: int, gz: str, xz: str) -> File:
    packed = Form(f"{name}.gz", f"sha256:{gz}", tuple(f"{host}/{name}.gz" for host in HOSTS))
    return File(f"mnist/{name}", sha256, size, forms=(packed, Form(f"{name}.xz", f"sha256:{xz}")))


FILES = (
    _file(
        "train-images-idx3-ubyte",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        47040016,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "8f41e9b4abc124dc3d209e86f7ea714a81f80edea40b565a4781dec7bd67c6e2",
    ),
    _file(
        "train-labels-idx1-ubyte",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        60008,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "dcd3d8184fe1a8be6231f172fb3390116f91c127282fd736ab55752c179963d8",
    ),
    _file(
        "t10k-images-idx3-ubyte",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        7840016,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "d815adbb3188b5bafed15d649960a5dbcb0f9138b9a4205b88b175001cb394c9",
    ),
    _file(
        "t10k-labels-idx1-ubyte",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        10008,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "f2edae9ce0307abae4671a37b70e6e3858696b48b16c3cfdfef97388dc9925d5",
    ),
)

DECLARATION = Declaration(
    name="mnist",
    title="MNIST handwritten digits",
    papers=("rfedavg", "fedomw", "radfed"),
    citation="LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition, 1998",
    licence="CC BY-SA 3.0",
    redistributable=True,
    shape="[1, 28, 28]",
    classes=10,
    upstream="http://yann.lecun.com/exdb/mnist/",
    editions={
        "full": Edition("real", "MNIST", FILES, {"train": 60000, "test": 10000}),
        "demo": Edition("subset", "2,000 + 1,000 images of MNIST", counts={"train": 2000, "test": 1000}),
    },
)


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
    arrays = tuple(read_idx(paths[file.name]) for file in FILES)
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
