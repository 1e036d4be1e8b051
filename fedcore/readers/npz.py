"""numpy's npz archives, without pickles."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.errors import DataError


def read_npz(path: Path, *names: str) -> tuple[NDArray[Any], ...]:
    """Read arrays by name.

    Raises:
        DataError: the file is missing, damaged, holds objects, or lacks one of the arrays.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not hasattr(archive, "files"):
                raise DataError(
                    f"{path}: expected an npz archive with {', '.join(names)}, found one bare array"
                )
            missing = [name for name in names if name not in archive.files]
            if missing:
                found = ", ".join(archive.files) or "nothing"
                raise DataError(f"{path}: array '{missing[0]}' is missing; found: {found}")
            return tuple(archive[name] for name in names)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, EOFError, ValueError, SyntaxError, KeyError, NotImplementedError, MemoryError,
            zipfile.BadZipFile, zlib.error) as error:  # fmt: skip
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(f"{path}: not a readable npz archive ({reason})") from None
