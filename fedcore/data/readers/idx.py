"""The idx format of MNIST: a magic number, big-endian sizes, then unsigned bytes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes.

    Raises:
        DataError: it is no such file, or its length does not fit its header.
    """
    data = path.read_bytes()
    if len(data) < 4 or data[:3] != b"\x00\x00\x08" or not 1 <= data[3] <= 4:
        raise DataError(f"{path}: not an idx file of unsigned bytes")
    start = 4 + 4 * data[3]
    shape = tuple(int(size) for size in np.frombuffer(data[4:start][: (len(data) - 4) // 4 * 4], ">u4"))
    if len(shape) != data[3] or len(data) - start != math.prod(shape):
        raise DataError(f"{path}: {len(data) - start:,} bytes of data, header says {math.prod(shape):,}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
