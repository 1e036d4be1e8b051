"""Standardisation of features: with everyone's statistics or each client with its own (RADFed: -G and -L)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def standardise(train: NDArray[Any], *others: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Subtract the training rows' mean and divide by their (population) standard deviation, by column.

    The -G form of RADFed, IV-B. A constant column becomes 0. Statistics are taken in float64; arrays [n, ...]
    keep their dtype, and the others are transformed with the same statistics.
    """
    scale = train.std(axis=0, dtype=np.float64)
    flat = train.min(axis=0) == train.max(axis=0)
    mean = np.where(flat, train[0], train.mean(axis=0, dtype=np.float64))
    scale = np.where(flat | (scale == 0), 1.0, scale)
    return tuple(_apply(x, mean, scale) for x in (train, *others))


def standardise_by_client(x: NDArray[Any], clients: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
    """Let each client standardise its own rows with its own mean and standard deviation.

    The -L form of RADFed, IV-B. A column that is constant on a client becomes 0 there, and so does a client
    of one row. Rows of no client stay as they are, and so do columns of zeros and ones (indicators), which
    RADFed's released code leaves alone on Covertype. ``clients``: of all uses, each its rows of x [n, ...].
    """
    out = x.copy()
    indicator = ((x == 0) | (x == 1)).all(axis=0)
    for rows in clients:
        if len(rows):
            out[rows] = np.where(indicator, x[rows], standardise(x[rows])[0])
    return out


def minmax(train: NDArray[Any], *others: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Map each column's training range onto [0, 1]; a constant column becomes 0. Others may leave [0, 1]."""
    low = train.min(axis=0).astype(np.float64)
    span = train.max(axis=0).astype(np.float64) - low
    return tuple(_apply(x, low, np.where(span > 0, span, 1.0)) for x in (train, *others))


def _apply(x: NDArray[Any], shift: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[Any]:
    return ((x - shift) / scale).astype(x.dtype)


SCALINGS: Mapping[str, Callable[..., tuple[NDArray[Any], ...]]] = {
    **dict.fromkeys(("as_shipped", "by_client"), lambda *arrays: arrays),
    "minmax": minmax,
    "standard": standardise,
}
"""How arrays are scaled by the first, the training rows; ``by_client`` waits for who knows the clients."""
