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
    output = fresh.make(*TRAINING)
    assert "A Snakemake was killed in this folder; its locks are removed." in output
    report = check(fresh.folder / "results")
    assert (len(report.runs), report.unfinished, report.problems) == (TRAINED, (), ())


def test_a_build_that_is_asked_to_end_ends_its_snakemake(fresh: Project, record_property: Record) -> None:
    """It is started as by a script's ``&``, which lets what it starts ignore interrupts."""
    record_property("trials", 1)
    build = [sys.executable, "-m", "fedcore.cli.main", "build", TARGET.partition("/")[2], "--cores", "1"]
    process = started(fresh, "sh", "-c", "trap '' INT; exec \"$@\"", "sh", *build, FAKE_SECONDS="1")
    until_runs(fresh, 1, process)
    process.terminate()
    said, _ = process.communicate(timeout=60)
    assert process.returncode != 0, said
    assert len(fresh.executed()) < RUNS
    assert not list((fresh.folder / ".snakemake" / "locks").glob("*.lock"))
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.slow
def test_two_workflows_on_one_folder(fresh: Project, record_property: Record) -> None:
    record_property("trials", 1)
    first = started(fresh, *SNAKEMAKE, TARGET, FAKE_SECONDS="3")
    until_runs(fresh, 1, first)
    second = fresh.snakemake(TARGET)
    assert second.returncode != 0
    assert "Directory cannot be locked" in second.stdout + second.stderr
    output, _ = first.communicate()
    assert first.returncode == 0, output
    assert len(fresh.executed()) == RUNS
    fresh.make(TARGET)
    assert fresh.executed() == []


@pytest.mark.slow
def test_a_failed_job_is_tried_again(fresh: Project, record_property: Record) -> None:
    record_property("trials", 1)
    output = fresh.make(TARGET, FAKE_FAILS_ONCE="seed1")
    assert "made to fail once" in output
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
        files = list(fresh.folder.glob(pattern))
        assert files, pattern
        for path in files:
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
    clone = Project.copy(folder)
    set_models(clone, 16)
    start = f"#!/bin/sh\nexec {sys.executable} -c 'from fedcore.cli.start import main; main()' \"$@\"\n"
    (clone.folder / "bin" / "fedcore").write_text(start)
    for name in ("data/demo", "studies"):
        shutil.copytree(HOME / name, clone.folder / name)
    return clone


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that trains for real, with its undisturbed results in ``whole``."""
    clone = training(tmp_path_factory.mktemp("real"))
    clone.make(*REPORTS)
    for name in ("dvc.yaml", ".dvcignore", ".dvc/config"):
        (clone.folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(HOME / name, clone.folder / name)
    config = clone.folder / ".dvc" / "config"
    config.write_text(config.read_text().replace("[core]", "[core]\n    no_scm = true"))
    clone.edit("dvc.yaml", "cmd: snakemake reports/rfedavg", f"cmd: snakemake --cores 2 {TARGET}")
    clone.run("dvc", "repro", "data")
    (clone.folder / "whole").mkdir()
    for name in ("results", "reports"):
        (clone.folder / name).rename(clone.folder / "whole" / name)
    return clone


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
    clone = training(tmp_path)
    clone.run("snakemake", "--cores", "1", *REPORTS)
    for name in ("results", "reports"):
        assert same(clone.folder / name, real.folder / "whole" / name)
    reports = contents(clone.folder / "reports")
    assert {Path(name).suffix for name in reports} >= {".csv", ".md", ".html", ".tex", ".svg", ".png"}
    record_property("trials", len(contents(clone.folder / "results")) + len(reports))


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
        report = check(real.folder / "results")
        assert (len(report.runs), report.problems) == (RUNS, ())


def little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_table_says_which_runs_ran_out_of_memory(tmp_path: Path, record_property: Record) -> None:
    """Two of the four columns have a model that no attempt has the memory for, until it is made smaller."""
    clone = training(tmp_path)
    set_models(clone, 40_000_000)
    process = subprocess.run(
        [*SNAKEMAKE, TARGET],
        cwd=clone.folder,
        env=clone.environment(),
        capture_output=True,
        text=True,
        preexec_fn=little_memory,
        check=False,
    )
    assert process.returncode != 0
    assert "fedcore partial" in process.stderr
    assert not (clone.folder / TARGET).exists()
    failed = [run for run in clone.folder.glob("results/*/*/*/*/seed*") if cause(run) == "out of memory"]
    finished = check(clone.folder / "results").runs
    record_property("trials", len(failed))
    assert (len(failed), len(finished)) == (RUNS // 2, RUNS // 2), process.stderr
    assert process.stderr.count("Trying to restart job") == 2 * len(failed) // 2, "two further attempts a job"
    clone.run(sys.executable, "-m", "pipeline", "partial", TARGET)
    lines = (clone.folder / TARGET).with_suffix(".md").read_text()
    assert lines.count("| out of memory") == 4
    assert "Runs without a result: out of memory in 4 cells." in lines
    set_models(clone, 16)
    clone.make(TARGET)
    assert "memory" not in (clone.folder / TARGET).with_suffix(".md").read_text()
