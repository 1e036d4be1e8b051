"""What a run reports beside its history: divergence of models, paths of mixture weights."""

from __future__ import annotations

import csv
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.execution.integrity import CHECKPOINT
from fedcore.execution.runner import Settings, run
from fedcore.parts.pooled import divergence_from_centralised, divergence_of_models

Values = dict[str, Any]


def flat(parameters: dict[str, Any]) -> Any:
    return np.concatenate([parameters[name].ravel() for name in sorted(parameters)])


@pytest.fixture
def whole(spec: Values) -> Values:
    """All clients, all rows, three steps a round, from zero, in float64."""
    training = {"rounds": 4, "local_steps": 3, "batch_size": "full", "lr": 0.1}
    sections = {"model": {"name": "linear", "init": "zeros"}, "participation": {}, "dtype": "float64"}
    return {**spec, **sections, "training": training, "evaluation": {"divergence": True}}


def test_divergence_is_that_of_two_separate_runs(whole: Values) -> None:
    table = run(whole).tables["divergence"]
    assert [(row["round"], row["inner"]) for row in table] == [(1, 1), (2, 1), (3, 1), (4, 1)]
    for row in table:
        spec = {**whole, "training": {**whole["training"], "rounds": row["round"]}, "evaluation": {}}
        federated = run(spec).parameters
        central = run({**spec, "algorithm": {"name": "centralised"}}).parameters
        expected = divergence_from_centralised(flat(federated), flat(central))
        assert row["centralised"] == pytest.approx(expected, abs=1e-10)
    alone = {**whole, "training": {**whole["training"], "rounds": 1}, "evaluation": {}}
    updates = [flat(run({**alone, "participation": {"cohorts": [[k]]}}).parameters) for k in range(5)]
    assert table[0]["local"] == pytest.approx(divergence_of_models(np.stack(updates)), abs=1e-10)


@pytest.mark.filterwarnings("error")
def test_models_of_no_or_endless_length_have_no_warning(whole: Values) -> None:
    assert isnan(divergence_of_models(np.zeros((2, 3))))
    assert isnan(divergence_from_centralised(np.zeros(3), np.zeros(3)))
    endless = {"algorithm": {"name": "fedasync"}, "training": {**whole["training"], "lr": 1e38}}
    assert run({**whole, **endless, "dtype": "float32"}).summary["status"] == "diverged"


def test_divergence_of_every_inner_round(whole: Values) -> None:
    """Models drift apart until they are merged: DL rises within a round and starts low in the next."""
    algorithm = {"name": "radfed", "redistributions": 3}
    assignments = {"assignments": [[0, 1, 4], [1, 0, 3], [0, 2, 4]]}
    result = run({**whole, "algorithm": algorithm, "participation": assignments})
    table = result.tables["divergence"]
    assert [(row["round"], row["inner"]) for row in table[:4]] == [(1, 1), (1, 2), (1, 3), (2, 1)]
    merged = [not isnan(row["centralised"]) for row in table]
    assert merged == [False, False, True] * 4
    assert all(0 <= row["local"] <= 2 for row in table)
    assert table[-1]["local"] < table[0]["local"]
    path = [row["centralised"] for row in table[2::3]]
    assert all(low > 0 for low in path)


def test_one_client_alone_takes_the_same_batches_on_both_sides(whole: Values) -> None:
    asked = {"algorithm": {"name": "radfed", "redistributions": 2}, "participation": {"assignments": [[0]]}}
    table = run({**whole, **asked, "training": {**whole["training"], "batch_size": 7}}).tables["divergence"]
    assert [row["centralised"] for row in table[1::2]] == pytest.approx([0.0] * 4, abs=1e-12)
    assert all(isnan(row["local"]) for row in table), "one model diverges from no other"


def test_observing_changes_nothing(spec: Values) -> None:
    for algorithm in ({"name": "scaffold"}, {"name": "radfed_i", "redistributions": 2}, {"name": "fedasync"}):
        plain = run({**spec, "algorithm": algorithm})
        observed = run({**spec, "algorithm": algorithm, "evaluation": {"divergence": True}})
        assert observed.rows == plain.rows
        assert len(observed.tables["divergence"]) == (12 if algorithm["name"] == "radfed_i" else 6)
        assert "divergence" not in plain.tables


def test_path_of_the_mixture(spec: Values) -> None:
    algorithm = {"name": "dl_opt", "lr_p": 0.05, "steps_p": 7}
    sections = {"training": {**spec["training"], "rounds": 1}, "participation": {}, "dtype": "float64"}
    result = run({**spec, **sections, "algorithm": algorithm})
    path = np.array([[row[f"p_{k}"] for k in range(5)] for row in result.tables["mixture"]])
    assert path.shape == (8, 5)
    np.testing.assert_allclose(path[0], np.array([40, 60, 80, 100, 120]) / 400)
    assert path[-1].sum() == pytest.approx(result.rows[-1]["mixture_sum"])
    assert all((before != after).any() for before, after in pairwise(path))
    assert "mixture" not in run({**spec, **sections, "algorithm": {**algorithm, "steps_p": 0}}).tables


def test_tables_are_files_that_survive_an_interruption(spec: Values, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def progress(done: int, total: int, row: Any) -> None:
        if done == 3:
            raise Stop

    algorithm = {"name": "fedomw", "epochs_p": 3, "batch_p": 16}
    spec = {**spec, "algorithm": algorithm, "evaluation": {"divergence": True}}
    run(spec, tmp_path / "whole")
    (tmp_path / "cut").mkdir()
    with pytest.raises(Stop):
        run(spec, tmp_path / "cut", Settings(checkpoint_seconds=0.0), progress)
    assert (tmp_path / "cut" / CHECKPOINT).exists()
    rounds: list[int] = []
    run(spec, tmp_path / "cut", progress=lambda done, *_: rounds.append(done))
    assert rounds[0] == 3
    for name in ("mixture.csv", "divergence.csv"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    with (tmp_path / "whole/mixture.csv").open() as handle:
        assert [row["pass"] for row in csv.DictReader(handle)] == ["0", "1", "2", "3"]


def test_a_cluster_s_model_is_not_compared_with_one_of_all_clients(whole: Values) -> None:
    clustered = {"name": "fl_hc", "cluster_round": 2, "threshold": 1e-4}
    table = run({**whole, "algorithm": clustered}).tables["divergence"]
    assert [isnan(row["centralised"]) for row in table] == [False, False, True, True]
    assert all(row["local"] > 0 for row in table)
