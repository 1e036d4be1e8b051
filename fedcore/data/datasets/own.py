"""A user's own data: tables, folders of images, Hugging Face data sets and arrays, maybe with clients."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from fedcore.base.errors import DataError, reason, shown
from fedcore.base.lazy import optional, pd
from fedcore.base.options import omit_default
from fedcore.data import Dataset, Options, Plugin, Rows, Size, Source, pictures
from fedcore.data.datasets.images import channel_statistics, scale_pixels
from fedcore.data.datasets.npz_folder import Arrays, checked
from fedcore.data.readers import coded, columns, namable, numbers, read_picture, read_table, reading, refuse
from fedcore.data.standardise import SCALINGS

TRUTH = {"true": "True", "false": "False"}


class OwnOptions(Options):
    """``path``: what holds the rows; of ``folder``, <class>/<image> or <client>/<class>/<image>.

    ``test``: where test rows are, in the same form, or the share of rows drawn for it, with ``seed``.
    ``scaling``: ``minmax`` to [0, 1] or ``standard`` (z-score), both by the training rows; pixels are divided
    by 255, or with ``standard`` standardised by channel. ``size``: [height, width] that images are resized
    to; without it, all must have the same.
    """

    path: str
    test: Annotated[float, Field(gt=0, lt=1)] | str = 0.2
    seed: NonNegativeInt = 0
    scaling: Literal["as_shipped", "minmax", "standard"] = "as_shipped"
    size: tuple[PositiveInt, PositiveInt] | None = None

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if self.path.startswith("~") or "://" in self.path:
            raise ValueError(f"path: got '{self.path}', expected a path on this machine, without '~'")
        if self.seed and isinstance(self.test, str):
            raise ValueError(f"seed: got {self.seed} beside test '{self.test}', expected it beside a share")
        return self


class TableOptions(OwnOptions):
    """Of ``table`` the path is a csv or parquet file. ``target``: its column of classes, numbers or names.

    ``client``: the column that says whose row it is. ``features``: columns of numbers, all others unless
    given; or ``image``: the column of images, which names files relative to the table. ``categories``:
    columns of names, each of which gives a feature of 0 and 1 for every name that occurs in it.
    """

    target: str
    client: str | None = None
    features: tuple[str, ...] = ()
    image: str | None = None
    categories: tuple[str, ...] = omit_default(())

    @model_validator(mode="after")
    def _one_kind_of_input(self) -> Self:
        for key in ("features", "categories"):
            if self.image and getattr(self, key):
                raise ValueError(f"{key}: got {[*getattr(self, key)]}, expected none beside 'image'")
        if self.size and not self.image:
            raise ValueError(f"size: got {[*self.size]} without 'image', expected it for images alone")
        for key in ("features", "categories", "image", "client"):
            given = getattr(self, key) or ()
            if self.target in ((given,) if isinstance(given, str) else given):
                raise ValueError(f"{key}: got '{self.target}', which is the target, expected other columns")
        return self


class HuggingFaceOptions(TableOptions):
    """The path is a name on the hub, or a local folder; ``config`` and ``revision`` say which one of them.

    ``split``, and ``test`` if it is no share: names of its splits.
    """

    config: str | None = None
    revision: str | None = None
    split: str = "train"


def build_table(options: TableOptions, source: Source) -> Dataset:
    """Load a table: x float32 [n, features], or [n, channels, height, width] of images."""

    def read(path: str) -> Any:
        frame = read_table(Path(path), (), names=(options.target, options.client, *options.categories))
        if options.image in frame:
            beside = Path(path).parent.joinpath
            frame[options.image] = frame[options.image].map(lambda name: str(beside(str(name))), "ignore")
        return frame

    return _load("table", options.path, options, read, _same_files)


def build_folder(options: OwnOptions, source: Source) -> Dataset:
    """Load a folder of images: x float32 [n, channels, height, width]."""
    client = "client" if "client" in pictures.in_folders(options.path) else None
    table_options = TableOptions(**dict(options), target="class", image="image", client=client)
    return _load("folder", options.path, table_options, pictures.in_folders, _same_files)


def size_of_folder(options: OwnOptions) -> Size:
    """Return how large a folder is, from its first image."""
    images = pictures.in_folders(options.path)
    first = read_picture(Path(images["image"][0]), options.size, None)
    clients = images["client"].nunique() if "client" in images else 100
    return Size(len(images), first.shape, images["class"].nunique(), clients)


def size_of_table(options: TableOptions) -> Size:
    """Return how large a table is, which is loaded to find out."""
    data = build_table(options, Source())
    rows = len(data.train) + len(data.test)
    return Size(rows, data.train.x.shape[1:], data.classes, len(data.group_names) or 100)


def build_hugging_face(options: HuggingFaceOptions, source: Source) -> Dataset:
    """Load splits of a data set of the hub, or of a local one: x as of a table."""
    datasets = optional("datasets", "data 'huggingface'", "install fedrepro[hf]")
    keywords = {"name": options.config, "revision": options.revision}

    def read(split: str) -> Any:
        try:
            return datasets.load_dataset(options.path, split=split, **keywords).with_format(None).to_pandas()
        except Exception as error:
            raise DataError(f"data.path: {options.path}, split '{split}': {reason(error)}") from None

    return _load("huggingface", options.split, options, read, _same_split)


def from_arrays(
    name: str, rows: Arrays, test: Arrays | float = 0.2, clients: Sequence[object] | None = None
) -> Plugin:
    """Return the plug-in, for ``register``, of arrays in memory; specifications with it hold their hash.

    Args:
        name: what a specification writes.
        rows: x [n, ...], which becomes int64 or float32 unless it is float64, and labels y [n] from 0.
        test: the same of test rows, or the share of the rows that is drawn for testing.
        clients: whose row it is [n]: natural clients.

    Raises:
        DataError: shapes do not fit, a number is not finite, a label is no whole number from 0 on, a share
            is not between 0 and 1, or test rows are training rows or of classes that these lack.
    """
    where = f"data '{name}'"
    if not isinstance(test, tuple | list) and not (isinstance(test, Real) and 0 < test < 1):
        raise DataError(f"{where}: test: got {shown(test)}, expected test rows, or a share between 0 and 1")
    groups, names = (None, ()) if clients is None else _of_memory(where, clients)
    given = _pair(where, "rows", rows)
    train = Rows(*checked(where, *given), groups)
    if groups is not None and len(groups) != len(train):
        raise DataError(f"{where}: {len(groups)} clients, expected one for each of {len(train)} rows")
    if isinstance(test, Real):
        train, tested = train.split(float(test))
    else:
        apart = _pair(where, "test", test)
        if np.shares_memory(given[0], apart[0]):
            raise DataError(f"{where}: test: rows of the training rows' array, expected others or a share")
        tested = Rows(*checked(f"{where}, test", *apart))
    if not len(train) or not len(tested) or train.x.shape[1:] != tested.x.shape[1:]:
        shapes = f"{list(train.x.shape)} and {list(tested.x.shape)}"
        raise DataError(f"{where}: training and test rows {shapes}, expected some of one shape")
    _refuse_unseen(f"{where}, test", train, tested)
    dataset = _dataset(name, train, tested, 1 + int(train.y.max()), "in memory", names)

    class ArrayOptions(Options):
        """``sha256``: that of the arrays, so that other arrays make other specifications."""

        sha256: str = Field(default=dataset.sha256(), pattern=f"^{dataset.sha256()}$")

    return Plugin(name, ArrayOptions, lambda options, source: dataset, "arrays in memory", "own")


def _pair(where: str, use: str, pair: object) -> Arrays:
    """Return x and y as arrays; refuse what is no pair of them."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        found = f"{len(pair)} arrays" if isinstance(pair, tuple | list) else type(pair).__name__
        raise DataError(f"{where}: {use}: got {found}, expected x and y")
    with reading(f"{where}: {use}", "arrays"):
        return np.asarray(pair[0]), np.asarray(pair[1])


def _of_memory(where: str, clients: Sequence[object]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return whose row it is as indices, and the clients' names in order, as of a table's column."""
    with reading(f"{where}: clients", "an array"):
        ids = np.asarray(clients)
    if ids.ndim != 1:
        raise DataError(f"{where}: clients of shape {list(ids.shape)}, expected one for each row")
    groups, names = _coded({where: pd.DataFrame({"clients": ids})}, "clients")
    return groups[where], names


def _load(
    name: str, place: str, options: TableOptions, read: Callable[[str], Any], same: Callable[[str, str], bool]
) -> Dataset:
    """Load the rows of a place, and test rows of another, not the ``same``, or a share of these."""
    target, client, test = options.target, options.client, options.test
    if isinstance(test, str) and same(place, test):
        raise DataError(f"data.test: got '{test}', which may hold training rows; expected others or a share")
    frames = {where: read(where) for where in (place, test) if isinstance(where, str)}
    inputs = _inputs(place, options, frames)
    y, classes = _coded(frames, target)
    if len(classes) < 2:
        raise DataError(f"{place}: column '{target}' holds {classes[0]} alone, expected two classes or more")
    groups, clients = _coded({place: frames[place]} if client else {}, client)
    make = partial(pictures.in_column, options.size) if options.image else numbers
    x = [make(where, frames[where][inputs]) for where in frames]
    x = pictures.coloured(x) if options.image else x
    rows = [Rows(x[index], y[where], groups.get(where)) for index, where in enumerate(frames)]
    train, tested = rows[0].split(test, options.seed) if isinstance(test, float) else (rows[0], rows[-1])
    _refuse_unseen(f"data.test: {test}", train, tested, classes)
    train_x, test_x = _scaled(options.scaling, train.x, tested.x)
    train, tested = replace(train, x=train_x), replace(tested, x=test_x)
    return _dataset(name, train, tested, len(classes), f"of {Path(options.path).name}", clients)


def _inputs(place: str, options: TableOptions, frames: dict[str, Any]) -> list[str]:
    """Return the columns that rows of a place and of the test's are made of; categories get theirs here."""
    target, client = options.target, options.client
    others = [key for key in frames[place] if key not in {target, client}]
    inputs = [options.image] if options.image else list(options.features) or others
    inputs = list(dict.fromkeys([*inputs, *options.categories]))
    for key in () if options.features else inputs:
        if unnamed := re.fullmatch(r"Unnamed: (\d+)", str(key)):
            raise DataError(f"{place}: column {int(unnamed[1]) + 1} has no name; name it, or data.features")
    for where, frame in frames.items():
        columns(where, frame, [target, *inputs, *([client] if client and where == place else [])])
        if not len(frame) or not inputs:
            raise DataError(f"{where}: no {'features' if len(frame) else 'rows'}")
    for category in dict.fromkeys(options.categories):
        inputs.remove(category)
        inputs += _indicated(frames, category)
    return inputs


def _refuse_unseen(where: str, train: Rows, test: Rows, names: Sequence[str] = ()) -> None:
    """Refuse test rows of a class that no training row has; ``names`` are the classes'."""
    for label in np.setdiff1d(test.y, train.y)[:1]:
        name = names[label] if names else label
        raise DataError(f"{where}: rows of class {name}, which no training row has")


def _same_files(place: str, test: str) -> bool:
    """Say whether two places are one file or folder, or one lies inside the other."""
    one, other = Path(place).resolve(), Path(test).resolve()
    inside = one in other.parents or other in one.parents or one == other
    return inside or (os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other))


def _same_split(split: str, test: str) -> bool:
    """Say whether splits of the hub may share a row; ``train[:80%]`` and ``train[80%:]`` share none."""
    pairs = product(*([piece.strip() for piece in names.split("+")] for names in (split, test)))
    return any(not _apart(one, other) and not _apart(other, one) for one, other in pairs)


def _apart(first: str, second: str) -> bool:
    """Say whether two splits have other names, or the first ends where the second begins, or before."""
    if first.partition("[")[0] != second.partition("[")[0]:
        return True
    cuts = (
        re.fullmatch(r"[^[]*\[.*?:(-?[\d_]+)(%?)\]", first),
        re.fullmatch(r"[^[]*\[(-?[\d_]+)(%?):.*\]", second),
    )
    (end, unit), (begin, same) = (found.groups() if found else ("", "") for found in cuts)
    alike = bool(end and begin) and unit == same and (int(end) < 0) == (int(begin) < 0)
    return alike and int(end) <= int(begin)


def _dataset(name: str, train: Rows, test: Rows, classes: int, origin: str, ids: tuple[str, ...]) -> Dataset:
    note = f"{len(train):,} + {len(test):,} rows {origin}"
    return Dataset(name, train, test, classes, "real", note, group_names=ids)


def _scaled(scaling: str, *parts: NDArray[Any]) -> list[NDArray[np.float32]]:
    if parts[0].dtype != np.uint8:
        with np.errstate(over="ignore"):
            scaled = [x.astype(np.float32) for x in SCALINGS[scaling](*parts)]
        if not all(np.isfinite(x).all() for x in scaled):
            raise DataError(f"data.scaling: '{scaling}' makes a number that float32 can't hold")
        return scaled
    by_channel = channel_statistics(parts[0])
    return [scale_pixels(x, "standard" if scaling == "standard" else "unit", *by_channel) for x in parts]


def _indicated(frames: dict[str, Any], name: str) -> list[str]:
    """Give each frame a column of 0 and 1 for every name in a column of it; return the new columns."""
    codes, names = _coded(frames, name)
    added = [f"{name} = {category}" for category in names]
    for where, frame in frames.items():
        if taken := [column for column in added if column in frame]:
            raise DataError(f"{where}: column '{taken[0]}' is there; data.categories makes one of '{name}'")
        frame[added] = np.eye(len(names))[codes[where]]
    return added


def _coded(frames: dict[str, Any], name: str | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the class or client of each frame's rows as indices, and their names in order."""
    cells: list[object] = []
    for where, frame in frames.items():
        column = frame[name]
        refuse(where, column, ~namable(column), "a whole number or a name")
        cells += (column.astype(np.int64) if column.dtype.kind == "f" else column).tolist()
    codes, names = coded([TRUTH.get(str(cell).lower(), cell) for cell in cells])
    for text, twin in pairwise(sorted(names, key=lambda text: (text.strip(), len(text)))):
        for where, frame in frames.items() if text.strip() == twin.strip() else ():
            refuse(where, frame[name], frame[name].astype(str) == twin, f"{text!r} as in other rows")
    ends = np.cumsum([len(frame) for frame in frames.values()])
    return dict(zip(frames, np.split(codes, ends), strict=False)), names


PLUGINS = (
    Plugin("table", TableOptions, build_table, "your own csv or parquet table", "you", size=size_of_table),
    Plugin("folder", OwnOptions, build_folder, "your own folder of images", "you", size=size_of_folder),
    Plugin("huggingface", HuggingFaceOptions, build_hugging_face, "a data set of Hugging Face", "the hub"),
)
