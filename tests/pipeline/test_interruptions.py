"""Workflows that are killed, doubled or out of time: the same command then completes, with the same bytes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from project import HOME, Project

from fedcore.integrity import check

Record = Callable[[str, int], None]
TARGET = "reports/rfedavg/table3.csv"
TRAINING = ("reports/rfedavg/fig12.csv", "--until", "train")
RUNS, TRAINED = 16, 10
SLOW_JOBS = {"FAKE_SECONDS": "0.2"}
SNAKEMAKE = ("snakemake", "--cores", "2")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.copy(tmp_path_factory.mktemp("project"))


@pytest.fixture
def fresh(project: Project) -> Iterator[Project]:
    yield project
    for name in ("results", "reports", "logs", ".snakemake", "executed.txt"):
        path = project.folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def started(project: Project, *command: str, **environment: str) -> subprocess.Popen[str]:
    """Start a command in a process group of its own, as a terminal or a cluster's job does."""
    return subprocess.Popen(
        command,
        cwd=project.folder,
        env=project.environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def until_runs(project: Project, count: int, process: subprocess.Popen[str]) -> None:
    """Wait until so many runs are finished, or the process is."""
    log = project.folder / "executed.txt"
    while process.poll() is None and (not log.exists() or len(log.read_text().splitlines()) < count):
        time.sleep(0.02)


@pytest.mark.parametrize(
    "alone", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["it-alone", "all-its-processes"]
)
def test_a_killed_workflow_completes_by_the_same_command(
    alone: bool, fresh: Project, record_property: Record
) -> None:
    """Where Snakemake alone is killed, what it began goes on beside the next one."""
    record_property("trials", 1)
    process = started(fresh, *SNAKEMAKE, *TRAINING, **SLOW_JOBS)
    until_runs(fresh, 3, process)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL) if alone else os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert list((fresh.folder / ".snakemake" / "locks").glob("*.lock"))
    said = fresh.make(*TRAINING)
    assert "A Snakemake was killed in this folder; its locks are removed." in said
    found = check(fresh.folder / "results")
    assert (len(found.runs), found.unfinished, found.problems) == (TRAINED, (), ())


@pytest.mark.slow
def test_two_workflows_on_one_folder(fresh: Project, record_property: Record) -> None:
    record_property("trials", 1)
    first = started(fresh, *SNAKEMAKE, TARGET, FAKE_SECONDS="3")
    until_runs(fresh, 1, first)
    second = fresh.snakemake(TARGET)
    assert second.returncode != 0
    assert "Directory cannot be locked" in second.stdout + second.stderr
    said, _ = first.communicate()
    assert first.returncode == 0, said
    assert len(fresh.executed()) == RUNS
    fresh.make(TARGET)
    assert fresh.executed() == []


@pytest.mark.slow
def test_a_failed_job_is_tried_again(fresh: Project, record_property: Record) -> None:
    record_property("trials", 1)
    said = fresh.make(TARGET, FAKE_FAILS_ONCE="seed1")
    assert "made to fail once" in said
    assert len(fresh.executed()) == RUNS
    assert not check(fresh.folder / "results").problems


@pytest.mark.slow
def test_a_clock_set_back_leads_to_the_same_reports(fresh: Project, record_property: Record) -> None:
    record_property("trials", 2)
    fresh.make(TARGET)
    fresh.executed()
    before = (fresh.folder / TARGET).read_bytes()
    later = time.time() + 86400
    for pattern in ("results/*/*/partitions/**/*.npz", "results/**/summary.json"):
        for path in fresh.folder.glob(pattern):
            os.utime(path, (later, later))
        fresh.make(TARGET)
        assert fresh.executed() == [], "finished runs are known by their content, not by their time"
        assert (fresh.folder / TARGET).read_bytes() == before


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that trains for real, with its undisturbed results in ``whole``."""
    made = Project.copy(tmp_path_factory.mktemp("real"))
    start = f"#!/bin/sh\nexec {sys.executable} -c 'from fedcore.cli.start import main; main()' \"$@\"\n"
    (made.folder / "bin" / "fedcore").write_text(start)
    shutil.copytree(HOME / "data" / "demo", made.folder / "data" / "demo")
    for name in ("dvc.yaml", ".dvcignore", ".dvc/config"):
        (made.folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(HOME / name, made.folder / name)
    config = made.folder / ".dvc" / "config"
    config.write_text(config.read_text().replace("[core]", "[core]\n    no_scm = true"))
    made.edit("dvc.yaml", "cmd: snakemake reports/rfedavg", f"cmd: snakemake --cores 2 {TARGET}")
    made.run("dvc", "repro", "data")
    made.make(TARGET)
    (made.folder / "whole").mkdir()
    for name in ("results", "reports"):
        (made.folder / name).rename(made.folder / "whole" / name)
    return made


def contents(folder: Path) -> dict[str, bytes]:
    """Return all results and reports that must not differ between two executions, without their dates."""
    return {
        path.relative_to(folder).as_posix(): re.sub(rb"\d{4}-\d\d-\d\d", b"DATE", path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in {"timing.json", "provenance.json"}
    }


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("command", [(*SNAKEMAKE, TARGET), ("dvc", "repro", "rfedavg")], ids=lambda c: c[0])
@pytest.mark.parametrize("alone", [True, False], ids=["it-alone", "all-its-processes"])
def test_killed_at_random_moments_with_real_training(
    command: tuple[str, ...], alone: bool, real: Project, record_property: Record
) -> None:
    """What a killed Snakemake began goes on beside the next one; of DVC's, the end is awaited."""
    trials = 2
    record_property("trials", trials)
    rng = np.random.default_rng(len(command[0]) + alone)
    seconds = 25.0
    for _ in range(trials):
        for name in ("results", "reports", "logs", ".snakemake", "dvc.lock"):
            path = real.folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        process = started(real, *command)
        time.sleep(rng.uniform(2, seconds))
        os.kill(process.pid, signal.SIGKILL) if alone else os.killpg(process.pid, signal.SIGKILL)
        process.communicate() if command[0] == "dvc" else process.wait()
        real.run(*command)
        for name in ("results", "reports"):
            assert contents(real.folder / name) == contents(real.folder / "whole" / name)
        assert not check(real.folder / "results").problems
