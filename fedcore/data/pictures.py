"""Images of one's own: in a folder for each class, or in a column of a table."""

import os
from collections.abc import Iterator, Sequence
from os.path import isdir
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.base.lazy import DataFrame, pd
from fedcore.data.readers import read_picture, refuse, refuse_foreign_name

READ = (".bmp", ".gif", ".jfif", ".jp2", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
UNREAD = (".avif", ".dng", ".eps", ".heic", ".heif", ".jxl", ".raw", ".svg", ".tga")


def _below(folder: Path, above: frozenset[str]) -> Iterator[Path]:
    """Yield a folder's images in order, also behind links but not in a circle, and none that is hidden."""
    for entry in sorted(folder.iterdir()):
        place, ending = os.path.realpath(entry), entry.suffix.lower()
        if entry.name.startswith(".") or place in above:
            continue
        if ending in UNREAD:
            raise DataError(f"{entry}: an image that can't be read, expected {', '.join(READ)}")
        if entry.is_dir():
            yield from _below(entry, above | {place})
        elif ending in READ:
            refuse_foreign_name(entry)
            yield entry


def in_folders(path: str) -> DataFrame:
    """Return a line for each image below a folder: its path, class and, of three levels, client.

    It raises DataError if there is none, one can't be read, or they lie at several depths.
    """
    files = [*_below(Path(path), frozenset([os.path.realpath(path)]))] if isdir(path) else []
    depths = {len(file.relative_to(path).parts) for file in files}
    if depths not in ({2}, {3}):
        problem = "images at several depths" if depths - {1} else "no images in folders"
        message = f"{problem}, expected <class>/<image> or <client>/<class>/<image>"
        raise DataError(f"{path}: {message if isdir(path) else 'no such folder'}")
    (depth,) = depths
    for folder in dict.fromkeys(parent for file in files for parent in file.relative_to(path).parents):
        refuse_foreign_name(folder)
    rows = [(str(file), *file.relative_to(path).parts[-2::-1]) for file in files]
    return pd.DataFrame(rows, columns=["image", "class", "client"][:depth])


def in_column(size: tuple[int, int] | None, where: str, frame: DataFrame) -> NDArray[np.uint8]:
    """Return the images that a column names, or holds as the hub's data sets do [n, channels, h, w].

    They are resized to ``size`` (h, w) if it is given. It raises DataError if one is missing, can't be read
    or, without a size, is of another size than the first.
    """
    arrays: list[NDArray[np.uint8]] = []
    refuse(where, column := frame.iloc[:, 0], column.isna(), "an image")
    for row, cell in enumerate(column):
        picture = cell if isinstance(cell, dict) else {"path": cell}
        path = Path(str(picture["path"] or f"{where}, row {row + 1}"))
        arrays.append(read_picture(path, size, picture.get("bytes")))
        if arrays[row].shape[1:] != arrays[0].shape[1:]:
            shape, first = (list(array.shape[1:]) for array in (arrays[row], arrays[0]))
            raise DataError(f"{path}: pixels {shape}, expected {first} as of the first image, or data.size")
    return np.stack(coloured(arrays))


def coloured(images: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return images [..., channels, h, w] with as many channels as any has; grey has its value in each."""
    channels = max(image.shape[-3] for image in images)
    return [np.repeat(image, channels // image.shape[-3], axis=-3) for image in images]
