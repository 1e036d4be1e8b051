"""Runs that are killed, starved, stopped or tampered with: the same command then gives the same bytes."""

from __future__ import annotations

import ctypes
import errno
import itertools
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.base import errors
from fedcore.base.files import atomic, exclusive
from fedcore.engines import choose as engines
from fedcore.execution import batch, checkpoint
from fedcore.execution.integrity import CHECKPOINT, changed
from fedcore.execution.machine import watched
from fedcore.execution.runner import Settings
from fedcore.parts import State

FILES = ("spec.yaml", "history.csv", "summary.json")
ALL = (*FILES, "timing.json", "provenance.json")
ALGORITHMS = ({"name": "scaffold", "option": 2}, {"name": "rfedavg_plus", "lambda": 0.1, "noise_sigma": 1.0})


class Batch:
    """Two runs of one batch, their undisturbed bytes, and ways to do them again."""

    def __init__(self, spec: dict[str, Any], folder: Path) -> None:
        training = {**spec["training"], "rounds": 12}
        self.specs = [{**spec, "algorithm": algorithm, "training": training} for algorithm in ALGORITHMS]
        self.folder = folder
        self.said = folder / "said.txt"
        assert self.execute("whole") == 0
        self.whole = self.contents("whole")

    def runs(self, name: str) -> list[Path]:
        return [self.folder / name / str(k) for k in range(len(self.specs))]

    def execute(self, name: str = "run", stall: float = 0.0, checkpoint_seconds: float = 30.0) -> int:
        items = [
            {"spec": spec, "out": str(out), "provenance": {"code": "1"}}
            for spec, out in zip(self.specs, self.runs(name), strict=True)
        ]
        settings = Settings(device="cpu", checkpoint_seconds=checkpoint_seconds, stall_seconds=stall)
        return batch.execute(items, settings, True)

    def contents(self, name: str = "run") -> list[bytes]:
        return [(out / file).read_bytes() for out in self.runs(name) for file in FILES]

    def child(
        self, prepare: Callable[[], object] = lambda: None, stall: float = 0.0, said: Path | None = None
    ) -> ForkProcess:
        """Execute the batch in a process of its own, with a checkpoint after each round."""

        def work() -> None:
            sys.stderr = (said or self.said).open("w", buffering=1)
            os.dup2(sys.stderr.fileno(), 2)
            prepare()
            os._exit(3 if self.execute(stall=stall, checkpoint_seconds=0.0) else 0)

        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        return process

    def completes(self) -> None:
        """Demand that the same command gives the undisturbed bytes, and leaves nothing else behind."""
        assert self.execute() == 0
        assert self.contents() == self.whole
        for out in self.runs("run"):
            assert changed(out) == ""
            assert {path.name for path in out.iterdir()} == set(ALL)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Batch:
    spec = {
        "data": {"name": "npz", "path": str(digits)},
        "partition": {"name": "given"},
        "model": {"name": "mlp", "hidden": [16]},
        "training": {"rounds": 12, "local_epochs": 1, "batch_size": 16, "lr": 0.1},
        "participation": {"fraction": 0.6},
        "seed": 3,
    }
    return Batch(spec, tmp_path_factory.mktemp("batch"))


@pytest.fixture
def runs(made: Batch) -> Iterator[Batch]:
    yield made
    shutil.rmtree(made.folder / "run", ignore_errors=True)


def trials(quick: int, slow: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("count", [quick, pytest.param(slow, marks=pytest.mark.slow)])


@trials(10, 200)
@pytest.mark.timeout(3600)
def test_killed_at_random_moments(
    count: int, runs: Batch, record_property: Callable[[str, int], None]
) -> None:
    record_property("trials", count)
    rng = np.random.default_rng(count)
    cut, seconds = 0, _time_of(runs)
    for _ in range(count):
        shutil.rmtree(runs.folder / "run")
        for _ in range(int(rng.integers(1, 4))):
            victim = runs.child()
            time.sleep(rng.uniform(0, seconds))
            assert victim.pid
            os.kill(victim.pid, signal.SIGKILL)
            victim.join()
            cut += victim.exitcode == -signal.SIGKILL
            seconds *= 1 if victim.exitcode else 0.7  # the run that was timed took longer than this one
        runs.completes()
    assert cut >= count // 2, "most were killed before their end"


def _time_of(runs: Batch) -> float:
    began = time.monotonic()
    process = runs.child()
    process.join()
    assert process.exitcode == 0
    return time.monotonic() - began


def stopped(runs: Batch, done: int = 6) -> None:
    """Leave the first run as one that was killed after some rounds."""

    def die() -> None:
        save = checkpoint.save

        def last(path: Path, state: State, identity: dict[str, Any], seconds: float = 0.0) -> None:
            save(path, state, identity, seconds)
            if state.round == done:
                os.kill(os.getpid(), signal.SIGKILL)

        checkpoint.save = last

    runs.child(die).join()
    assert (runs.runs("run")[0] / CHECKPOINT).exists()


@trials(15, 300)
@pytest.mark.timeout(3600)
def test_a_damaged_checkpoint_is_discarded_in_words(
    count: int, runs: Batch, capfd: pytest.CaptureFixture[str], record_property: Callable[[str, int], None]
) -> None:
    record_property("trials", count)
    rng = np.random.default_rng(count)
    stopped(runs)
    first = runs.runs("run")[0]
    content = (first / CHECKPOINT).read_bytes()
    for trial in range(count):
        place = int(rng.integers(len(content)))
        flipped = content[:place] + bytes([content[place] ^ 1 << int(rng.integers(8))]) + content[place + 1 :]
        damaged = b"" if trial == 0 else content[:place] if trial % 2 else flipped
        for name in ALL:
            (first / name).unlink(missing_ok=True)
        (first / CHECKPOINT).write_bytes(damaged)
        capfd.readouterr()
        runs.completes()
        printed = capfd.readouterr().err
        assert not printed or ("damaged checkpoint" in printed and "; starting anew" in printed)
        assert printed or trial % 2 == 0, "a checkpoint that was cut short is never loaded"


@pytest.mark.parametrize("damage", ["cut", "empty", "changed", "deleted"])
def test_results_tampered_with_are_made_again(
    damage: str, runs: Batch, record_property: Callable[[str, int], None]
) -> None:
    record_property("trials", len(ALL) + 1)
    runs.completes()
    first = runs.runs("run")[0]
    for name in ALL:
        path, content = first / name, (first / name).read_bytes()
        if damage == "deleted":
            path.unlink()
        else:
            other = content.replace(content[20:21], b"8" if content[20:21] == b"7" else b"7", 1)
            path.write_bytes({"cut": content[:-9], "empty": b"", "changed": other}[damage])
        assert changed(first)
        runs.completes()
    shutil.rmtree(first)
    runs.completes()


def without_privileges() -> None:
    """Give up root's right to write where it must not, if this is root."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if os.geteuid() == 0:
        assert ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()) == 0


def test_a_read_only_folder_is_one_line(runs: Batch, record_property: Callable[[str, int], None]) -> None:
    record_property("trials", 2)
    for place in (runs.folder / "run", runs.runs("run")[0]):
        place.mkdir(exist_ok=True)
        place.chmod(0o555)
        process = runs.child(without_privileges)
        process.join()
        place.chmod(0o755)
        assert process.exitcode == 3
        lines = runs.said.read_text().splitlines()
        assert lines[0].startswith(f"error: {runs.runs('run')[0]}: not allowed to read or write here: ")
        assert not any("Traceback" in line for line in lines)
    runs.completes()


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))


def test_a_file_that_can_not_grow_is_one_line(
    runs: Batch, record_property: Callable[[str, int], None]
) -> None:
    record_property("trials", 1)
    process = runs.child(limited)
    process.join()
    assert process.exitcode == 3
    printed = runs.said.read_text()
    assert "the file would be larger than the limit" in printed
    assert "Traceback" not in printed
    runs.completes()


def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(
    runs: Batch, record_property: Callable[[str, int], None]
) -> None:
    disk = runs.folder / "run"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk takes root")
    counts = range(0, 400, 40)
    record_property("trials", len(counts))
    try:
        failed = 0
        for kilobytes in counts:
            for out in disk.iterdir():
                shutil.rmtree(out)
            free = kilobytes * 1024
            with suppress(OSError):
                (disk / "ballast").write_bytes(b"x" * (400 * 1024 - free))
            process = runs.child()
            process.join()
            printed = runs.said.read_text()
            assert ("the disk is full" in printed) == bool(process.exitcode), printed
            assert "Traceback" not in printed
            failed += bool(process.exitcode)
            (disk / "ballast").unlink()
            runs.completes()
        assert 0 < failed < len(counts)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_clock_that_goes_backwards_changes_nothing(
    runs: Batch, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, int], None]
) -> None:
    record_property("trials", 1)
    now = time.time()
    hours = iter(range(1, 10**6))
    monkeypatch.setattr(time, "time", lambda: now - 3600 * next(hours))
    monkeypatch.setattr(time, "gmtime", lambda: time.localtime(now - 3600 * next(hours)))
    runs.completes()


@trials(3, 30)
@pytest.mark.timeout(3600)
def test_two_processes_on_one_folder(
    count: int, runs: Batch, record_property: Callable[[str, int], None]
) -> None:
    record_property("trials", count)
    said = [runs.folder / f"said{number}.txt" for number in range(2)]
    told = 0
    for _ in range(count):
        shutil.rmtree(runs.folder / "run", ignore_errors=True)
        first, second = (runs.child(said=path) for path in said)
        first.join()
        second.join()
        assert (first.exitcode, second.exitcode) == (0, 0)
        told += any("another process works here" in path.read_text() for path in said)
        runs.completes()
    assert told > count // 2, "most were at one run at the same time"


def test_a_folder_is_held_by_one_process_and_given_up_by_a_dead_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def hold() -> None:
        with exclusive(tmp_path):
            (tmp_path / "held").touch()
            time.sleep(60)

    holder = multiprocessing.get_context("fork").Process(target=hold)
    holder.start()
    while not (tmp_path / "held").exists():
        time.sleep(0.005)
    killer = multiprocessing.get_context("fork").Process(target=_kill, args=(holder.pid,))
    killer.start()
    began = time.monotonic()
    with exclusive(tmp_path):
        assert time.monotonic() - began > 0.1
    assert "another process works here; waiting for its end" in capfd.readouterr().err
    killer.join()
    holder.join()


def _kill(process: int) -> None:
    time.sleep(0.2)
    os.kill(process, signal.SIGKILL)


def test_too_little_memory_is_one_line(runs: Batch, record_property: Callable[[str, int], None]) -> None:
    record_property("trials", 1)
    large = {**runs.specs[0], "model": {"name": "mlp", "hidden": [6000, 6000]}}
    large["training"] = {**large["training"], "rounds": 1}

    def starve() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + 300 * 2**20,) * 2)
        runs.specs = [large, *runs.specs[1:]]

    process = runs.child(starve)
    process.join()
    assert process.exitcode == 3
    lines = runs.said.read_text().splitlines()
    assert lines[0].startswith(f"error: {runs.runs('run')[0]}: out of memory ("), lines
    assert lines[1].startswith("1 of 2 runs failed"), "the small run beside it is finished"
    runs.completes()


@pytest.mark.parametrize("seconds", [1e300, float("inf"), float("nan")])
def test_a_run_may_take_any_time_to_show_that_it_lives(seconds: float) -> None:
    with watched(seconds) as alive:
        alive()


@pytest.mark.parametrize("round_", [1, 7])
def test_a_run_that_hangs_is_ended_and_goes_on_from_its_checkpoint(
    round_: int, runs: Batch, record_property: Callable[[str, int], None]
) -> None:
    record_property("trials", 1)

    def hang() -> None:
        original = engines.select_engine

        def select_engine(spec: Any, problem: Any) -> Any:
            engine = original(spec, problem)
            train, rounds = engine.train, itertools.count()

            def stuck(tasks: Any) -> Any:
                if next(rounds) == round_:
                    time.sleep(600)
                return train(tasks)

            object.__setattr__(engine, "train", stuck)
            return engine

        engines.select_engine = select_engine

    began = time.monotonic()
    process = runs.child(hang, stall=1.0)
    process.join(30)
    assert process.exitcode == 1
    assert time.monotonic() - began < 20
    assert "Timeout (0:00:01)!" in runs.said.read_text()
    with np.load(runs.runs("run")[0] / CHECKPOINT) as stored:
        assert json.loads(stored["header"].tobytes())["identity"]["provenance"] == {"code": "1"}
    runs.completes()


@pytest.mark.parametrize(
    "said", ["CUDA error: unspecified launch failure\nmore", "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"]
)
def test_a_device_that_fails_ends_the_batch_in_words(
    said: str, runs: Batch, record_property: Callable[[str, int], None]
) -> None:
    record_property("trials", 1)

    def fail() -> None:
        save = checkpoint.save

        def broken(path: Path, state: State, identity: dict[str, Any], seconds: float = 0.0) -> None:
            save(path, state, identity, seconds)
            if state.round == 5:
                raise RuntimeError(said)

        checkpoint.save = broken

    process = runs.child(fail)
    process.join()
    assert process.exitcode == 3
    lines = runs.said.read_text().splitlines()
    first, second = runs.runs("run")
    assert lines[0] == (
        f"error: {first}: the device failed ({said.splitlines()[0]}); "
        "repeat the command; a run goes on from its last checkpoint"
    )
    assert lines[1].startswith("2 of 2 runs failed")
    assert not second.exists(), "a process that lost its device begins no further run"
    runs.completes()


def test_defects_are_no_faults_of_the_machine() -> None:
    for error in (ValueError("CUDA error"), KeyError("x"), OSError(errno.ENOENT, "gone"), RuntimeError("x")):
        assert errors.fault_message(error) is None
    assert errors.out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert not errors.device_lost(RuntimeError("CUDA error: out of memory"))


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def interrupted() -> None:
        with atomic(path) as handle:
            handle.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [item.read_text() for item in tmp_path.iterdir()] == ["old"]
