"""The fused engine: first layers by coefficients, pulls and offsets, its place in a run's identity."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_cases import specification

from fedcore.algorithms import AlgorithmOptions, Plugin, recipe
from fedcore.base import registry
from fedcore.base.errors import SpecError
from fedcore.engines import BoundTerm, Job, Task, Upload, fused
from fedcore.engines.fused import Fused
from fedcore.execution import checkpoint
from fedcore.execution.result import Result
from fedcore.execution.runner import Settings, prepare, run
from fedcore.execution.simulation import simulate
from fedcore.parts import Run, State
from fedcore.parts.objective import Proximal
from fedcore.spec import parse


def asked(folder: Path, algorithm: dict[str, Any] | None = None, **training: Any) -> dict[str, Any]:
    values = specification(folder, "fedavg", "relu", engine="fused")
    steps = {"training": values["training"] | {"rounds": 4} | training}
    return values | steps | {"algorithm": algorithm or values["algorithm"]}


def trained(values: dict[str, Any]) -> tuple[Run, State]:
    prepared, _, _ = prepare(parse(values), Settings(device="cpu"))
    state = State(round=0, models=prepared.problem.start.clone().unsqueeze(0))
    for _ in simulate(prepared, state):
        pass
    return prepared, state


def by_coefficients(prepared: Run) -> bool:
    assert isinstance(prepared.engine, Fused)
    return bool(prepared.engine.grams)


WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({"name": "fedavg"}, {}),
    "two passes": ({"name": "fedavg"}, {"local_epochs": 2}),
    "a pass and a bit": ({"name": "fedavg"}, {"local_epochs": None, "local_steps": 9}),
    "whole batches only": ({"name": "fedavg"}, {"drop_last": True, "local_epochs": 3}),
    "all rows at once": ({"name": "fedavg"}, {"batch_size": "full", "local_epochs": 3}),
    "weight decay": ({"name": "fedavg"}, {"weight_decay": 0.1}),
    "a pull": ({"name": "fedprox", "mu": 1.0}, {"local_epochs": 2}),
    "a pull that momentum scales": (
        {"name": "prox_adam", "mu": 1.0, "momentum_in_local": 0.5},
        {"local_epochs": 2},
    ),
    "a pull and decay": ({"name": "fedprox", "mu": 3.0}, {"weight_decay": 0.1}),
    "offsets": ({"name": "scaffold"}, {"local_epochs": 2}),
    "offsets and decay": ({"name": "scaffold"}, {"weight_decay": 0.1, "local_epochs": 2}),
    "rates by step": ({"name": "fedprox"}, {"lr_schedule": {"name": "inverse_time", "offset": 5.0}}),
}


@pytest.mark.parametrize("model", ["relu", "linear"])
@pytest.mark.parametrize("way", WAYS)
def test_coefficients_of_the_rows_are_the_first_layers_steps(images: Path, way: str, model: str) -> None:
    algorithm, training = WAYS[way]
    values = asked(images, algorithm, **training)
    values["model"] = specification(images, "fedavg", model)["model"]
    prepared, state = trained(values)
    assert by_coefficients(prepared)
    _, expected = trained(values | {"engine": "autograd"})
    torch.testing.assert_close(state.models, expected.models, rtol=1e-10, atol=1e-12)
    assert not torch.allclose(state.models, prepared.problem.start)


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six clients with 16 numbers a row: three of one size, two of another, and one with too many rows."""
    folder = tmp_path_factory.mktemp("alike")
    (folder / "clients").mkdir()
    rng = np.random.default_rng(8)
    for name, size in [("test", 20), *((f"clients/{k}", n) for k, n in enumerate((8, 5, 30, 8, 5, 8)))]:
        y = rng.integers(0, 3, size)
        np.savez(folder / f"{name}.npz", x=(y[:, None] + rng.normal(size=(size, 16))).astype(np.float32), y=y)
    return folder


def watched(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Return what will be the clients of each group that takes its steps at once."""
    together: list[list[int]] = []
    whole = Fused._by_coefficients

    def by_coefficients(engine: Fused, tasks: Sequence[Task]) -> list[Upload]:
        together.append([task.job.client for task in tasks])
        return whole(engine, tasks)

    monkeypatch.setattr(Fused, "_by_coefficients", by_coefficients)
    return together


LAYERS: dict[str, dict[str, Any]] = {
    "linear": {"name": "linear"},
    "no bias": {"name": "linear", "bias": False},
    "relu": {"name": "mlp", "hidden": [5, 4]},
    "tanh": {"name": "mlp", "hidden": [4], "activation": "tanh"},
}
ALIKE: list[tuple[str, str, list[int] | None]] = [
    (way, model, None) for way in WAYS for model in ("linear", "relu")
]
ALIKE += [
    (way, model, None) for way in ("a pull and decay", "offsets and decay") for model in ("no bias", "tanh")
]
ALIKE += [(way, "relu", [4, 4, 4, 4, 4, 7]) for way in ("plain", "offsets")]


@pytest.mark.parametrize(("way", "model", "steps"), ALIKE)
def test_clients_of_one_size_take_their_steps_at_once(
    alike: Path, way: str, model: str, steps: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = watched(monkeypatch)
    algorithm, training = WAYS[way]
    training = {"batch_size": 3} | training
    training |= {"local_steps": steps, "local_epochs": None} if steps else {}
    values = asked(alike, algorithm, **training) | {"participation": {"fraction": 1.0}}
    values["model"] = LAYERS[model]
    _, state = trained(values)
    assert together[:3] == ([[0, 3], [1, 4], [5]] if steps else [[0, 3, 5], [1, 4]] * 2)[:3]
    _, expected = trained(values | {"engine": "autograd"})
    torch.testing.assert_close(state.models, expected.models, rtol=1e-10, atol=1e-12)

    outputs = [*values["model"].get("hidden", []), 3]
    numbers = 8 * (8 + outputs[0]) + sum(a * b for a, b in pairwise(outputs))  # X X^T, A and the other layers
    for most, groups in ((2 * numbers, [[0, 3], [5]]), (2 * numbers - 1, [[0], [3], [5]])):
        monkeypatch.setattr(fused, "AT_ONCE", most)
        together.clear()
        _, fewer = trained(values)
        assert [group for group in together if {*group} <= {0, 3, 5}][: len(groups)] == groups
        torch.testing.assert_close(fewer.models, expected.models, rtol=1e-10, atol=1e-12)


class OwnPull(Proximal):
    """A pull whose weight is the client's number."""

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        return Proximal(float(job.client)).bind(run, state, job)


@pytest.mark.parametrize("algorithm", ["vrl_sgd", "own pulls"])
def test_clients_with_corrections_of_their_own_take_their_steps_apart(
    alike: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VRL-SGD has an offset for clients alone that took part before, here 0 and 3 in the second round."""
    pulls = recipe(objective=(OwnPull(1.0),))
    plugin = Plugin("own pulls", AlgorithmOptions, lambda options, spec: pulls, "pulls", "this test")
    monkeypatch.setitem(registry._REGISTERED["algorithm"], "own pulls", plugin)
    registry.plugins.cache_clear()
    together = watched(monkeypatch)
    values = asked(alike, {"name": algorithm}, rounds=2) | {"participation": {"cohorts": [[0, 3], [0, 3, 5]]}}
    _, state = trained(values)
    _, expected = trained(values | {"engine": "autograd"})
    registry.plugins.cache_clear()
    apart = [[0], [3]] if algorithm == "own pulls" else [[0, 3]]
    assert together == [*apart, *apart, [5]]
    torch.testing.assert_close(state.models, expected.models, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("most", [1, 1 << 22])
def test_offsets_are_let_go_once_their_clients_are_trained(
    alike: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []
    whole = Fused._by_coefficients

    def counted(engine: Fused, tasks: Sequence[Task]) -> list[Upload]:
        alive.append(sum(offset() is not None for offset in offsets))
        offsets.extend(
            weakref.ref(task.direction.offset) for task in tasks if task.direction.offset is not None
        )
        return whole(engine, tasks)

    monkeypatch.setattr(fused, "AT_ONCE", most)
    monkeypatch.setattr(Fused, "_by_coefficients", counted)
    trained(asked(alike, {"name": "scaffold"}, rounds=1) | {"participation": {"fraction": 1.0}})
    assert len(offsets) == 5
    assert len(alive) == (5 if most == 1 else 2)
    assert max(alive) <= 1, "the last that was bound"


@pytest.mark.parametrize(
    "training",
    [{"momentum": 0.9}, {"optimizer": "rmsprop"}, {"local_epochs": None, "local_steps": 1}],
    ids=["momentum", "rmsprop", "few steps"],
)
def test_other_steps_have_the_bytes_of_hand_derived_gradients(images: Path, training: dict[str, Any]) -> None:
    values = asked(images, **training) | {"participation": {"cohorts": [[0, 1, 2]]}}
    prepared, state = trained(values)
    assert not by_coefficients(prepared)
    _, expected = trained(values | {"engine": "analytic"})
    assert state.models.numpy().tobytes() == expected.models.numpy().tobytes()


def test_a_first_layer_may_be_narrower_than_there_are_classes(images: Path) -> None:
    values = asked(images) | {"model": {"name": "mlp", "hidden": [2]}}
    prepared, state = trained(values)
    assert by_coefficients(prepared)
    assert prepared.problem.classes > 2
    _, expected = trained(values | {"engine": "autograd"})
    torch.testing.assert_close(state.models, expected.models, rtol=1e-10, atol=1e-12)


def test_layers_without_biases_move_likewise(images: Path) -> None:
    values = asked(images) | {"model": {"name": "linear", "bias": False}}
    prepared, state = trained(values)
    assert by_coefficients(prepared)
    _, expected = trained(values | {"engine": "autograd"})
    torch.testing.assert_close(state.models, expected.models, rtol=1e-10, atol=1e-12)


def test_a_pull_that_overshoots_is_left_to_general_steps(images: Path) -> None:
    values = asked(images, {"name": "fedprox", "mu": 30.0}, rounds=1)
    prepared, state = trained(values)
    assert not by_coefficients(prepared)
    _, expected = trained(values | {"engine": "autograd"})
    torch.testing.assert_close(state.models, expected.models)


def test_pulls_that_overshoot_together_are_left_to_general_steps(
    images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulls = recipe(objective=(Proximal(10.0), Proximal(10.0)))
    plugin = Plugin("pulls", AlgorithmOptions, lambda options, spec: pulls, "two pulls", "this test")
    monkeypatch.setitem(registry._REGISTERED["algorithm"], "pulls", plugin)
    registry.plugins.cache_clear()
    values = asked(images, {"name": "pulls"}, rounds=1, lr=0.05)
    prepared, state = trained(values)
    _, expected = trained(values | {"engine": "autograd"})
    registry.plugins.cache_clear()
    assert not by_coefficients(prepared)
    torch.testing.assert_close(state.models, expected.models)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_decay_that_grows_ends_in_a_diverged_run(images: Path) -> None:
    values = asked(images, weight_decay=1.0, lr=1e20) | {"dtype": "float32"}
    assert run(values, progress=False).summary["status"] == "diverged"


def test_terms_on_features_and_drifts_keep_their_gradients(images: Path) -> None:
    for algorithm in ({"name": "rfedavg_plus"}, {"name": "feddc"}):
        values = asked(images, algorithm)
        _, state = trained(values)
        _, expected = trained(values | {"engine": "autograd"})
        torch.testing.assert_close(state.models, expected.models, rtol=1e-9, atol=1e-12)


def test_only_a_specification_that_names_it_gets_it(images: Path) -> None:
    fused = asked(images)
    plain = {key: value for key, value in fused.items() if key != "engine"}
    assert trained(plain)[0].engine.name == "analytic"
    assert parse(plain).resolved()["engine"] == "auto"
    assert parse(fused).sha256() != parse(plain).sha256()
    assert parse(plain).sha256() == parse(plain | {"engine": "auto"}).sha256()
    with pytest.raises(SpecError, match="'fused' does not support precision bf16; autograd, stacked can"):
        trained(asked(images) | {"precision": "bf16", "dtype": "float32"})


def test_a_run_that_was_interrupted_has_the_same_bytes(images: Path, tmp_path: Path) -> None:
    values = asked(images, {"name": "fedprox"}, local_epochs=2) | {"dtype": "float32"}
    result: Result = run(values, progress=False)
    again: Result = run(values, progress=False)
    prepared, identity, _ = prepare(parse(values), Settings(device="cpu"))
    state = State(round=0, models=prepared.problem.start.clone().unsqueeze(0))
    rounds = simulate(prepared, state)
    for _ in range(3):
        next(rounds)
    checkpoint.save(tmp_path / "state.npz", state, identity)
    fresh, identity, _ = prepare(parse(values), Settings(device="cpu"))
    resumed = checkpoint.load(tmp_path / "state.npz", identity, torch.device("cpu"))
    assert resumed
    assert 0 < resumed.round < 4
    for _ in simulate(fresh, resumed):
        pass
    parts = [array.reshape(-1) for array in result.parameters.values()]
    assert np.concatenate(parts).tobytes() == resumed.models.numpy().tobytes()
    assert all(np.array_equal(array, again.parameters[name]) for name, array in result.parameters.items())
