"""Parquet tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedcore.base.errors import DataError, reason
from fedcore.base.lazy import pd, pyarrow


def read_parquet(path: Path, needed: Sequence[str]) -> pd.DataFrame:
    """Read a table.

    Raises:
        DataError: no parquet file, or a needed column is missing.
    """
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: not a readable parquet table ({reason(error)})") from None
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        raise DataError(f"{path}: column '{missing[0]}' is missing")
    return frame
