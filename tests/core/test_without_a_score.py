"""What has no score: a model that is not finite, and a client none of whose labels is in the test rows."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedcore.execution.metrics import finite
from fedcore.execution.runner import run

LABELS = 3


def specification(folder: Path, test_labels: tuple[int, ...] = (0, 1, 2), **training: Any) -> dict[str, Any]:
    """Return a run of three clients, each with one label of its own."""
    rng = np.random.default_rng(0)
    (folder / "data/clients").mkdir(parents=True)
    for client in range(LABELS):
        x = rng.normal(size=(20, 4)) + client
        np.savez(folder / f"data/clients/{client}.npz", x=x, y=np.full(20, client))
    y = np.repeat(test_labels, 10)
    np.savez(folder / "data/test.npz", x=rng.normal(size=(len(y), 4)) + y[:, None], y=y)
    return {
        "data": {"name": "npz", "path": str(folder / "data")},
        "model": {"name": "linear"},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 5, "batch_size": "full", "lr": 0.1, **training},
        "evaluation": {"clients": True},
    }


def lines(path: Path) -> list[dict[str, str]]:
    with path.open() as handle:
        return list(csv.DictReader(handle))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, -2.0], True),
        ([3e38, 3e38], True),
        ([3e38, 3e38, -math.inf], False),
        ([math.inf, -math.inf], False),
        ([0.0, math.nan], False),
        ([], True),
    ],
)
def test_finite_means_each_value_also_where_the_sum_overflows(values: list[float], expected: bool) -> None:
    assert finite(torch.tensor(values)) == expected


@pytest.mark.parametrize("metrics", [[], ["f1"]])
def test_a_model_that_is_not_finite_has_no_measurements_and_is_never_the_best(
    tmp_path: Path, metrics: list[str]
) -> None:
    """Rows of class 0 alone: an accuracy of outputs that are NaN would be 1, the best of all."""
    spec = specification(tmp_path, (0, 0), lr=1e25, weight_decay=1.0)
    spec["evaluation"]["metrics"] = metrics
    result = run(spec, tmp_path / "out")
    assert result.summary["status"] == "diverged"
    history = lines(tmp_path / "out/history.csv")
    measured = [key for key in history[0] if key.startswith(("train_", "test_"))]
    assert len(measured) == 3 + len(metrics)
    assert [history[-1][key] for key in measured] == [""] * len(measured)
    assert history[-1]["round"] == str(result.summary["rounds"])
    known = {int(row["round"]): float(row["test_accuracy"]) for row in history if row["test_accuracy"]}
    best = json.loads((tmp_path / "out/summary.json").read_text())["best"]
    assert best["test_accuracy"] == max(known.values())
    assert known[best["round"]] == best["test_accuracy"]
    assert {row["test_accuracy"] for row in lines(tmp_path / "out/clients.csv")} == {""}


def test_an_adaptive_server_whose_second_moment_overflows_has_diverged(tmp_path: Path) -> None:
    """Its steps are zero from then on, and its model stays finite."""
    spec = specification(tmp_path, lr=1e22) | {"algorithm": {"name": "fedadam"}}
    result = run(spec)
    assert all(np.isfinite(array).all() for array in result.parameters.values())
    assert (result.summary["status"], result.summary["rounds"]) == ("diverged", 1)


def test_a_client_without_a_label_in_the_test_rows_has_no_score_and_is_counted(tmp_path: Path) -> None:
    spec = specification(tmp_path, (0, 1))
    result = run(spec, tmp_path / "out")
    scores = [row["test_accuracy"] for row in result.clients]
    assert [math.isnan(score) for score in scores] == [False, False, True]
    assert math.isnan(result.clients[2]["test_loss"])
    assert result.summary["status"] == "completed"
    assert result.summary["clients_without_score"] == 1


def test_nothing_is_said_where_every_client_has_a_score(tmp_path: Path) -> None:
    assert "clients_without_score" not in run(specification(tmp_path)).summary
