"""MNIST, CIFAR and other sets of small images; and how pixels are scaled.

Characters and clothes are 28 x 28 grey, things and house numbers 32 x 32 in colour.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.data import Dataset, Options, Plugin, Rows, Source
from fedcore.data.download import Declaration, Entry, declared, fetch
from fedcore.data.readers import USES, read_cifar, read_house_numbers, read_idx, read_npz

Scaling = Literal["raw", "unit", "symmetric", "standard"]
DECLARATIONS = declared(__file__)
CHANNELS = {  # mean and deviation of each, over the training images; of other sets they are computed
    "mnist": ((0.1306604762738429,), (0.30810780717887876,)),
    "cifar10": ((0.49139968, 0.48215841, 0.44653091), (0.24703223, 0.24348513, 0.26158784)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


class ImageOptions(Options):
    """``scaling``: see ``scale_pixels``; ``pool``: train rows are all rows, for a split by client."""

    edition: Literal["full", "demo"] = "full"
    scaling: Scaling = "standard"
    pool: bool = False


class FullOptions(ImageOptions):
    """Keys of the sets that have no demo edition."""

    edition: Literal["full"] = "full"


class Cifar10Options(ImageOptions):
    """``scaling: imagenet`` is ``standard`` with ImageNet's means and deviations."""

    scaling: Scaling | Literal["imagenet"] = "standard"  # type: ignore[assignment]


def scale_pixels(
    pixels: NDArray[np.uint8], scaling: Scaling, mean: Sequence[float], std: Sequence[float]
) -> NDArray[np.float32]:
    """Turn bytes [n, channels, height, width] into float32.

    ``raw`` is x (0 to 255), ``unit`` x/255, ``symmetric`` (x/255 - .5)/.5 and, by channel,
    ``standard`` (x/255 - mean)/std.
    """
    channels = pixels.shape[1]
    shift, divide = {
        "raw": ([0.0] * channels, [1 / 255] * channels),
        "unit": ([0.0] * channels, [1.0] * channels),
        "symmetric": ([0.5] * channels, [0.5] * channels),
        "standard": (mean, std),
    }[scaling]
    out = np.empty(pixels.shape, np.float32)
    for channel in range(channels):
        np.multiply(pixels[:, channel], np.float32(1 / (255 * divide[channel])), out=out[:, channel])
        out[:, channel] -= np.float32(shift[channel] / divide[channel])
    return out


def channel_statistics(pixels: NDArray[np.uint8]) -> tuple[list[float], list[float]]:
    """Return each channel's mean and standard deviation, of bytes [n, channels, height, width] over 255."""
    mean, deviation = pixels.mean(axis=(0, 2, 3)) / 255, pixels.std(axis=(0, 2, 3)) / 255
    return mean.tolist(), np.where(deviation > 0, deviation, 1.0).tolist()


def pixels(name: str, edition: str, source: Source) -> tuple[NDArray[Any], ...]:
    """Return train images [n, ...] and labels [n], then test ones, as stored; EMNIST's upright, from 0."""
    if edition == "demo":
        return read_npz(fetch.demo_file(source, f"{name}/{name}.npz"), *USES)
    paths = list(fetch.obtain(DECLARATIONS[name], edition, source).values())
    if name == "cifar100":
        return tuple(array for path in paths for array in read_cifar(path, b"fine_labels", 100))
    if name == "svhn":
        return tuple(array for path in paths for array in read_house_numbers(path))
    if name == "cifar10":
        train_x, train_y = (np.concatenate(parts) for parts in zip(*map(read_cifar, paths[:-1]), strict=True))
        return train_x, train_y, *read_cifar(paths[-1])
    arrays = tuple(map(read_idx, paths))
    for images, labels in (arrays[:2], arrays[2:]):
        most = DECLARATIONS[name].classes - (name != "emnist_letters")  # whose labels begin at 1
        if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1] or labels.max() > most:
            raise DataError(f"{name}: images and labels do not belong together")
    if not name.startswith("emnist"):
        return arrays
    return tuple(array.transpose(0, 2, 1) if array.ndim == 3 else array - array.min() for array in arrays)


def load(declaration: Declaration, options: ImageOptions, source: Source) -> Dataset:
    """Load a set: x float32 [n, channels, height, width]."""
    train_x, train_y, test_x, test_y = pixels(declaration.name, options.edition, source)
    imagenet = str(options.scaling) == "imagenet"
    statistics = CHANNELS.get("imagenet" if imagenet else declaration.name)
    mean, std = statistics or channel_statistics(train_x.reshape(len(train_x), -1, *train_x.shape[-2:]))

    def rows(images: NDArray[np.uint8], labels: NDArray[np.integer]) -> Rows:
        images = images.reshape(len(images), len(mean), *images.shape[-2:])
        x = scale_pixels(images, "standard" if imagenet else options.scaling, mean, std)
        return Rows(x, labels.astype(np.int64))

    train, test = rows(train_x, train_y), rows(test_x, test_y)
    return declaration.dataset(options.edition, train.joined(test) if options.pool else train, test)


def _plugin(declaration: Declaration) -> Plugin:
    shape = tuple(map(int, declaration.shape.strip("[]").split(",")))
    return Plugin(
        declaration.name,
        {"mnist": ImageOptions, "cifar10": Cifar10Options}.get(declaration.name, FullOptions),
        lambda options, source: load(declaration, options, source),
        declaration.title,
        declaration.citation,
        size=lambda options: declaration.size(options.edition, shape),
    )


def counts(name: str, edition: str, source: Source) -> dict[str, int]:
    """Return the numbers of training and test images."""
    _, train, _, test = pixels(name, edition, source)
    return {"train": len(train), "test": len(test)}


PLUGINS = tuple(map(_plugin, DECLARATIONS.values()))
ENTRIES = tuple(Entry(declaration, partial(counts, name)) for name, declaration in DECLARATIONS.items())
