"""Arrays in memory as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedcore.base.errors import DataError
from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.data import Dataset, Rows, Size, held_out
from fedcore.data.datasets.npz import checked
from fedcore.data.readers import id_order


def from_arrays(
    name: str,
    x: NDArray[Any],
    y: NDArray[Any],
    *,
    clients: Sequence[object] | None = None,
    test: tuple[NDArray[Any], NDArray[Any]] | float = 0.2,
    seed: int = 0,
) -> Plugin:
    """Return the plug-in of a data set that is in memory; specifications with it hold the arrays' hash.

    Args:
        name: what a specification writes.
        x, y: rows [n, ...] of numbers and labels [n], 0, 1, ...; floats become float32, but float64 stays.
        clients: whose row it is [n]: natural clients.
        test: x and y of test rows, or the share of the rows drawn for it, with ``seed``.

    Raises:
        DataError: shapes do not fit, a number is not finite, or a label is no whole number from 0 on.
    """
    where = f"data '{name}'"
    x, y = checked(where, np.asarray(x), np.asarray(y))
    if clients is not None and len(clients) != len(y):
        raise DataError(f"{where}: {len(clients)} clients, expected one for each of {len(y)} rows")
    ids = None if clients is None else [str(own) for own in clients]
    names = sorted(set(ids or ()), key=id_order(set(ids or ())))
    place = {own: index for index, own in enumerate(names)}
    rows = Rows(x, y, None if ids is None else np.array([place[own] for own in ids], np.int64))
    if isinstance(test, tuple):
        train, tested = rows, Rows(*checked(f"{where}, test", *map(np.asarray, test)))
    else:
        chosen = np.isin(np.arange(len(y)), held_out(len(y), test, seed))
        train, tested = rows.take(~chosen), rows.take(chosen)
    if not len(train) or not len(tested) or train.x.shape[1:] != tested.x.shape[1:]:
        shapes = f"{list(train.x.shape)} and {list(tested.x.shape)}"
        raise DataError(f"{where}: training and test rows {shapes}, expected some of one shape")
    note = f"{len(train):,} + {len(tested):,} rows in memory"
    classes = 1 + int(max(train.y.max(), tested.y.max()))
    dataset = Dataset(name, train, tested, classes, "real", note, group_names=tuple(names))
    digest = dataset.sha256()

    class ArrayOptions(Options):
        """``sha256``: that of the arrays, so that other arrays make other specifications."""

        sha256: str = Field(default=digest, pattern=f"^{digest}$")

    size = Size(len(train) + len(tested), train.x.shape[1:], classes, len(names) or 100)
    return Plugin(
        name,
        ArrayOptions,
        lambda options, source: dataset,
        "arrays in memory",
        "own",
        clients=lambda options: len(names) or None,
        size=lambda options: size,
    )
