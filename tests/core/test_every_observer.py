"""What is observed beside any algorithm, and measurements that some runs can't have: work, or one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedcore.base.errors import SpecError
from fedcore.base.registry import plugins
from fedcore.execution.runner import Settings, prepare, run
from fedcore.execution.simulation import simulate
from fedcore.parts import State
from fedcore.parts.aggregate import Fair
from fedcore.spec import parse

OBSERVERS = sorted(plugins("observer"))
OF_CLIENTS_MODELS = {"between", "features"}
NO_MODELS = r"^evaluation\.divergence: true, but 'centralised' has no clients' models to compare$"


def specification(base: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a run of an algorithm of two rounds, one where it allows no more, on validation rows too."""
    model = {"name": "rff_linear", "features": 12, "learnable": True}
    training = {"rounds": 2, "local_epochs": 1, "batch_size": 16, "lr": 0.05}
    divided = {"name": "iid", "clients": 4, "validation": 0.2}
    spec = {**base, "model": model, "training": training, "partition": divided, "algorithm": {"name": name}}
    try:
        parse(spec)
    except SpecError:
        spec["training"] = {**training, "rounds": 1}
    return spec


@pytest.mark.parametrize("name", sorted(plugins("algorithm")))
def test_every_observer_works_with_every_algorithm(name: str, spec: dict[str, Any]) -> None:
    spec = specification(spec, name)
    plain = run(spec)
    for observer in OBSERVERS:
        seen = run({**spec, "evaluation": {"observe": {observer: {}}}})
        assert seen.rows == plain.rows, f"{observer} changes the run"
        kept = {**seen.tables, **seen.arrays}.get(observer)
        measured = bool(kept) and kept != plain.tables.get(observer)
        assert measured == (name != "centralised" or observer not in OF_CLIENTS_MODELS), observer
    full_spec = {**spec, "evaluation": {"divergence": True, "observe": {name: {} for name in OBSERVERS}}}
    if name == "centralised":
        with pytest.raises(SpecError, match=NO_MODELS):
            run(full_spec)
    else:
        assert run(full_spec).rows == plain.rows


def one_class(folder: Path, test: int) -> dict[str, Any]:
    """Return a run on two classes whose test rows are all of one."""
    rng = np.random.default_rng(0)
    (folder / "clients").mkdir(parents=True)
    for client in range(3):
        np.savez(folder / f"clients/{client}.npz", x=rng.normal(size=(20, 3)), y=np.arange(20) % 2)
    np.savez(folder / "test.npz", x=rng.normal(size=(10, 3)), y=np.full(10, test))
    return {
        "data": {"name": "npz", "path": str(folder)},
        "model": {"name": "linear"},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 1, "batch_size": 10, "lr": 0.1},
        "evaluation": {"metrics": ["auc"]},
    }


@pytest.mark.parametrize("label", [0, 1])
def test_an_area_under_the_curve_of_one_class_is_refused_before_training(tmp_path: Path, label: int) -> None:
    message = rf"^evaluation\.metrics: 'auc' needs rows of both classes, all test rows are of class {label}$"
    with pytest.raises(SpecError, match=message):
        run(one_class(tmp_path / "data", label), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("q", [0.5, 1.0, 5.0])
def test_clients_without_loss_leave_a_fair_server_where_it_is(
    spec: dict[str, Any], q: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedcore.parts.aggregate.mean_loss", lambda *given: 0.0)
    prepared, _, _ = prepare(parse({**spec, "algorithm": {"name": "qfedavg", "q": q}}), Settings())
    assert isinstance(prepared.recipe.aggregate, Fair)
    state = State(round=0, models=prepared.problem.start.clone().unsqueeze(0))
    for _ in simulate(prepared, state):
        pass
    assert state.round == prepared.spec.training.rounds
    assert torch.equal(state.model, prepared.problem.start)


class Counted(list[dict[str, float]]):
    """A history that counts how many of its rows are read one after another."""

    read = 0

    def __iter__(self) -> Iterator[dict[str, float]]:
        for row in super().__iter__():
            self.read += 1
            yield row


def test_a_round_reads_no_earlier_rows_of_the_history(spec: dict[str, Any]) -> None:
    long = {**spec, "training": {**spec["training"], "rounds": 40}, "model": {"name": "linear"}}
    prepared, _, _ = prepare(parse(long), Settings())
    history = Counted()
    state = State(round=0, models=prepared.problem.start.clone().unsqueeze(0), history=history)
    for _ in simulate(prepared, state):
        pass
    assert len(history) == 41
    assert history.read == 0
    assert sum(row["bytes_down"] for row in history) == state.bytes_down > 0
