"""Small data sets made of labels alone, and partitions made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.options import validate
from fedcore.base.registry import find
from fedcore.data import Dataset, Partition, Rows
from fedcore.partitions import PartitionOptions
from fedcore.partitions.allocation import QP
from fedcore.partitions.build import make


def toy_data(
    labels: Any, groups: Any = None, features: dict[str, Any] | None = None, classes: int | None = None
) -> Dataset:
    y = np.asarray(labels, dtype=np.int64)
    owners = None if groups is None else np.asarray(groups, dtype=np.int64)
    names = () if owners is None else tuple(f"user{i}" for i in range(int(owners.max(initial=0)) + 1))
    x = np.arange(len(y), dtype=np.float32)[:, None]
    return Dataset(
        "toy",
        Rows(x, y, owners),
        Rows(x[:1], y[:1]),
        classes or int(y.max(initial=0)) + 1,
        "synthetic",
        "toy labels",
        group_names=names,
        client_features={key: np.asarray(value, dtype=np.int64) for key, value in (features or {}).items()},
    )


def split_data(dataset: Dataset, name: str, run_seed: int = 0, /, **options: Any) -> Partition:
    plugin = find("partition", name)
    validated = validate(plugin.options, options, "partition")
    assert isinstance(validated, PartitionOptions)
    return make(plugin, validated, dataset, run_seed)


def deal_rows(name: str, labels: Any, rng: np.random.Generator, **options: Any) -> tuple[np.ndarray, ...]:
    """Return each client's rows in the order in which the plug-in deals them out."""
    plugin = find("partition", name)
    validated = validate(plugin.options, options, "partition")
    partition: Partition = plugin.build(validated, toy_data(labels), rng)
    return partition.clients


def oracle(name: str) -> Any:
    """Return a value of an independent float64 implementation."""
    return json.loads((Path(__file__).parent / "oracle.json").read_text())[name]


def covers_once(partition: Partition, total: int) -> None:
    """Fail unless every row is held or dropped once, in sorted index arrays."""
    assert sorted(np.concatenate(rows_of(partition)).tolist()) == list(range(total))
    for rows in rows_of(partition):
        assert rows.dtype == np.int64
        assert (np.diff(rows) > 0).all()


def equal(left: Partition, right: Partition) -> None:
    """Fail unless two partitions are the same."""
    assert left.note == right.note
    assert len(left.clients) == len(right.clients)
    for rows, other in zip([*rows_of(left), *left.held_out], [*rows_of(right), *right.held_out], strict=True):
        np.testing.assert_array_equal(rows, other)


def rows_of(partition: Partition) -> list[np.ndarray]:
    """Return all index arrays of a partition."""
    test = [] if partition.test is None else [partition.test]
    return [*partition.clients, partition.validation, partition.dropped, *test]


def class_problem(sizes: NDArray[np.int64], counts: NDArray[np.int64], shares: NDArray[np.float64]) -> QP:
    """Return RADFed's eq. (1): rows of class k on client t near ``shares[t, k] * sizes[t]``."""
    return QP(sizes, counts, np.arange(len(counts))[:, None], (shares * sizes[:, None],))


def move(
    allocation: NDArray[np.float64], first: tuple[int, int], second: tuple[int, int], size: float
) -> NDArray[np.float64]:
    """Make one move of RADFed's Algorithm 3: two entries lose ``size``, the other corners gain it."""
    (i, j), (k, m) = first, second
    moved = allocation.copy()
    for row, column, sign in ((i, j, -1), (k, m, -1), (i, m, 1), (k, j, 1)):
        moved[row, column] += sign * size
    return moved
