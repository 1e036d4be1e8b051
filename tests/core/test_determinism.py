"""Equal specifications give equal bytes: again, from another process, and through an interruption."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from fedcore.base.errors import CheckpointError
from fedcore.base.files import sha256_file
from fedcore.base.rng import Streams
from fedcore.execution import checkpoint
from fedcore.execution.batch import execute
from fedcore.execution.integrity import CHECKPOINT
from fedcore.execution.runner import Settings, prepare, run
from fedcore.parts import State
from fedcore.parts.steps import _coefficient_sum
from fedcore.spec import parse

FILES = ("history.csv", "summary.json", "spec.yaml")
STATEFUL: list[dict[str, Any]] = [
    {"name": "fedavg"},
    {"name": "scaffold", "option": 2},
    {"name": "rfedavg", "lambda": 0.1},
    {"name": "rfedavg_plus", "lambda": 0.1, "noise_sigma": 1.0},
]


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def with_algorithm(spec: dict[str, Any], algorithm: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "algorithm": algorithm}


@pytest.mark.parametrize("algorithm", STATEFUL, ids=lambda a: a["name"])
def test_same_spec_same_bytes(spec: dict[str, Any], algorithm: dict[str, Any], tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(with_algorithm(spec, algorithm), tmp_path / name)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


NORMALISED = {"name": "fednova", "tau_eff": "norm"}
SUMMING: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (NORMALISED, {"momentum": 0.9, "batch_size": 3}),
    ({"name": "scaffold", "option": 2}, {"lr_schedule": {"name": "inverse_time", "offset": 1.0}}),
]


@pytest.mark.parametrize(("algorithm", "training"), SUMMING, ids=["fednova", "scaffold"])
def test_equal_bytes_in_every_version_of_python(
    spec: dict[str, Any],
    algorithm: dict[str, Any],
    training: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From 3.12 on, ``sum`` of floats is as exact as ``math.fsum``."""

    def compensated(values: Iterable[Any]) -> Any:
        terms = [*values]
        return math.fsum(terms) if all(isinstance(term, float) for term in terms) else sum(terms)

    spec = with_algorithm(spec, algorithm) | {"dtype": "float64", "training": spec["training"] | training}
    results = [run(spec).parameters]
    _coefficient_sum.cache_clear()
    for name in [name for name in sys.modules if name.startswith(("fedcore.parts", "fedcore.engines"))]:
        monkeypatch.setattr(sys.modules[name], "sum", compensated, raising=False)
    results.append(run(spec).parameters)
    assert all(np.array_equal(results[0][name], results[1][name]) for name in results[0])


def test_another_seed_gives_other_numbers(spec: dict[str, Any], tmp_path: Path) -> None:
    run(spec, tmp_path / "a")
    run({**spec, "seed": 4}, tmp_path / "b")
    assert (tmp_path / "a/history.csv").read_bytes() != (tmp_path / "b/history.csv").read_bytes()


def test_a_repetition_draws_all_but_the_partition_anew(spec: dict[str, Any]) -> None:
    first, same, other = (run({**spec, "repetition": again}) for again in (0, 0, 1))
    assert first.spec == run(spec).spec, "the first one isn't written, so it has the hash of before"
    assert other.spec == {**first.spec, "repetition": 1}
    assert first.summary["partition_sha256"] == other.summary["partition_sha256"]
    assert all(np.array_equal(first.parameters[name], array) for name, array in same.parameters.items())
    assert not any(np.array_equal(first.parameters[name], array) for name, array in other.parameters.items())
    drawn = {
        (seed, again): Streams(seed, again).get("x").random() for seed in (1, 2, 11) for again in (0, 1, 11)
    }
    assert len({*drawn.values()}) == len(drawn)


def test_a_repetition_keeps_the_clients_that_were_drawn_and_the_noise_on_their_rows(
    spec: dict[str, Any],
) -> None:
    spec["partition"] = {"name": "iid", "clients": 4, "noise": 0.5}
    made = [prepare(parse({**spec, "repetition": again}), Settings()) for again in (0, 1)]
    (first, identity, _), (other, same, _) = made
    assert identity["partition_sha256"] == same["partition_sha256"]
    assert torch.equal(first.problem.train.x, other.problem.train.x)
    assert not torch.equal(first.problem.start, other.problem.start)


def test_command_line_gives_the_bytes_of_the_library(spec: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(spec))
    run(spec, tmp_path / "library")
    command = [sys.executable, "-m", "fedcore.cli.main", "run", str(tmp_path / "s.yaml"), "--quiet"]
    subprocess.run([*command, "--out", str(tmp_path / "shell")], check=True, capture_output=True)
    assert contents(tmp_path / "library") == contents(tmp_path / "shell")


def test_batch_gives_the_bytes_of_single_runs_and_skips_finished_ones(
    spec: dict[str, Any], tmp_path: Path
) -> None:
    items = [
        {"spec": {**spec, "seed": seed}, "out": str(tmp_path / f"batch{seed}"), "provenance": {"code": "1"}}
        for seed in (1, 2)
    ]
    assert execute(items, Settings(device="cpu"), True) == 0
    run({**spec, "seed": 2}, tmp_path / "single")
    assert contents(tmp_path / "batch2") == contents(tmp_path / "single")

    stamp = (tmp_path / "batch1/timing.json").stat().st_mtime_ns
    (tmp_path / "batch2/history.csv").write_text("round\n")
    assert execute(items, Settings(device="cpu"), True) == 0
    assert (tmp_path / "batch1/timing.json").stat().st_mtime_ns == stamp
    assert contents(tmp_path / "batch2") == contents(tmp_path / "single")
    items[0]["provenance"] = {"code": "2"}
    execute(items, Settings(device="cpu"), True)
    assert (tmp_path / "batch1/timing.json").stat().st_mtime_ns != stamp


def test_two_orders_of_a_batch_do_not_write_to_one_folder(
    spec: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    outs = ("first", "other/../first/", str(tmp_path / "second"), "")
    items = [{"spec": {**spec, "seed": seed}, "out": out} for seed, out in enumerate(outs)]
    assert execute(items, Settings(device="cpu"), True) == 2
    again, empty, *_ = capfd.readouterr().err.splitlines()
    assert again == "error: other/../first/: batch.out: an earlier order names this folder, expected another"
    assert empty == "error: : batch.out: got '', expected 1 or more characters"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]
    assert "seed: 0" in (tmp_path / "first/spec.yaml").read_text()


def _run(spec: dict[str, Any], out: Path) -> list[int]:
    """Return the rounds that were measured now, not before an interruption."""
    rounds: list[int] = []
    run(spec, out, Settings(checkpoint_seconds=0.0), lambda done, *_: rounds.append(done))
    return rounds


@pytest.mark.parametrize(
    "trial", [*range(10), *(pytest.param(at, marks=pytest.mark.slow) for at in range(10, 20))]
)
def test_killed_at_a_random_round_and_resumed(trial: int, spec: dict[str, Any], tmp_path: Path) -> None:
    algorithm = STATEFUL[trial % len(STATEFUL)]
    spec = with_algorithm(spec, algorithm) | {"training": {**spec["training"], "rounds": 25}}
    run(spec, tmp_path / "whole")
    victim = multiprocessing.get_context("fork").Process(target=_run, args=(spec, tmp_path / "cut"))
    victim.start()
    rng = np.random.default_rng(trial)
    deadline = time.monotonic() + 30
    while not (tmp_path / "cut" / CHECKPOINT).exists() and victim.is_alive() and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(rng.uniform(0, 0.15))
    assert victim.pid
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    left = (tmp_path / "cut" / CHECKPOINT).exists()
    assert left == (0 not in _run(spec, tmp_path / "cut"))
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert not (tmp_path / "cut" / CHECKPOINT).exists()


@pytest.mark.parametrize("algorithm", STATEFUL, ids=lambda a: a["name"])
def test_resume_at_every_round(spec: dict[str, Any], algorithm: dict[str, Any], tmp_path: Path) -> None:
    spec = with_algorithm(spec, algorithm)
    run(spec, tmp_path / "whole")
    expected = contents(tmp_path / "whole")
    for stop in range(spec["training"]["rounds"]):
        folder = tmp_path / f"from{stop}"
        _stop_after(spec, folder, stop)
        assert _run(spec, folder)[0] == stop + 1
        assert contents(folder) == expected


def _stop_after(spec: dict[str, Any], folder: Path, rounds: int) -> None:
    """Leave the folder as a run leaves it that is killed after some rounds."""

    class Stop(Exception):
        pass

    def progress(done: int, total: int, row: Any) -> None:
        if done > rounds:
            raise Stop

    folder.mkdir()
    with pytest.raises(Stop):
        run(spec, folder, Settings(checkpoint_seconds=0.0), progress)
    assert (folder / CHECKPOINT).exists()
    assert not (folder / "summary.json").exists()


def test_another_start_in_the_same_file_is_another_result(spec: dict[str, Any], tmp_path: Path) -> None:
    start, out = tmp_path / "start.npz", tmp_path / "run"
    first = run(spec, None).parameters
    np.savez(start, **first)  # type: ignore[arg-type]
    spec["model"] |= {"init": str(start)}
    order = [{"spec": spec, "out": str(out)}]
    assert execute(order, Settings(device="cpu"), True) == 0
    _stop_after(spec, tmp_path / "cut", 2)
    before = (out / "timing.json").stat().st_mtime_ns
    assert execute(order, Settings(device="cpu"), True) == 0
    assert (out / "timing.json").stat().st_mtime_ns == before
    np.savez(start, **{name: its / 2 for name, its in first.items()})  # type: ignore[arg-type]
    assert execute(order, Settings(device="cpu"), True) == 0
    run(spec, tmp_path / "single")
    assert contents(out) == contents(tmp_path / "single")
    assert json.loads((out / "summary.json").read_text())["model_sha256"] == {str(start): sha256_file(start)}
    with pytest.raises(CheckpointError, match=rf"model_sha256\.{start}: checkpoint has"):
        run(spec, tmp_path / "cut")


def test_a_checkpoint_of_other_code_is_discarded(spec: dict[str, Any], tmp_path: Path) -> None:
    _stop_after(spec, tmp_path / "run", 2)
    assert (tmp_path / "run" / CHECKPOINT).is_file()
    rounds = []

    def progress(done: int, total: int, row: Any) -> None:
        rounds.append(done)

    run(spec, tmp_path / "run", Settings(provenance={"code": "2"}), progress)
    assert rounds[0] == 0
    _stop_after(spec, tmp_path / "same", 2)
    run(spec, tmp_path / "same", Settings(), lambda done, *_: rounds.append(-done))
    assert 0 not in rounds[rounds.index(spec["training"]["rounds"]) + 1 :]


def test_checkpoint_of_another_specification_is_refused(spec: dict[str, Any], tmp_path: Path) -> None:
    _stop_after(spec, tmp_path / "run", 2)
    other = {**spec, "training": {**spec["training"], "lr": 0.2}}
    with pytest.raises(CheckpointError, match=r"spec\.training\.lr: checkpoint has 0\.1, the run has 0\.2"):
        run(other, tmp_path / "run")
    run(other, tmp_path / "run", Settings(resume=False))
    assert json.loads((tmp_path / "run/summary.json").read_text())["status"] == "completed"


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_damaged_checkpoint_is_set_aside(
    damage: str, spec: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(spec, tmp_path / "whole")
    _stop_after(spec, tmp_path / "run", 2)
    path = tmp_path / "run" / CHECKPOINT
    content = path.read_bytes()
    if damage == "truncate":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :])
    else:
        path.write_bytes(b"")
    run(spec, tmp_path / "run")
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith(f"{path}: damaged checkpoint (")
    assert message.endswith("); starting anew")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_checkpoint_holds_all_of_the_state(tmp_path: Path) -> None:
    state = State(
        round=4,
        models=torch.arange(6.0).reshape(2, 3),
        optimizer_state={1: {"m": torch.ones(3)}},
        server={"control": torch.zeros(3), "old/1": torch.ones(2)},
        clients={"control": {7: torch.full((3,), 2.0)}},
        values={"clusters": [0, 1]},
        holders=[2, 7],
        bytes_down=5,
        bytes_up=6,
        rows_gradient=7,
        rows_forward=8,
        history=[{"round": 0, "train_loss": float("nan"), "test_loss": 0.1}],
    )
    checkpoint.save(tmp_path / "c.npz", state, {"spec": {"a": 1}})
    again = checkpoint.load(tmp_path / "c.npz", {"spec": {"a": 1}}, torch.device("cpu"))
    assert again
    assert torch.equal(again.models, state.models)
    assert again.optimizer_state.keys() == state.optimizer_state.keys()
    assert torch.equal(again.optimizer_state[1]["m"], state.optimizer_state[1]["m"])
    assert torch.equal(again.server["old/1"], state.server["old/1"])
    assert torch.equal(again.clients["control"][7], state.clients["control"][7])
    assert again.holders == [2, 7]
    assert not again.clients["nobody's"]
    assert (again.round, again.values, again.bytes_down, again.bytes_up) == (4, {"clusters": [0, 1]}, 5, 6)
    assert (again.rows_gradient, again.rows_forward) == (7, 8)
    assert repr(again.history) == repr(state.history)


def test_streams_are_independent_of_order_and_of_one_another() -> None:
    streams = Streams(5)
    first = streams.get("batches", 3, 1).random(1000)
    streams.get("cohort", 3).random(10)
    assert np.array_equal(first, streams.get("batches", 3, 1).random(1000))
    others = [
        Streams(s).get(p, r, c)
        for s, p, r, c in [
            (6, "batches", 3, 1),
            (5, "cohort", 3, 1),
            (5, "batches", 4, 1),
            (5, "batches", 3, 2),
        ]
    ]
    for other in others:
        assert abs(np.corrcoef(first, other.random(1000))[0, 1]) < 0.15
