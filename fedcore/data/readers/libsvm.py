"""LIBSVM's sparse text: ``label index:value ...`` a row, indices from 1 and increasing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError


def read_libsvm(path: Path, features: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read a file into dense x [n, features] and the labels as they stand.

    Raises:
        DataError: a line is malformed, an index out of range, a value not finite, or there are no rows.
    """
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{path}: not LIBSVM text (bytes outside ASCII)") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    numbered = [(number, line.split()) for number, line in enumerate(lines, 1)]
    rows = [(number, tokens) for number, tokens in numbered if tokens]
    if not rows:
        raise DataError(f"{path}: no rows")
    x = np.zeros((len(rows), features))
    y = np.zeros(len(rows), np.int64)
    for row, (number, tokens) in enumerate(rows):
        try:
            y[row] = _label(tokens[0])
            pairs = [token.split(":") for token in tokens[1:]]
            index = np.array([int(pair[0]) for pair in pairs], np.int64)
            x[row, index - 1] = [float(value) for _, value in pairs]
        except (ValueError, IndexError, OverflowError) as error:
            raise DataError(f"{path}: line {number}: not 'label index:value ...' ({error})") from None
        if len(index) and (index[0] < 1 or np.any(np.diff(index) <= 0)):
            raise DataError(f"{path}: line {number}: indices must start at 1 and increase")
    if not np.isfinite(x).all():
        raise DataError(f"{path}: a value is nan or inf")
    return x, y


def _label(token: str) -> int:
    value = float(token)
    if value != int(value):
        raise ValueError(f"label {token} is no integer")
    return int(value)
