"""Workflows that are killed, doubled or out of time: the same command then completes, with the same bytes."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from project import HOME, Project, contents, same

from fedcore.execution.integrity import check
from fedcore.execution.status import cause

Record = Callable[[str, int], None]
TARGET = "reports/rfedavg/table3.csv"
TRAINING = ("reports/rfedavg/fig12.csv", "--until", "train")
RUNS, TRAINED = 16, 10
SLOW_JOBS = {"FAKE_SECONDS": "0.2"}
SNAKEMAKE = ("snakemake", "--cores", "2")
SHOWN = "pdf" if shutil.which("pdflatex") else "tex"
REPORTS = (TARGET.replace("csv", SHOWN), "reports/rfedavg/fig12.svg")
LIMIT = 24 * 2**30


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
        found = list(fresh.folder.glob(pattern))
        assert found, pattern
        for path in found:
            os.utime(path, (later, later))
        fresh.make(TARGET)
        assert fresh.executed() == [], "finished runs are known by their content, not by their time"
        assert (fresh.folder / TARGET).read_bytes() == before


def set_models(project: Project, width: int) -> None:
    """Let the table's models be small, and the one on MNIST as wide as said."""
    path = project.folder / "params.yaml"
    config = yaml.safe_load(path.read_text())
    datasets = config["papers"]["rfedavg"]["datasets"]
    datasets["mnist"]["model"] = {"name": "mlp", "hidden": [width]}
    datasets["sent140"]["model"] = {"name": "lstm", "hidden": 8, "layers": 1}
    for name in ("mnist", "sent140"):  # the scale's own would be laid over them
        config["scales"]["demo"]["papers"]["rfedavg"]["datasets"][name].pop("model", None)
    path.write_text(yaml.safe_dump(config, sort_keys=False))


def training(folder: Path) -> Project:
    """Return a project that trains small models for real."""
    made = Project.copy(folder)
    set_models(made, 16)
    start = f"#!/bin/sh\nexec {sys.executable} -c 'from fedcore.cli.start import main; main()' \"$@\"\n"
    (made.folder / "bin" / "fedcore").write_text(start)
    shutil.copytree(HOME / "data" / "demo", made.folder / "data" / "demo")
    return made


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that trains for real, with its undisturbed results in ``whole``."""
    made = training(tmp_path_factory.mktemp("real"))
    made.make(*REPORTS)
    for name in ("dvc.yaml", ".dvcignore", ".dvc/config"):
        (made.folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(HOME / name, made.folder / name)
    config = made.folder / ".dvc" / "config"
    config.write_text(config.read_text().replace("[core]", "[core]\n    no_scm = true"))
    made.edit("dvc.yaml", "cmd: snakemake reports/rfedavg", f"cmd: snakemake --cores 2 {TARGET}")
    made.run("dvc", "repro", "data")
    (made.folder / "whole").mkdir()
    for name in ("results", "reports"):
        (made.folder / name).rename(made.folder / "whole" / name)
    return made


def summaries(project: Project) -> list[Path]:
    """Return the finished runs' summaries."""
    return list(project.folder.glob("results/*/*/*/*/seed*/summary.json"))


def clean(project: Project) -> None:
    """Delete what was made, but for the undisturbed results."""
    for name in ("results", "reports", "logs", ".snakemake", "dvc.lock"):
        path = project.folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_another_folder_and_number_of_jobs_give_the_same_reports(
    real: Project, tmp_path: Path, record_property: Record
) -> None:
    other = training(tmp_path)
    other.run("snakemake", "--cores", "1", *REPORTS)
    for name in ("results", "reports"):
        assert same(other.folder / name, real.folder / "whole" / name)
    made = contents(other.folder / "reports")
    assert {Path(name).suffix for name in made} >= {".csv", ".md", ".html", ".tex", ".svg", ".png"}
    record_property("trials", len(contents(other.folder / "results")) + len(made))


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
    for _ in range(trials):
        clean(real)
        process = started(real, *command)
        count = rng.integers(0, RUNS - 3)
        while process.poll() is None and len(summaries(real)) < count:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.5) if count else rng.uniform(0, 4))
        assert process.poll() is None, "it was killed before its end"
        os.kill(process.pid, signal.SIGKILL) if alone else os.killpg(process.pid, signal.SIGKILL)
        process.communicate() if command[0] == "dvc" else process.wait()
        real.run(*command)
        for name in ("results", "reports"):
            same(real.folder / name, real.folder / "whole" / name)
        found = check(real.folder / "results")
        assert (len(found.runs), found.problems) == (RUNS, ())


def little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_table_says_which_runs_ran_out_of_memory(tmp_path: Path, record_property: Record) -> None:
    """Two of the four columns have a model that no attempt has the memory for, until it is made smaller."""
    made = training(tmp_path)
    set_models(made, 40_000_000)
    done = subprocess.run(
        [*SNAKEMAKE, TARGET],
        cwd=made.folder,
        env=made.environment(),
        capture_output=True,
        text=True,
        preexec_fn=little_memory,
        check=False,
    )
    assert done.returncode != 0
    assert "fedcore partial" in done.stderr
    assert not (made.folder / TARGET).exists()
    failed = [run for run in made.folder.glob("results/*/*/*/*/seed*") if cause(run) == "out of memory"]
    finished = check(made.folder / "results").runs
    record_property("trials", len(failed))
    assert (len(failed), len(finished)) == (RUNS // 2, RUNS // 2), done.stderr
    assert done.stderr.count("Trying to restart job") == 2 * len(failed) // 2, "two further attempts a job"
    made.run(sys.executable, "-m", "pipeline", "partial", TARGET)
    lines = (made.folder / TARGET).with_suffix(".md").read_text()
    assert lines.count("| out of memory") == 4
    assert "Runs without a result: out of memory in 4 cells." in lines
    set_models(made, 16)
    made.make(TARGET)
    assert "memory" not in (made.folder / TARGET).with_suffix(".md").read_text()
