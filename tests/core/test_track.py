"""Measurements that are also sent elsewhere: all of them, and the run's own files stay the same bytes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fedcore
from fedcore.base.errors import MissingPackage, SpecError
from fedcore.execution import track
from fedcore.execution.runner import Settings

Values = dict[str, Any]
CPU = Settings(device="cpu", save_model=True)
OWN = {"timing.json", "provenance.json"}  # the time it took, and hashes of that


class Stop(Exception):
    """Ends a run before its time."""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in OWN}


def same_bytes(spec: Values, tmp_path: Path, target: str) -> list[dict[str, float]]:
    fedcore.run(spec, tmp_path / "plain", CPU, False)
    rows = fedcore.run(spec, tmp_path / "tracked", CPU, False, [target]).rows
    assert contents(tmp_path / "plain") == contents(tmp_path / "tracked")
    assert len(contents(tmp_path / "plain")) >= 4
    return rows


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Put a target in TensorBoard's place that writes down what it is told."""
    heard: list[Any] = []

    def opened(package: Any, place: str, stack: ExitStack, name: str, values: Values) -> track.Send:
        if place == "closed":
            raise OSError("no room there")
        heard.append((place, name, values["algorithm.name"]))

        def send(row: Mapping[str, float]) -> None:
            if place == "breaks" and row["round"] == 2:
                raise OSError("gone")
            heard.append(dict(row))

        return send

    monkeypatch.setattr(track, "TARGETS", {"tensorboard": opened})
    monkeypatch.setattr(track, "optional", lambda package, what, advice: SimpleNamespace())
    return heard


def test_each_row_is_sent_once_and_those_before_an_interruption_again(
    spec: Values, tmp_path: Path, told: list[Any]
) -> None:
    def cut(done: int, total: int, row: Mapping[str, float]) -> None:
        if done == 3:
            raise Stop

    rows = same_bytes(spec, tmp_path, "tensorboard:there")
    (place, name, algorithm), *sent = told
    assert (place, algorithm, sent) == ("there", "fedavg", rows)
    assert name.startswith("tracked-")
    told.clear()
    with pytest.raises(Stop):
        fedcore.run(spec, tmp_path / "cut", replace(CPU, checkpoint_seconds=0.0), cut, ["tensorboard"])
    told.clear()
    fedcore.run(spec, tmp_path / "cut", CPU, False, "tensorboard")
    assert told[1:] == rows, "one target needs no list"


def test_a_target_that_fails_ends_no_run(
    spec: Values, tmp_path: Path, told: list[Any], capfd: pytest.CaptureFixture[str]
) -> None:
    same_bytes(spec, tmp_path, "tensorboard:breaks")
    assert [row["round"] for row in told[1:]] == [0, 1]
    assert capfd.readouterr().err == "track: tensorboard:breaks: gone; it gets no more of this run\n"


def test_what_cannot_be_is_said_before_anything_is_written(
    spec: Values, tmp_path: Path, told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        SpecError, match=r"track: got 'tensorbord:x', expected .* \(did you mean 'tensorboard'"
    ):
        fedcore.run(spec, tmp_path / "a", CPU, False, ["tensorbord:x"])
    with pytest.raises(SpecError, match="track: tensorboard:closed: no room there"):
        fedcore.run(spec, tmp_path / "a", CPU, False, ["tensorboard:closed"])
    unfit = {**spec, "partition": {"name": "natural", "clients": 10**4}}
    with pytest.raises(SpecError, match=r"partition\.clients"):
        fedcore.run(unfit, None, CPU, False, ["tensorboard"])
    assert told == []
    assert not (tmp_path / "a").exists()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(
        MissingPackage, match=r"track: wandb: needs the package wandb; install fedrepro\[track\]"
    ):
        fedcore.run(spec, None, CPU, False, ["wandb"])


def test_tensorboard_reads_the_history(spec: Values, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs fedrepro[track]")
    reader = import_module("tensorboard.backend.event_processing.event_accumulator")
    rows = same_bytes(spec, tmp_path, f"tensorboard:{tmp_path / 'board'}")
    (folder,) = (tmp_path / "board").iterdir()
    read = reader.EventAccumulator(str(folder))
    read.Reload()
    for key in rows[0]:
        points = [(event.step, event.value) for event in read.Scalars(key)]
        assert points == [(row["round"], pytest.approx(row[key], rel=1e-6)) for row in rows]


def test_mlflow_reads_the_history(spec: Values, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs fedrepro[track]")
    rows = same_bytes(spec, tmp_path, f"mlflow:{tmp_path / 'flow'}")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/flow/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("fedcore").experiment_id])
    assert (run.info.status, run.data.params["training.lr"]) == ("FINISHED", "0.1")
    for key in rows[0]:
        log = client.get_metric_history(run.info.run_id, key)
        assert sorted((item.step, item.value) for item in log) == [(row["round"], row[key]) for row in rows]


def test_wandb_keeps_the_history_offline(
    spec: Values, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="needs fedrepro[track]")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.chdir(tmp_path)
    rows = same_bytes(spec, tmp_path, "wandb:mine")
    import_module("wandb").teardown()  # its own process has then written all
    (kept,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    content = kept.read_bytes()
    assert b"mine" in content
    assert all(repr(row["test_loss"]).encode() in content for row in rows)
