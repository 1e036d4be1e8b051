"""numpy's npz archives, without pickles."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError, reason

UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    SyntaxError,
    KeyError,
    TypeError,
    NotImplementedError,
    MemoryError,
    RuntimeError,
    tokenize.TokenError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def read_npz(path: Path, *names: str) -> tuple[NDArray[Any], ...]:
    """Read arrays by name.

    Raises:
        DataError: the file is missing, damaged, holds objects, or lacks one of the arrays.
    """
    try:
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise DataError(f"{path}: expected an npz archive with {', '.join(names)}, found one bare array")
        with loaded as archive:
            missing = [name for name in names if name not in archive.files]
            if missing:
                found = ", ".join(archive.files) or "nothing"
                raise DataError(f"{path}: array '{missing[0]}' is missing; found: {found}")
            return tuple(archive[name] for name in names)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except UNREADABLE as error:
        raise DataError(f"{path}: not a readable npz archive ({reason(error)})") from None


def whole(path: Path, values: NDArray[Any]) -> NDArray[np.int64]:
    """Return numbers that were read from a file as int64.

    Raises:
        DataError: one is no whole number, or too large for int64.
    """
    with np.errstate(invalid="ignore"):
        made = values.astype(np.int64)
    bad = np.argwhere((made != values) | ((made < 0) != (values < 0)))
    if len(bad):
        found = values[tuple(bad[0])]
        raise DataError(f"{path}: {found} in row {bad[0][0]}, expected whole numbers from -2^63 to 2^63 - 1")
    return made
