"""Comma-separated files: tables of numbers, and tables with a header."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError, reason
from fedcore.base.lazy import pd


def read_numbers(path: Path, columns: int, header: bool = False) -> NDArray[np.float64]:
    """Read a table of finite numbers [n, columns].

    Raises:
        DataError: not a table of that many columns, a cell is no finite number, or there are no rows.
    """
    frame = _read(path, header=0 if header else None)
    if frame.shape[1] != columns:
        raise DataError(f"{path}: {frame.shape[1]} columns, expected {columns}")
    try:
        values = frame.to_numpy(np.float64)
    except (ValueError, TypeError):
        raise DataError(f"{path}: a cell is not a number") from None
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad) or not len(values):
        raise DataError(f"{path}: " + (f"row {bad[0] + 1} has an empty cell" if len(bad) else "no rows"))
    return values


def read_table(
    path: Path, needed: Sequence[str], names: Sequence[str] | None = None, encoding: str = "utf-8"
) -> pd.DataFrame:
    """Read a table with named columns.

    Args:
        path: the file.
        needed: columns that must be there.
        names: the columns' names where the file has no header.
        encoding: of the text.

    Raises:
        DataError: it cannot be read or lacks a column.
    """
    frame = _read(path, header=None if names else 0, encoding=encoding)
    if names:
        if frame.shape[1] != len(names):
            raise DataError(f"{path}: {frame.shape[1]} columns, expected {len(names)}")
        frame.columns = list(names)
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        raise DataError(f"{path}: column '{missing[0]}' is missing")
    return frame


def _read(path: Path, **how: Any) -> pd.DataFrame:
    try:
        return pd.read_csv(path, low_memory=False, **how)
    except (ValueError, OSError, EOFError, OverflowError, pd.errors.ParserError) as error:
        raise DataError(f"{path}: not a readable csv table ({reason(error)})") from None
