"""A user's own arrays by client: a folder of ``clients/<id>.npz``, ``test.npz``, maybe ``validation.npz``."""

from os.path import isdir, samefile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from fedcore.base.errors import DataError, shown
from fedcore.data import Dataset, Options, Plugin, Rows, Size, Source
from fedcore.data.readers import LARGEST, coded, read_npz, refuse_foreign_name, whole

Arrays = tuple[NDArray[Any], NDArray[Any]]
MOST = 1_000_000


class NpzOptions(Options):
    """``path``: the folder, relative to where the run starts or absolute.

    ``vocabulary``: x holds token indices from 0 to vocabulary - 1; without it, whole numbers are features.
    """

    path: str
    vocabulary: PositiveInt | None = None


def client_files(folder: Path) -> list[Path]:
    """Return the clients' files in client order: by id, numerically where every id is a number."""
    files = [file for file in (folder / "clients").glob("*.npz") if not file.name.startswith(".")]
    for file in files:
        refuse_foreign_name(file)
    codes, _ = coded([file.stem for file in files])
    return [file for _, file in sorted(zip(codes, files, strict=True))]


def read_rows(path: Path) -> Arrays:
    """Read x [n, ...] and y [n] of one file; float64 stays, other floats become float32, integers int64.

    Numbers are finite, and labels whole and not negative.
    """
    return checked(path, *read_npz(path, "x", "y"))


def checked(path: Path | str, x: NDArray[Any], y: NDArray[Any]) -> Arrays:
    """Return x [n, ...] and y [n] of a file, or of what is named as one, as ``read_rows`` does."""
    if x.ndim < 2 or 0 in x.shape[1:] or y.ndim != 1 or len(x) != len(y):
        raise DataError(f"{path}: expected x [n, ...] and y [n], got x {list(x.shape)} and y {list(y.shape)}")
    return _features(path, x), _labels(path, y)


def build_npz(options: NpzOptions, source: Source) -> Dataset:
    """Load the folder; each client's rows carry its index as group."""
    folder = Path(options.path)
    if not isdir(folder):
        raise DataError(f"data.path: no folder {shown(options.path)}")
    if not (files := client_files(folder)):
        raise DataError(f"{folder}/clients: no client files (<id>.npz with x and y)")
    optional = folder / "validation.npz"
    others = [folder / "test.npz", *([optional] if optional.is_file() else [])]
    clients, held_out = ([read_rows(file) for file in part] for part in (files, others))
    like = clients[0][0]
    for file, (x, _) in zip([*files, *others], [*clients, *held_out], strict=True):
        _check_like(file, x, files[0], like, options.vocabulary)
        if file in others and not len(x):
            raise DataError(f"{file}: has no rows")
    groups = np.repeat(np.arange(len(files)), [len(y) for _, y in clients])
    if not len(groups):
        raise DataError(f"{folder}/clients: every client is empty")
    train = Rows(*_joined(clients), groups)
    test, *validation = (Rows(*arrays) for arrays in held_out)
    if same := [file for file in files if samefile(file, folder / "test.npz")]:
        raise DataError(f"{folder}/test.npz: is the file clients/{same[0].name} too, expected other rows")
    classes = 1 + int(max(part.y.max() for part in (train, test, *validation)))
    note = f"{len(files)} clients of {folder.name}"
    names = tuple(file.stem for file in files)
    return Dataset(
        "npz", train, test, classes, "real", note, next(iter(validation), None), names, options.vocabulary
    )


def _joined(clients: list[Arrays]) -> Arrays:
    """Join all clients' rows, emptying the list on the way: the data are never in memory twice."""
    first, total = clients[0][0], sum(len(y) for _, y in clients)
    x, y = np.empty((total, *first.shape[1:]), first.dtype), np.empty(total, np.int64)
    high = total
    while clients:
        low = high - len(clients[-1][1])
        x[low:high], y[low:high] = clients.pop()
        high = low
    return x, y


def _check_like(path: Path, x: NDArray[Any], first: Path, like: NDArray[Any], vocabulary: int | None) -> None:
    if x.shape[1:] != like.shape[1:]:
        raise DataError(
            f"{path}: samples of shape {list(x.shape[1:])}, but {first.name} has {list(like.shape[1:])}"
        )
    if x.dtype != like.dtype:
        raise DataError(f"{path}: x is {x.dtype}, but {first.name} has {like.dtype}")
    if vocabulary is None:
        return
    if x.dtype.kind != "i":
        raise DataError(f"{path}: x is {x.dtype}, but data.vocabulary says that it holds token indices")
    low, high = int(x.min(initial=0)), int(x.max(initial=0))
    if low < 0 or high >= vocabulary:
        raise DataError(f"{path}: token {high if low >= 0 else low}, expected 0 to {vocabulary - 1}")


def _features(path: Path | str, x: NDArray[np.generic]) -> NDArray[np.generic]:
    if x.dtype.kind in "iub":
        return whole(path, x)
    if x.dtype.kind != "f":
        raise DataError(f"{path}: x is {x.dtype}, expected numbers")
    with np.errstate(over="ignore"):
        x = x.astype(np.float64 if x.dtype.itemsize >= 8 else np.float32)
    bad = np.flatnonzero(~np.isfinite(x).all(axis=tuple(range(1, x.ndim))))
    if len(bad):
        raise DataError(f"{path}: x has nan or inf (first in row {bad[0]})")
    if max(x.max(initial=0), -x.min(initial=0)) > LARGEST:
        raise DataError(f"{path}: x has a number that float32 can't hold, expected {LARGEST:.3g} at most")
    return x


def _labels(path: Path | str, y: NDArray[Any]) -> NDArray[np.int64]:
    if y.dtype.kind == "f" and (y == np.floor(y)).all() and np.abs(y).max(initial=0) < MOST:
        y = y.astype(np.int64)
    if y.dtype.kind not in "iu":
        raise DataError(f"{path}: y is {y.dtype}, expected integer labels 0, 1, ...")
    bad = np.flatnonzero((y < 0) | (y >= MOST))
    if len(bad):
        raise DataError(f"{path}: label {y[bad[0]]} in row {bad[0]}, expected 0, 1, ... below {MOST:,}")
    return y.astype(np.int64)


def size_of_npz(options: NpzOptions) -> Size:
    """Return about how large the folder is: as if each client had as many rows as the first."""
    files = client_files(Path(options.path))
    x, y = read_rows(files[0]) if files else (np.zeros((0, 1)), np.zeros(0, np.int64))
    rows = 2 * len(files) * len(y)
    return Size(rows, x.shape[1:], int(y.max(initial=1)) + 1, len(files), vocabulary=options.vocabulary)


PLUGIN = Plugin(
    "npz",
    NpzOptions,
    build_npz,
    "your own data: clients/<id>.npz, test.npz, validation.npz",
    "docs/own-data.md",
    size=size_of_npz,
)
