"""The python batches of CIFAR-10: pickles, read by an unpickler that can build nothing but arrays."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError, reason

PIXELS = 3 * 32 * 32


class _ArraysOnly(pickle.Unpickler):
    """Refuses every global but the ones numpy arrays are pickled with."""

    ALLOWED = frozenset({("_reconstruct", "multiarray"), ("ndarray", "numpy"), ("dtype", "numpy")})

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return _latin1
        if module.split(".")[0] != "numpy" or (name, module.rsplit(".", 1)[-1]) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        if name == "_reconstruct":
            return _reconstruct
        return {"ndarray": np.ndarray, "dtype": np.dtype}[name]


def _latin1(text: str, encoding: str) -> bytes:
    """Stand in for what Python 3 writes for bytes in the old protocols."""
    return text.encode("latin1")


def _reconstruct(subtype: type, shape: tuple[int, ...], dtype: bytes) -> NDArray[Any]:
    if subtype is not np.ndarray:
        raise pickle.UnpicklingError(f"{subtype} is not allowed")
    return np.ndarray.__new__(np.ndarray, shape, dtype.decode() if isinstance(dtype, bytes) else dtype)


def read_batch(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read one batch: images [n, 3, 32, 32] (uint8) and labels [n].

    Raises:
        DataError: no pickle of that kind, or shapes and labels that CIFAR-10 does not have.
    """
    try:
        values = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        x, y = np.asarray(values[b"data"]), np.asarray(values[b"labels"])
    except Exception as error:
        raise DataError(
            f"{path}: not a CIFAR-10 python batch ({type(error).__name__}: {reason(error)})"
        ) from None
    if x.dtype != np.uint8 or x.ndim != 2 or x.shape[1] != PIXELS or y.shape != x.shape[:1]:
        raise DataError(
            f"{path}: expected uint8 images [n, {PIXELS}] and n labels, got {x.dtype}{list(x.shape)}"
        )
    if y.dtype.kind not in "iu" or (len(y) and not 0 <= y.min() <= y.max() <= 9):
        raise DataError(f"{path}: labels must be integers from 0 to 9")
    return x.reshape(-1, 3, 32, 32), y.astype(np.int64)
