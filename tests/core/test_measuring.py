"""What a run reports is what its model does."""

from __future__ import annotations

import csv
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedcore.base.errors import SpecError
from fedcore.execution import metrics, simulation
from fedcore.execution.metrics import auc, by_client, f1, measure
from fedcore.execution.output import timing_of
from fedcore.execution.runner import Settings, prepare, run
from fedcore.models import Parameters
from fedcore.models.dense import Dense
from fedcore.parts import Run, State
from fedcore.spec import parse


def scores(parameters: dict[str, Any], x: np.ndarray) -> np.ndarray:
    logits: np.ndarray = x @ parameters["weight"].T + parameters["bias"]
    return logits


def losses(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    z = z - z.max(axis=1, keepdims=True)
    values: np.ndarray = np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y]
    return values


@pytest.fixture
def linear(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "model": {"name": "linear"}, "dtype": "float64"}


def test_final_record_against_numpy(linear: dict[str, Any], digits: Path) -> None:
    result = run(linear)
    clients = [np.load(digits / f"clients/{k}.npz") for k in range(5)]
    x, y = (np.concatenate([c[key] for c in clients]) for key in ("x", "y"))
    test = np.load(digits / "test.npz")
    z = scores(result.parameters, test["x"])
    last = result.rows[-1]
    assert last["train_loss"] == pytest.approx(losses(scores(result.parameters, x), y).mean(), abs=1e-12)
    assert last["test_loss"] == pytest.approx(losses(z, test["y"]).mean(), abs=1e-12)
    assert last["test_accuracy"] == (z.argmax(axis=1) == test["y"]).mean()
    assert result.summary["final"]["test_accuracy"] == last["test_accuracy"]
    assert result.summary["best"]["test_accuracy"] == max(row["test_accuracy"] for row in result.rows)
    assert [result.summary[key] for key in ("samples", "test_samples")] == [len(y), len(test["y"])]


def test_rows_and_columns_follow_the_evaluation(linear: dict[str, Any], tmp_path: Path) -> None:
    spec = {**linear, "evaluation": {"every": 4, "train_every": 8}}
    run(spec, tmp_path / "sparse")
    run(linear, tmp_path / "dense")
    sparse, dense = (
        list(csv.DictReader((tmp_path / name / "history.csv").open())) for name in ("sparse", "dense")
    )
    assert [row["round"] for row in sparse] == ["0", "4", "6"]
    assert [bool(row["train_loss"]) for row in sparse] == [True, False, True]
    assert [row["round"] for row in dense] == [str(i) for i in range(7)]
    by_round = {row["round"]: row for row in dense}
    assert all(row["test_loss"] == by_round[row["round"]]["test_loss"] for row in sparse)
    assert sum(int(row["bytes_up"]) for row in sparse) == sum(int(row["bytes_up"]) for row in dense)


def test_the_best_round_is_the_first_of_equals(linear: dict[str, Any]) -> None:
    linear["training"] = {**linear["training"], "lr": 1e-12}
    result = run(linear)
    assert len({row["test_accuracy"] for row in result.rows}) == 1
    assert result.summary["best"]["round"] == 0


def test_bytes_of_fedavg(linear: dict[str, Any]) -> None:
    summary = run(linear).summary
    cohort, rounds, numbers = 3, 6, 650
    assert summary["parameters"] == numbers
    assert summary["bytes_down"] == summary["bytes_up"] == cohort * rounds * numbers * 8


def test_divergence_is_a_status_not_a_number(tmp_path: Path) -> None:
    spec = {
        "data": {"name": "quadratics"},
        "model": {"name": "scalar_quadratic"},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 200, "local_steps": 10, "batch_size": "full", "lr": 1.0},
    }
    result = run(spec, tmp_path / "out")
    assert result.summary["status"] == "diverged"
    assert result.summary["final"] is None
    assert 0 < result.summary["rounds"] < 200
    assert result.rows[-1]["round"] == result.summary["rounds"]
    assert "NaN" not in (tmp_path / "out/summary.json").read_text()


def test_a_client_without_samples_is_named_and_changes_nothing(tmp_path: Path, digits: Path) -> None:
    summaries = []
    for sources, cohorts in (((0, None, 2), [[0, 1], [1, 2]]), ((0, 2), [[0], [1]])):
        folder = tmp_path / str(len(sources))
        (folder / "clients").mkdir(parents=True)
        for client, source in enumerate(sources):
            stored = np.load(digits / f"clients/{source or 0}.npz")
            keep = slice(0, 0 if source is None else None)
            np.savez(folder / f"clients/{client}.npz", x=stored["x"][keep], y=stored["y"][keep])
        test = np.load(digits / "test.npz")
        np.savez(folder / "test.npz", x=test["x"], y=test["y"])
        spec = {
            "data": {"name": "npz", "path": str(folder)},
            "model": {"name": "linear"},
            "algorithm": {"name": "scaffold"},
            "training": {"rounds": 3, "batch_size": "full", "local_steps": 3, "lr": 0.1},
            "participation": {"cohorts": cohorts},
            "dtype": "float64",
        }
        summaries.append(run(spec).summary)
    assert [summary["empty_clients"] for summary in summaries] == [[1], []]
    assert summaries[0]["status"] == "completed"
    assert summaries[0]["final"] == pytest.approx(summaries[1]["final"], rel=1e-12)


def test_f1_by_hand() -> None:
    y, predicted = torch.tensor([1, 1, 1, 0, 0, 0]), torch.tensor([1, 1, 0, 1, 0, 0])
    precision = recall = 2 / 3
    assert f1(predicted, y, 2) == pytest.approx(2 * precision * recall / (precision + recall))
    assert f1(torch.zeros(6).long(), y, 2) == 0.0
    three = torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 1, 2])
    assert f1(*three, classes=9) == pytest.approx((1 + 2 / 3 + 2 / 3) / 3), (
        "classes that never occur don't count"
    )


def test_auc_is_the_share_of_pairs_in_order() -> None:
    rng = np.random.default_rng(0)
    margins, y = rng.integers(0, 6, 40) / 3, rng.integers(0, 2, 40)
    pairs = margins[y == 1][:, None] - margins[y == 0][None]
    expected = ((pairs > 0) + 0.5 * (pairs == 0)).mean()
    area = auc(torch.tensor(margins), torch.tensor(y))
    assert area == pytest.approx(expected, abs=1e-12)
    assert auc(torch.tensor(-margins), torch.tensor(y)) == pytest.approx(1 - expected, abs=1e-12)
    assert np.isnan(auc(torch.tensor(margins), torch.ones(40)))


def binary(folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    y = np.arange(200) % 2
    (folder / "clients").mkdir(parents=True)
    for client, rows in enumerate(np.split(np.arange(150), 5)):
        np.savez(folder / f"clients/{client}.npz", x=rng.normal(size=(30, 3)) + y[rows][:, None], y=y[rows])
    np.savez(folder / "test.npz", x=rng.normal(size=(50, 3)) + y[150:, None], y=y[150:])
    return {
        "data": {"name": "npz", "path": str(folder)},
        "partition": {"name": "given", "validation": 0.2},
        "model": {"name": "linear"},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 3, "batch_size": 10, "lr": 0.1},
        "dtype": "float64",
    }


def test_a_clients_view_has_the_labels_of_its_rows(tmp_path: Path) -> None:
    """Client 0 has one row of class 1 in four, the test set two in seven."""
    spec = {**binary(tmp_path), "partition": {"name": "given"}, "evaluation": {"clients": True}}
    np.savez(tmp_path / "clients/0.npz", x=np.zeros((4, 3)), y=np.arange(4) // 3)
    whole, rows = np.load(tmp_path / "test.npz"), np.r_[0:20, 20:50:2]
    test = {key: whole[key][rows] for key in ("x", "y")}
    np.savez(tmp_path / "test.npz", x=test["x"], y=test["y"])
    assert test["y"].mean() == 2 / 7
    result = run(spec)
    right = scores(result.parameters, test["x"]).argmax(axis=1) == test["y"]
    expected = 0.75 * right[test["y"] == 0].mean() + 0.25 * right[test["y"] == 1].mean()
    assert [row["client"] for row in result.clients] == [*range(5)]
    assert result.clients[0]["test_accuracy"] == pytest.approx(expected)


def test_metrics_and_validation_are_columns_where_asked_for(tmp_path: Path) -> None:
    spec = binary(tmp_path / "data")
    plain = run(spec, tmp_path / "plain")
    full = run({**spec, "evaluation": {"metrics": ["f1", "auc"], "validation": True}}, tmp_path / "asked")
    added = [f"{of}_{key}" for of in ("test", "validation") for key in ("f1", "auc")]
    added += ["validation_loss", "validation_accuracy"]
    assert set(full.rows[0]) - set(plain.rows[0]) == set(added)
    shared = [{key: row[key] for key in plain.rows[0]} for row in full.rows]
    assert shared == plain.rows, "measuring more changes nothing else"
    assert full.summary["final"] == {
        key: value for key, value in full.rows[-1].items() if key != "round" and "bytes" not in key
    }
    test = np.load(tmp_path / "data/test.npz")
    predicted = scores(full.parameters, test["x"]).argmax(axis=1)
    hits = (predicted & test["y"]).sum()
    assert full.rows[-1]["test_f1"] == pytest.approx(2 * hits / (predicted.sum() + test["y"].sum()))
    assert full.rows[-1]["validation_loss"] != full.rows[-1]["test_loss"]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_further_metrics_take_no_second_pass_and_change_no_byte(
    spec: dict[str, Any], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {**spec, "dtype": "float32", "precision": precision}
    plain = run(spec)
    passes: list[int] = []
    whole = Dense.features

    def counted(model: Dense, p: Parameters, x: torch.Tensor) -> torch.Tensor:
        passes.append(len(x))
        return whole(model, p, x)

    monkeypatch.setattr(Dense, "features", counted)
    run(spec)
    rows, passes[:] = sum(passes), []
    further = run({**spec, "evaluation": {"metrics": ["f1"]}})
    assert sum(passes) == rows
    assert [{key: row[key] for key in plain.rows[0]} for row in further.rows] == plain.rows


def test_the_server_has_its_own_validation_rows_and_those_held_out(tmp_path: Path) -> None:
    spec = binary(tmp_path)
    alone = prepare(parse(spec), Settings())[0].problem.validation
    np.savez(tmp_path / "validation.npz", x=np.ones((7, 3)), y=np.zeros(7, int))
    both = prepare(parse(spec), Settings())[0].problem.validation
    assert alone is not None
    assert both is not None
    assert torch.equal(both.x, torch.cat([alone.x, torch.ones(7, 3)]))
    assert both.y.tolist() == [*alone.y.tolist(), *[0] * 7]


def test_what_cannot_be_measured_is_refused(tmp_path: Path, linear: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="'auc' needs two classes, the data have 10"):
        run({**linear, "evaluation": {"metrics": ["auc"]}})
    scalar = {**linear, "data": {"name": "quadratics"}, "model": {"name": "scalar_quadratic"}}
    with pytest.raises(SpecError, match=r"^evaluation\.metrics: the model 'scalar_quadratic' has no class"):
        run({**scalar, "evaluation": {"metrics": ["f1"]}})
    spec = {**binary(tmp_path), "partition": {"name": "given"}}
    with pytest.raises(SpecError, match=r"evaluation\.validation: there are no validation rows"):
        run({**spec, "evaluation": {"validation": True}})
    for label, name in enumerate(("validation", "test")):
        np.savez(tmp_path / f"{name}.npz", x=np.ones((7, 3)), y=np.full(7, label))
        with pytest.raises(SpecError, match=f"rows of both classes, all {name} rows are of class {label}$"):
            run({**spec, "evaluation": {"metrics": ["auc"], "validation": True}})


def clustered(folder: Path, **evaluation: Any) -> tuple[Run, State]:
    """Return a run of five clusters, a client each, and its state at the end."""
    spec = binary(folder) | {"algorithm": {"name": "fl_hc", "cluster_round": 1, "threshold": 0.0}}
    spec["training"] |= {"lr": 5.0, "batch_size": 2}
    prepared, *_ = prepare(parse({**spec, "evaluation": evaluation}), Settings())
    state = State(0, prepared.problem.start.unsqueeze(0))
    for _ in simulation.simulate(prepared, state):
        pass
    return prepared, state


def test_models_of_clusters_count_with_the_rows_of_their_clients(tmp_path: Path) -> None:
    prepared, state = clustered(tmp_path, metrics=["f1"], validation=True)
    problem, validation = prepared.problem, prepared.problem.validation
    assert validation is not None
    assert len(state.models) == 5
    models = [problem.model.trainable.arrays(model) for model in state.models]
    expected: dict[str, list[float]] = {"accuracy": [], "f1": []}
    for cluster in state.values["clusters"]:
        predicted = torch.tensor(scores(models[cluster], validation.x.numpy()).argmax(axis=1))
        expected["accuracy"].append(float((predicted == validation.y).double().mean()))
        expected["f1"].append(f1(predicted, validation.y, 2))
    assert len(set(expected["accuracy"])) > 1
    for key, values in expected.items():
        weighted = np.average(values, weights=problem.sizes)
        assert state.history[-1][f"validation_{key}"] == pytest.approx(weighted, abs=1e-12)


def test_measurements_of_clusters_are_the_same_in_every_version_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 3.12 on, ``sum`` of floats is as exact as ``math.fsum``."""
    prepared, state = clustered(tmp_path, metrics=["f1"], validation=True)
    monkeypatch.setattr(metrics, "sum", math.fsum, raising=False)
    assert measure(prepared, state, final=True) == {
        key: value for key, value in state.history[-1].items() if key.startswith(metrics.MEASURED)
    }


def test_clients_of_clusters_are_measured_under_their_own_model(tmp_path: Path) -> None:
    prepared, state = clustered(tmp_path)
    alone = []
    for client, cluster in enumerate(state.values["clusters"]):
        served = State(state.round, state.models[cluster].unsqueeze(0))
        alone.append(by_client(prepared, served)[client]["test_loss"])
    assert len({*alone}) == 5
    assert [row["test_loss"] for row in by_client(prepared, state)] == alone


def test_the_training_loss_of_clusters_is_of_each_clients_own_model(tmp_path: Path) -> None:
    prepared, state = clustered(tmp_path)
    problem = prepared.problem
    means = []
    for block, cluster in zip(problem.clients, state.values["clusters"], strict=True):
        arrays = problem.model.trainable.arrays(state.models[cluster])
        means.append(losses(scores(arrays, block.x.numpy()), block.y.numpy()).mean())
    assert len({*means}) == 5
    expected = np.average(means, weights=problem.sizes)
    assert measure(prepared, state, final=True)["train_loss"] == pytest.approx(expected)


def test_a_rounds_time_leaves_measuring_out(spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = simulation.record

    def slow(*given: Any) -> Any:
        time.sleep(0.2)
        return plain(*given)

    monkeypatch.setattr(simulation, "record", slow)
    timing = run(spec).timing
    assert timing["rounds_in_this_process"] == 6
    assert timing["seconds"] > 7 * 0.2
    assert 0 < timing["median_round_seconds"] < 0.2


def test_a_resumed_run_took_the_time_of_all_its_parts(
    spec: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = simulation.record

    def slow(*given: Any) -> Any:
        time.sleep(0.1)
        return plain(*given)

    def stop(done: int, *_: Any) -> None:
        if done in stops:
            stops.remove(done)
            raise KeyboardInterrupt

    monkeypatch.setattr(simulation, "record", slow)
    stops = [3, 5]
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(spec, tmp_path, Settings(checkpoint_seconds=0.0), stop)
    timing = run(spec, tmp_path, Settings(checkpoint_seconds=0.0), stop).timing
    assert timing["rounds_in_this_process"] == 2
    assert 7 * 0.1 < timing["seconds"] < 9 * 0.1 + 2


def test_the_median_of_rounds_is_told(spec: dict[str, Any]) -> None:
    prepared, *_ = prepare(parse(spec), Settings())
    assert timing_of(prepared, 0.0, [1.0, 2.0, 9.0])["median_round_seconds"] == 2


def test_a_run_stops_once_it_measures_the_accuracy_asked_for(linear: dict[str, Any], tmp_path: Path) -> None:
    rows = run({**linear, "evaluation": {"train_every": 0}}).rows
    goal = sorted(row["test_accuracy"] for row in rows)[3]
    first = next(row["round"] for row in rows if row["test_accuracy"] >= goal)
    assert 0 < first < rows[-1]["round"]
    spec = {**linear, "evaluation": {"train_every": 100, "stop_at": goal}}
    short = run(spec, tmp_path / "short")
    assert short.summary["rounds"] == first
    for row, expected in zip(short.rows, rows, strict=False):
        assert {**row, "train_loss": 0} == {**expected, "train_loss": 0}
    assert math.isfinite(short.rows[-1]["train_loss"]), "the last round is measured whole"
    assert run({**spec, "evaluation": {"stop_at": 0.0001}}).summary["rounds"] == 0, "the start suffices"
    with pytest.raises(SpecError, match=r"evaluation.stop_at"):
        run({**spec, "evaluation": {"stop_at": -1}})
