"""Fig. 1 of rFedAvg: which clients it shows, how far their features are apart, and the same picture twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pretended import catalogue, drawn, finish
from project import seal

from fedcore.base.errors import DataError
from pipeline.papers.rfedavg.features import Points, between, clients_of, flat


def test_the_clients_are_those_with_most_rows_of_each_class() -> None:
    client = np.repeat([0, 1, 2, 3], 4)
    label = np.array([5, 5, 0, 1, 2, 2, 2, 0, 0, 0, 0, 9, 1, 0, 0, 5])
    assert clients_of(client, label) == [2, 0, 1]
    assert clients_of(np.array([7, 7]), np.array([0, 1])) == [7]


def test_variance_between_clients() -> None:
    client, label = np.array([0, 0, 1, 1]), np.zeros(4, dtype=np.int64)
    apart = np.array([[1.0, 0], [1, 0], [3, 0], [3, 0]])
    assert between(Points(client, label, apart)) == 100
    assert between(Points(client, label, apart[[0, 2, 0, 2]])) == 0
    assert between(Points(client, label, np.array([[0.0], [2], [4], [6]]))) == pytest.approx(100 * 16 / 20)
    assert between(Points(client, label, np.ones((4, 2)))) == 0


def test_the_embedding_is_the_same_twice_and_keeps_groups_apart() -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(middle, 0.1, (30, 8)) for middle in (0.0, 3.0)]).astype(np.float32)
    first, second = flat(points), flat(points)
    np.testing.assert_array_equal(first, second)
    groups = first[:30], first[30:]
    gap = np.linalg.norm(groups[0].mean(axis=0) - groups[1].mean(axis=0))
    assert gap > 2 * max(np.linalg.norm(group - group.mean(axis=0), axis=1).max() for group in groups)


def test_numbers_are_means_over_seeds_and_a_run_without_features_is_refused(tmp_path: Path) -> None:
    rfedavg = catalogue("rfedavg")
    rng = np.random.default_rng(0)
    for (_, split), runs in rfedavg.cells("rfedavg", "fig1").items():
        for run in runs:
            assert run.spec["evaluation"]["observe"] == {"features": {"rows": 200}}
            finish(run, tmp_path, 0.5)
            client = np.repeat(np.arange(4), 30)
            label = client if split == "sim0" else np.tile(np.arange(3), 40)
            features = rng.normal(0, 1, (120, 5)) + 4.0 * label[:, None]
            np.savez(tmp_path / run.folder / "features.npz", client=client, label=label, features=features)
            seal(tmp_path / run.folder, run.spec)
    frame = drawn(rfedavg, "rfedavg", "fig1", tmp_path)
    assert frame["mean"]["fedavg", "sim0"] > 80
    assert frame["mean"]["fedavg", "sim100"] < 10
    assert frame["n"].tolist() == [2, 2]
    (tmp_path / run.folder / "features.npz").unlink()
    seal(tmp_path / run.folder, run.spec)
    with pytest.raises(DataError, match=r"features\.npz: missing"):
        drawn(rfedavg, "rfedavg", "fig1", tmp_path)
