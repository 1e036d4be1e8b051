"""What a partition looks like in numbers: sizes, label skew, distances between clients.

``counts`` are the rows of each class on each client, [clients, classes].
"""

import math
from hashlib import blake2b
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import say
from fedcore.base.lazy import scipy
from fedcore.data import Dataset, Partition
from fedcore.partitions import Labels, joined

MOST_COMPARED = 2000
MOST_LISTED = 10_000


def warn_of_empty(empty: int, clients: int) -> None:
    """Say on standard error that clients hold no row, if any does; these never train."""
    if empty:
        say(f"warning: {empty:,} of {clients:,} clients hold no row and never train", error=True)


def label_counts(clients: tuple[NDArray[np.int64], ...], labels: Labels, classes: int) -> NDArray[np.int64]:
    """Return how many rows of each class each client holds, [clients, classes]."""
    return np.array([np.bincount(labels[rows], minlength=classes) for rows in clients], dtype=np.int64)


def c_score(counts: NDArray[np.integer]) -> float:
    """Return the class non-IID score of RADFed, section V-C: mean L1 distance of clients' to global ratios.

    0 is IID; 2 the limit of clients that share nothing. Empty clients have no ratios and are left out.
    """
    held = counts[counts.sum(axis=1) > 0]
    if not len(held):
        return 0.0
    return float(np.abs(_ratios(held) - held.sum(axis=0) / held.sum()).sum(axis=1).mean())


def entropies(counts: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the entropy in nats of the labels of each client that has rows, [clients with rows]."""
    ratios = _ratios(counts[counts.sum(axis=1) > 0])
    return -(ratios * np.log(np.where(ratios > 0, ratios, 1.0))).sum(axis=1)  # type: ignore[no-any-return]


def pairwise_distances(counts: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the total variation distances [pairs] (0 to 1) of labels between clients that have rows.

    Of more than 2,000 such clients, 2,000 evenly spaced ones are compared.
    """
    held = counts[counts.sum(axis=1) > 0]
    if len(held) > MOST_COMPARED:
        held = held[np.linspace(0, len(held) - 1, MOST_COMPARED).astype(int)]
    return np.minimum(scipy.spatial.distance.pdist(_ratios(held), "cityblock") / 2, 1.0)  # type: ignore[no-any-return]


def of_data(dataset: Dataset) -> dict[str, Any]:
    """Describe the data that were split as plain values: name, state, note, rows, features and classes."""
    return {
        "data": dataset.name,
        "data_state": dataset.state,
        "data_note": dataset.note,
        "data_rows": {"train": len(dataset.train), "test": len(dataset.test)},
        "data_features": math.prod(dataset.train.x.shape[1:]),
        "data_classes": dataset.classes,
    }


def repeated(dataset: Dataset, partition: Partition) -> dict[str, list[int]]:
    """Count rows of a set, such as ``test_in_clients``, whose features a row of another set has too.

    The second number is of those whose features and label it has. Pairs of sets that share nothing are left
    out. Rows are as the data set has them, without a partition's noise.
    """
    rows = dataset.train if partition.test is not None else dataset.train.joined(dataset.test)
    hashes = (blake2b(row.tobytes(), digest_size=8).digest() for row in rows.x)
    features = np.frombuffer(b"".join(hashes), np.int64)
    sets = {"test": np.arange(len(dataset.train), len(rows)), **partition.sets()}
    sets["clients"] = joined(partition.clients)
    counts = {
        f"{later}_in_{former}": [
            int(np.isin(content[sets[later]], content[sets[former]]).sum())
            for content in (features, features + rows.y)
        ]
        for former, later in combinations(("clients", "validation", "selection", "test"), 2)
    }
    return {pair: numbers for pair, numbers in counts.items() if any(numbers)}


def statistics(partition: Partition, labels: Labels, classes: int) -> dict[str, Any]:
    """Describe a partition of training rows with ``labels`` [n] as plain values, ready for JSON.

    Sizes have the population's sd, label entropies are in nats, distances are total variation over pairs of
    clients. ``label_counts`` are rows of each class on each client, or None: more than 10,000 numbers.
    """
    counts = label_counts(partition.clients, labels, classes)
    sizes = counts.sum(axis=1)
    of_all: list[float] = entropies(counts.sum(axis=0, keepdims=True)).tolist()
    return {
        "clients": len(sizes),
        "empty_clients": np.flatnonzero(sizes == 0).tolist(),
        "sizes": {**_summary(sizes), "total": int(sizes.sum())},
        "c_score": c_score(counts),
        "label_entropy": {**_summary(entropies(counts)), "all": next(iter(of_all), 0.0)},
        "label_distance": _summary(pairwise_distances(counts)),
        "label_counts": counts.tolist() if counts.size <= MOST_LISTED else None,
        "validation_rows": len(partition.validation),
        **({"selection_rows": len(partition.selection)} if len(partition.selection) else {}),
        "test_rows": None if partition.test is None else len(partition.test),
        "dropped_rows": len(partition.dropped),
        "note": partition.note,
    }


def _ratios(counts: NDArray[np.integer]) -> NDArray[np.float64]:
    return counts / counts.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


def _summary(values: NDArray[Any]) -> dict[str, float | None]:
    kinds = ("min", "max", "mean", "std")
    return {kind: getattr(values, kind)().item() if len(values) else None for kind in kinds}
