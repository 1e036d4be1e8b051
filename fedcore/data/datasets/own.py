"""A user's own tables, folders of images and Hugging Face data sets: one row a sample, maybe its client."""

from __future__ import annotations

from collections.abc import Callable
from os.path import isdir
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from fedcore.base.errors import DataError, reason, shown
from fedcore.base.lazy import optional, pd
from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.data import Dataset, Rows, Source, held_out
from fedcore.data.datasets.images import channel_statistics, scale_pixels
from fedcore.data.readers import columns, id_order, read_parquet, read_picture, read_table
from fedcore.data.standardise import SCALINGS

PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
Frames = list[tuple[str, Any]]


class OwnOptions(Options):
    """``test``: where test rows are, in the same form, or the share of rows drawn for it, with ``seed``.

    ``scaling``: ``minmax`` to [0, 1] or ``standard`` (z-score), both by the training rows; pixels are divided
    by 255, or with ``standard`` standardised by channel. ``channels``: 3 for colour, 1 for grey. ``size``:
    [height, width] that images are resized to; without it, all must have the same.
    """

    test: Annotated[float, Field(gt=0, lt=1)] | str = 0.2
    seed: NonNegativeInt = 0
    scaling: Literal["as_shipped", "minmax", "standard"] = "as_shipped"
    channels: Literal[1, 3] = 3
    size: tuple[PositiveInt, PositiveInt] | None = None


class ColumnOptions(OwnOptions):
    """``target``: the column of classes, whole numbers or names. ``client``: that of whose row it is.

    ``features``: columns of numbers, all others unless given; or ``image``: the column of images.
    """

    target: str
    client: str | None = None
    features: tuple[str, ...] = ()
    image: str | None = None


class TableOptions(ColumnOptions):
    """``path``: a csv or parquet file, relative to where the run starts or absolute.

    A column of images names files, relative to the table.
    """

    path: str


class FolderOptions(OwnOptions):
    """``path``: a folder with a folder of images for each class, or with ``clients`` one of them each."""

    path: str
    clients: bool = False


class HuggingFaceOptions(ColumnOptions):
    """``dataset``: its name on the hub, or a local folder; ``config``, ``revision``: which one of them.

    ``split``, and ``test`` if it is no share: names of its splits.
    """

    dataset: str
    config: str | None = None
    revision: str | None = None
    split: str = "train"


def build_table(options: TableOptions, source: Source) -> Dataset:
    """Load a table: x float32 [n, features], or [n, channels, height, width] of images."""

    def read(path: str) -> pd.DataFrame:
        parquet = path.endswith((".parquet", ".pq"))
        frame = read_parquet(Path(path)) if parquet else read_table(Path(path), ())
        if options.image in frame:
            frame[options.image] = [str(Path(path).parent / str(name)) for name in frame[options.image]]
        return frame

    return _load("table", options.path, options, read)


def build_folder(options: FolderOptions, source: Source) -> Dataset:
    """Load a folder of images: x float32 [n, channels, height, width]."""
    form = "<client>/<class>/<image>" if options.clients else "<class>/<image>"

    def read(path: str) -> pd.DataFrame:
        files = sorted(Path(path).glob("/".join("*" * (1 + form.count("/")))))
        rows = [(str(file), *file.parts[-3:-1]) for file in files if file.suffix.lower() in PICTURES]
        if not rows:
            raise DataError(
                f"{path}: no images, expected {form}" if isdir(path) else f"{path}: no such folder"
            )
        return pd.DataFrame(rows, columns=["image", "client", "class"])

    own = options.model_dump(include=set(OwnOptions.model_fields))
    own |= {"target": "class", "client": "client" if options.clients else None, "image": "image"}
    return _load("folder", options.path, ColumnOptions(**own), read)


def build_hugging_face(options: HuggingFaceOptions, source: Source) -> Dataset:
    """Load splits of a data set of the hub, or a local one: x as of a table."""
    datasets = optional("datasets", "data 'huggingface'", "install fedrepro[hf]")

    def read(split: str) -> pd.DataFrame:
        try:
            loaded = datasets.load_dataset(
                options.dataset, options.config, split=split, revision=options.revision
            )
            frame: pd.DataFrame = loaded.with_format(None).to_pandas()
        except Exception as error:
            raise DataError(f"data.dataset: {options.dataset}, split '{split}': {reason(error)}") from None
        return frame

    return _load("huggingface", options.split, options, read)


def _load(name: str, place: str, options: ColumnOptions, read: Callable[[str], pd.DataFrame]) -> Dataset:
    """Load the rows of a place, and test rows of another or a share of these."""
    target, client, given = options.target, options.client, options.test
    frames = [(where, read(where)) for where in (place, given) if isinstance(where, str)]
    first = frames[0][1]
    others = [key for key in first if key not in {target, client}]
    inputs = [options.image] if options.image else list(options.features) or others
    for where, frame in frames:
        columns(where, frame, [target, *inputs, *([client] if client and frame is first else [])])
        if not len(frame) or not inputs:
            raise DataError(f"{where}: no {'features' if len(frame) else 'rows'}")
    make = _pictures if options.image else _numbers
    x = np.concatenate([make(where, frame[inputs], options) for where, frame in frames])
    y, classes = _coded(frames, target)
    if len(classes) < 2:
        raise DataError(f"{place}: column '{target}' holds {classes[0]} alone, expected two classes or more")
    owned = [own for own in frames if client in own[1]]
    groups, clients = _coded(owned, client) if client else (None, ())
    drawn = None if isinstance(given, str) else held_out(len(first), given, options.seed)
    test = np.arange(len(first), len(y)) if drawn is None else drawn
    train = np.setdiff1d(np.arange(len(first)), test)

    def rows(part: NDArray[np.float32], index: NDArray[np.int64]) -> Rows:
        named = groups is not None and index[-1] < len(groups)
        return Rows(part, y[index], groups[index] if groups is not None and named else None)

    parts = map(rows, _scaled(options, x[train], x[test]), (train, test))
    note = f"{len(train):,} + {len(test):,} rows of {Path(getattr(options, 'dataset', place)).name}"
    return Dataset(name, next(parts), next(parts), len(classes), "real", note, group_names=clients)


def _numbers(where: str, frame: pd.DataFrame, options: ColumnOptions) -> NDArray[np.float64]:
    """Return columns of numbers [n, columns]; refuse an empty cell, and text."""
    x = np.empty(frame.shape)
    for place, (name, column) in enumerate(frame.items()):
        cells = column if column.dtype.kind in "biuf" else column.astype(str)
        x[:, place] = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        for row in np.flatnonzero(~np.isfinite(x[:, place]))[:1]:
            raise _wrong(where, str(name), row, column, "a number")
    return x


def _pictures(where: str, frame: pd.DataFrame, options: ColumnOptions) -> NDArray[np.uint8]:
    """Return the images that a column names, or holds as the hub's data sets do [n, channels, h, w]."""
    arrays: list[NDArray[np.uint8]] = []
    for row, cell in enumerate(frame.iloc[:, 0]):
        held = cell if isinstance(cell, dict) else {"path": cell}
        path = Path(str(held["path"] or f"{where}, row {row + 1}"))
        arrays.append(read_picture(path, options.channels, options.size, held.get("bytes")))
        found, expected = (list(array.shape[1:]) for array in (arrays[-1], arrays[0]))
        if found != expected:
            raise DataError(
                f"{path}: {found} pixels, expected {expected} as of the first image, or data.size"
            )
    return np.stack(arrays)


def _scaled(options: ColumnOptions, *parts: NDArray[Any]) -> list[NDArray[np.float32]]:
    if parts[0].dtype == np.uint8:
        mean, std = channel_statistics(parts[0])
        return [
            scale_pixels(own, "standard" if options.scaling == "standard" else "unit", mean, std)
            for own in parts
        ]
    return [own.astype(np.float32) for own in SCALINGS[options.scaling](*parts)]


def _coded(frames: Frames, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return each row's class or client as an index, and their names in order."""
    for where, frame in frames:
        column = frame[name]
        whole = column.isna() if column.dtype.kind != "f" else ~(column % 1 == 0)
        for row in np.flatnonzero(whole)[:1]:
            raise _wrong(where, name, row, column, "a whole number or a name")
    cells = pd.concat([frame[name] for _, frame in frames], ignore_index=True)
    cells = cells.astype(np.int64 if cells.dtype.kind in "biuf" else str)
    names = sorted(set(cells), key=id_order(map(str, set(cells))))
    return pd.Categorical(cells, names).codes.astype(np.int64), tuple(map(str, names))


def _wrong(where: str, name: str, row: int, column: pd.Series[Any], expected: str) -> DataError:
    cell = "an empty cell" if column.isna().iloc[row] else shown(column.astype(object).iloc[row])
    return DataError(f"{where}: column '{name}', row {row + 1}: {cell}, expected {expected}")


PLUGINS = (
    Plugin("table", TableOptions, build_table, "your own csv or parquet table", "docs/own-data.md"),
    Plugin("folder", FolderOptions, build_folder, "your own folder of images", "docs/own-data.md"),
    Plugin(
        "huggingface",
        HuggingFaceOptions,
        build_hugging_face,
        "a data set of the Hugging Face hub, or a local one of its form",
        "docs/own-data.md",
    ),
)
