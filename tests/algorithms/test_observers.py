"""What observers keep of a run, and that they change nothing in it."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedcore
from fedcore.base import registry
from fedcore.base.errors import BrokenContract, SpecError
from fedcore.base.options import Options
from fedcore.base.registry import Plugin, plugins
from fedcore.base.rng import Streams
from fedcore.execution import integrity
from fedcore.execution.integrity import CHECKPOINT
from fedcore.execution.runner import Settings, run
from fedcore.parts import Part, State
from fedcore.parts.discrepancy import mmd
from fedcore.parts.observers.risk import discrepancies, risk_terms
from fedcore.spec import parse
from pipeline.catalogue import codehash

Values = dict[str, Any]
ALL = {
    "features": {"rows": 30},
    "mixture": {"rows": 20, "rounds": [0, 2]},
    "path": {"every": 2},
    "risk": None,
}
FILES = ("features.npz", "mixture.npz", "path.npz", "risk.csv")


def observed(spec: Values, **observers: Any) -> Values:
    return {**spec, "evaluation": {**spec.get("evaluation", {}), "observe": observers}}


def flat(parameters: Values) -> np.ndarray:
    return np.concatenate([parameters[name].ravel() for name in parameters])


@pytest.fixture
def linear(spec: Values) -> Values:
    return {**spec, "model": {"name": "linear"}, "dtype": "float64", "participation": {}}


def client(digits: Path, k: int) -> tuple[np.ndarray, np.ndarray]:
    rows = np.load(digits / f"clients/{k}.npz")
    return rows["x"], rows["y"]


@pytest.mark.parametrize("algorithm", ["scaffold", "rfedavg_plus", "fedasync"])
def test_observing_changes_nothing(spec: Values, algorithm: str) -> None:
    spec = {**spec, "algorithm": {"name": algorithm}}
    plain, seen = run(spec), run(observed(spec, **dict(reversed(ALL.items()))))
    assert seen.rows == plain.rows
    assert [*seen.arrays] == ["features", "mixture", "path"], "in whatever order they are asked for"
    assert set(seen.tables) - set(plain.tables) == {"risk"}
    assert not plain.arrays


def test_an_observed_run_may_diverge(spec: Values) -> None:
    spec = {**spec, "algorithm": {"name": "fedavg"}, "training": {**spec["training"], "lr": 1e30}}
    assert run(observed(spec, **ALL)).summary["status"] == "diverged"


def test_a_specification_without_observers_is_what_it_was(spec: Values) -> None:
    assert "observe" not in parse(spec).resolved()["evaluation"]
    assert parse(observed(spec)).sha256() == parse(spec).sha256()
    named = parse(observed(spec, path=None))
    assert named.resolved()["evaluation"]["observe"] == {"path": {"every": 1}}
    assert parse(named.resolved()).sha256() == named.sha256() != parse(spec).sha256()


def test_an_observers_code_counts_only_where_it_observes() -> None:
    plugins = {"algorithm": "fedavg", "data": "mnist", "model": "cnn", "partition": "iid"}
    reached = codehash.reached(codehash.RUN)
    assert not {module for module, _ in reached if module.startswith("fedcore.parts.observers")}
    hashes = [codehash.of_run(**plugins, observers=names) for names in ((), ("path",), ("path", "risk"))]
    assert len(set(hashes)) == 3


def test_features_are_those_of_the_clients_own_models(spec: Values, digits: Path) -> None:
    """With one client a round the global model is that client's."""
    alone = {**spec, "participation": {"cohorts": [[0], [3]]}, "dtype": "float64"}
    result = run(observed(alone, features={"rows": 25}))
    kept, (x, y) = result.arrays["features"], client(digits, 3)
    hidden = np.maximum(0, x @ result.parameters["layers.0.weight"].T + result.parameters["layers.0.bias"])
    assert kept["client"].tolist() == [3] * 25
    rows = [int(np.abs(hidden - phi).max(axis=1).argmin()) for phi in kept["features"]]
    np.testing.assert_allclose(kept["features"].astype(float), hidden[rows], atol=1e-12)
    assert rows == sorted(set(rows))
    assert kept["label"].tolist() == y[rows].tolist()


def test_features_of_a_client_do_not_depend_on_who_else_trains(spec: Values) -> None:
    spec["training"] = {**spec["training"], "rounds": 1}
    both, alone = (
        run(observed({**spec, "participation": {"cohorts": [who]}}, features=None)).arrays["features"]
        for who in ([0, 3], [3])
    )
    np.testing.assert_array_equal(both["features"][both["client"] == 3], alone["features"])


def test_mixtures_of_two_models_are_57_unless_asked_for_otherwise(spec: Values) -> None:
    named = parse(observed(spec, between=None)).resolved()["evaluation"]["observe"]
    assert named == {"between": {"points": 57}}, "2.5 per cent apart, as both models are among them"


def test_features_of_all_rows_of_small_clients(linear: Values, digits: Path) -> None:
    kept = run(observed(linear, features={"rows": 100_000})).arrays["features"]
    clients = [client(digits, k) for k in range(5)]
    np.testing.assert_array_equal(kept["features"], np.concatenate([x for x, _ in clients]).astype(float))
    np.testing.assert_array_equal(kept["label"], np.concatenate([y for _, y in clients]))
    np.testing.assert_array_equal(kept["client"], np.repeat(range(5), [len(y) for _, y in clients]))


def test_features_are_in_the_order_of_clients_whichever_model_they_trained(spec: Values) -> None:
    turns = {**spec, "algorithm": {"name": "radfed", "redistributions": 2}}
    turns["participation"] = {"assignments": [[0, 2], [4, 1]]}
    kept = run(observed(turns, features={"rows": 3})).arrays["features"]
    assert kept["client"].tolist() == [1, 1, 1, 4, 4, 4]


def test_features_of_the_mixture_are_those_of_the_same_rows_under_the_global_model(
    spec: Values, digits: Path
) -> None:
    spec = {**spec, "dtype": "float64"}
    result = run(observed(spec, mixture={"rows": 12, "rounds": [0, 6, 9]}))
    kept = result.arrays["mixture"]
    assert kept["round"].tolist() == [0, 6]
    assert kept["client"].tolist() == np.repeat(range(5), 12).tolist()
    weight, bias = result.parameters["layers.0.weight"], result.parameters["layers.0.bias"]
    for k in range(5):
        hidden = np.maximum(0, client(digits, k)[0] @ weight.T + bias)
        features = kept["features"][1][kept["client"] == k]
        rows = [int(np.abs(hidden - phi).max(axis=1).argmin()) for phi in features]
        np.testing.assert_allclose(features, hidden[rows], atol=1e-12)
        assert rows == sorted(set(rows))
    first = run(observed(spec, mixture={"rows": 12, "rounds": [0]})).arrays["mixture"]
    np.testing.assert_array_equal(first["features"][0], kept["features"][0])


def test_the_path_goes_from_the_first_model_to_the_last(linear: Values) -> None:
    path = run(observed(linear, path={"every": 4})).arrays["path"]
    assert path["round"].tolist() == [0, 4, 6]
    shorter = {**linear, "training": {**linear["training"], "rounds": 4}}
    np.testing.assert_array_equal(path["model"][1], flat(run(shorter).parameters))
    np.testing.assert_array_equal(path["model"][2], flat(run(linear).parameters))
    zeros = {**linear, "model": {"name": "linear", "init": "zeros"}}
    assert not run(observed(zeros, path=None)).arrays["path"]["model"][0].any()


def test_terms_of_the_bound_against_numpy(linear: Values, digits: Path) -> None:
    result = run(observed(linear, risk={"every": 3}))
    table = result.tables["risk"]
    assert [row["round"] for row in table] == [0, 3, 6]
    clients = [client(digits, k) for k in range(5)]
    weight, bias = result.parameters["weight"], result.parameters["bias"]
    p = np.array([len(y) for _, y in clients]) / sum(len(y) for _, y in clients)
    terms = risk_terms(weight, [x for x, _ in clients], p)
    assert table[-1]["federated"] == pytest.approx(terms["federated"], rel=1e-12)
    assert table[-1]["agnostic_complexity"] == pytest.approx(terms["agnostic_complexity"], rel=1e-12)
    assert table[-1]["agnostic_deviation"] == pytest.approx(400**-0.5)

    def loss(x: np.ndarray, y: np.ndarray) -> float:
        z = x @ weight.T + bias
        return float((np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y]).mean())

    losses = np.array([loss(*rows) for rows in clients])
    of_the_global_model = float(p @ np.abs(losses - p @ losses))
    assert table[-1]["discrepancy"] >= of_the_global_model - 1e-12
    first = {
        **linear,
        "training": {**linear["training"], "rounds": 1},
        "model": {"name": "linear", "init": "zeros"},
    }
    assert run(observed(first, risk=None)).tables["risk"][0]["discrepancy"] == pytest.approx(0, abs=1e-12)


def test_terms_of_the_bound_by_hand() -> None:
    """Two classes, B = 3 + 4; features of norms 3 and 13 in one and three rows."""
    head = np.array([[3.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    phi = [np.array([[1.0, 2.0, 2.0]]), np.array([[0.0, 3.0, 4.0], [0.0, 0.0, 0.0], [0.0, 0.0, 12.0]])]
    first, second = 7 * 2**0.5 * 3, 7 * 2**0.5 * 13 / 3
    terms = risk_terms(head, phi, np.array([0.5, 0.5]))
    assert terms == pytest.approx(
        {
            "agnostic_complexity": (first + second) / 2,
            "agnostic_deviation": ((0.25 / 0.25 + 0.25 / 0.75) / 4) ** 0.5,
            "approximation": 7 * 2**0.5 / 4 * (9 + 169) ** 0.5 + 0.5,
            "federated": 0.5 * (first + 1) + 0.5 * (second + 3**-0.5),
        }
    )


def test_the_discrepancy_is_over_the_global_model_and_those_that_clients_sent(
    linear: Values, digits: Path
) -> None:
    """A server that goes ten times as far as its clients has the largest gaps, one that stays the least."""
    linear["training"] = {**linear["training"], "rounds": 1}
    clients = [client(digits, k) for k in range(5)]
    p = np.array([len(y) for _, y in clients]) / 400

    def losses(parameters: Values) -> list[float]:
        scores = [x @ parameters["weight"].T + parameters["bias"] for x, _ in clients]
        each = zip(scores, clients, strict=True)
        return [float((np.log(np.exp(z).sum(1)) - z[range(len(y)), y]).mean()) for z, (_, y) in each]

    sent = [run({**linear, "participation": {"cohorts": [[k]]}}).parameters for k in (0, 3)]
    for server_lr in (1e-9, 10.0):
        algorithm = {"name": "fedavgm", "beta": 0, "server_lr": server_lr}
        spec = {**linear, "algorithm": algorithm, "participation": {"cohorts": [[0, 3]]}}
        result = run(observed(spec, risk=None))
        gaps = discrepancies(np.array([*map(losses, (result.parameters, *sent))]), p)
        assert result.tables["risk"][1]["discrepancy"] == pytest.approx(p @ gaps, rel=1e-6)


def test_the_mmd_of_the_bound_is_between_drawn_rows_of_each_client_and_of_all(
    linear: Values, digits: Path
) -> None:
    """Features of a linear model are its inputs; of 100 rows or fewer, all are taken."""
    inputs = [torch.from_numpy(client(digits, k)[0].astype(float)) for k in range(5)]
    everything, table = torch.cat(inputs), run(observed(linear, risk={"every": 6})).tables["risk"]
    assert [row["round"] for row in table] == [0, 6]
    for row in table:
        total = 0.0
        for k, rows in enumerate(inputs):
            rng = Streams(linear["seed"]).get("risk points", int(row["round"]), k)
            drawn = [points[rng.permutation(len(points))[:100]] for points in (rows, everything)]
            total += len(rows) / 400 * mmd("kernel", *drawn)
        assert row["mmd"] == pytest.approx(total, rel=1e-9)


def test_files_are_sealed_and_survive_an_interruption(spec: Values, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def progress(done: int, total: int, row: Any) -> None:
        if done == 3:
            raise Stop

    spec = observed(spec, **ALL)
    run(spec, tmp_path / "whole")
    with pytest.raises(Stop):
        run(spec, tmp_path / "cut", Settings(checkpoint_seconds=0.0), progress)
    assert (tmp_path / "cut" / CHECKPOINT).exists()
    rounds: list[int] = []
    run(spec, tmp_path / "cut", progress=lambda done, *_: rounds.append(done))
    assert rounds[0] == 3
    for name in FILES:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not integrity.check(tmp_path).problems
    with (tmp_path / "whole/risk.csv").open() as handle:
        assert [row["round"] for row in csv.DictReader(handle)] == [str(at) for at in range(7)]
    (tmp_path / "cut/features.npz").write_bytes(b"")
    assert [str(problem.folder.name) for problem in integrity.check(tmp_path).problems] == ["cut"]


def test_a_diverged_run_has_no_last_features(linear: Values, tmp_path: Path) -> None:
    wild = {**linear, "training": {**linear["training"], "lr": 1e38, "weight_decay": 1e38}}
    result = run(observed(wild, features=None), tmp_path)
    assert result.summary["status"] == "diverged"
    assert not (tmp_path / "features.npz").exists()


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"feature": None}, "evaluation.observe: no observer named 'feature' (did you mean 'features'?)"),
        (
            {"features": {"rows": 0}},
            "evaluation.observe.features.rows: got 0, expected a number greater than 0",
        ),
        ({"path": {"often": 1}}, "evaluation.observe.path.often: unknown key; known keys: every"),
        ({"path": 3}, "evaluation.observe.path: expected keys and values, got 3"),
        (["path"], "evaluation.observe: expected observers with their options, got ['path']"),
    ],
)
def test_a_wrong_observer_is_one_line(spec: Values, given: Any, line: str) -> None:
    with pytest.raises(SpecError) as error:
        parse({**spec, "evaluation": {"observe": given}})
    assert str(error.value).startswith(line)


@dataclass(frozen=True)
class Reports(Part):
    """Reports what a test asks for; columns after the first round alone."""

    column: str = "mine"
    table: str = "mine"
    array: str = "mine"
    values: object = 1

    def columns(self, state: State) -> dict[str, Any]:
        return {self.column: np.float32(0.5)} if state.round else {}

    def tables(self, state: State) -> dict[str, Any]:
        return {self.table: [{"a": 1}, {"b": 2}]}

    def arrays(self, state: State) -> dict[str, Any]:
        return {self.array: {"a": np.array(self.values)}}


@pytest.fixture
def reports(spec: Values, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Reports], Values]]:
    monkeypatch.setitem(registry._REGISTERED, "observer", {})

    def registered(part: Reports) -> Values:
        fedcore.register("observer", Plugin("mine", Options, lambda options, spec: part, "", ""))
        return observed(spec | {"model": {"name": "linear"}}, mine={}, path={}, risk={})

    yield registered
    plugins.cache_clear()


def test_columns_may_come_later_and_be_numpy_s(reports: Callable[[Reports], Values], tmp_path: Path) -> None:
    run(reports(Reports()), tmp_path, Settings(checkpoint_seconds=0.0))
    read = fedcore.load(tmp_path)
    assert str([row["mine"] for row in read.rows]) == "[nan, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]"
    assert (tmp_path / "mine.csv").read_text() == "a,b\n1,\n,2\n"


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Reports(column="round"), "columns: 'round' is taken, expected another name"),
        (
            Reports(table="clients"),
            "tables: 'clients' is the name of other tables of the run, expected another",
        ),
        (Reports(table="risk"), "tables: 'risk' is the name of"),
        (Reports(array="model"), "arrays: 'model' is the name of"),
        (Reports(array="path"), "arrays: 'path' is the name of"),
        (Reports(values={}), "arrays: 'mine' holds Python objects, expected numbers or text"),
    ],
)
def test_what_a_part_reports_replaces_nothing_and_can_be_read_back(
    reports: Callable[[Reports], Values], part: Reports, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BrokenContract, match=rf"^\w+\.{message}"):
        run(reports(part), tmp_path / "out")
    assert not (tmp_path / "out/history.csv").exists()


@pytest.mark.parametrize("same", [True, False])
def test_the_loss_between_two_models_has_both_and_their_mean(linear: Values, same: bool) -> None:
    """Softmax regression is convex: the mean's loss lies below the mean of both, whatever the start."""
    between = {"between": {"points": 15}}
    spec = {
        **linear,
        "algorithm": {"name": "oneshot"} | ({} if same else {"same_start": False}),
        "training": {"rounds": 1, "local_steps": 3, "batch_size": 8, "lr": 0.05},
        "participation": {"cohorts": [[0, 1]]},
        "evaluation": {"observe": between},
    }
    result = run(spec)
    rows = result.tables["between"]
    assert [row["weight"] for row in rows] == pytest.approx([tenth / 10 for tenth in range(-2, 13)])
    second, mean, first = (rows[place]["train_loss"] for place in (2, 7, 12))
    assert mean == pytest.approx(result.rows[-1]["train_loss"]), "the server takes the mean of the models"
    assert mean < (first + second) / 2
    alone = run({**spec, "participation": {"cohorts": [[1]]}})
    assert second == pytest.approx(alone.rows[-1]["train_loss"])
    received, sent = (alone.tables["between"][place]["train_loss"] for place in (2, 12))
    assert sent == pytest.approx(second)
    assert (received == pytest.approx(alone.rows[0]["train_loss"])) == same, "the client's own start"


def test_own_starts_are_drawn_for_each_client(linear: Values) -> None:
    """With a rate of nearly nothing models stay at their starts, whose loss is not that of one start."""
    training = {"rounds": 1, "local_steps": 1, "batch_size": 8, "lr": 1e-12}
    runs = []
    for same in (True, False):
        algorithm = {"name": "oneshot", "same_start": same}
        spec = {**linear, "algorithm": algorithm, "training": training}
        runs += [run({**spec, "participation": {"cohorts": [[k]]}}).rows for k in (0, 1)]
    ends = [rows[-1]["train_loss"] for rows in runs]
    assert ends[:2] == pytest.approx([runs[0][0]["train_loss"]] * 2)
    assert len({round(loss, 6) for loss in ends[1:]}) == 3
    zeros = {**spec, "model": {**spec["model"], "init": "zeros"}}
    first, last = (run(zeros).rows[place]["train_loss"] for place in (0, -1))
    assert last == pytest.approx(first), "they start where the specification says"
