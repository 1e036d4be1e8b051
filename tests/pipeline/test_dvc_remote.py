"""Results on another machine: pulled from a remote, believed by their hashes, and nothing is done again."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from project import HOME, Project

TABLE = "reports/rfedavg/table1.csv"
METRICS = "reports/rfedavg/metrics.json"
STAGE = "rfedavg"
PARAMETER = "papers.rfedavg.algorithms.fedprox.mu"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A git repository with one paper's stage, a folder as its remote, and its first results pushed there."""
    base = tmp_path_factory.mktemp("origin")
    (base / "project").mkdir()
    project = Project.copy(base / "project")
    for name in (".dvcignore", ".gitignore", ".dvc/config", ".dvc/.gitignore"):
        (project.folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(HOME / name, project.folder / name)
    shutil.copytree(HOME / ".dvc" / "plots", project.folder / ".dvc" / "plots")
    shutil.copytree(HOME / "data" / "demo", project.folder / "data" / "demo")
    with (project.folder / ".gitignore").open("a") as lines:
        lines.write("/bin/\n/executed.txt\n")
    project.run("python", "-m", "pipeline", "dvc")
    tiny = f"snakemake {TABLE} && python -m pipeline metrics {TABLE} --out {METRICS}"
    project.edit("dvc.yaml", "cmd: snakemake reports/rfedavg\n", f"cmd: {tiny}\n")
    project.run("git", "init", "-q", "-b", "main")
    for key in ("user.name", "user.email"):
        project.run("git", "config", key, "tester@example.org")
    project.run("dvc", "remote", "add", "--default", "there", str(base / "remote"))
    project.run("dvc", "repro", STAGE)
    project.run("git", "add", ".")
    project.run("git", "commit", "-qm", "results")
    project.run("dvc", "push", "--with-deps", STAGE)
    return project


@pytest.fixture
def clone(origin: Project, tmp_path: Path) -> Project:
    """A fresh clone of it, results pulled."""
    folder = tmp_path / "clone"
    origin.run("git", "clone", "-q", ".", str(folder))
    shutil.copytree(origin.folder / "bin", folder / "bin")
    project = Project(folder)
    project.run("dvc", "pull", "--with-deps", STAGE)
    return project


def shuffle_times(folder: Path) -> None:
    """Give the files times in an arbitrary order."""
    for number, path in enumerate(sorted(folder.rglob("*"), key=lambda path: hash(path.name))):
        when = time.time() - 1000 + number
        os.utime(path, (when, when))


def test_after_a_pull_nothing_is_to_be_done(clone: Project) -> None:
    for name in ("results", "reports"):
        shuffle_times(clone.folder / name)
    process = clone.snakemake("--dry-run", TABLE)
    assert "Nothing to be done" in process.stdout + process.stderr
    believed = 16 + 8 * 6 * 2 + 1  # partitions, runs, a table; metrics of one table are not the paper's
    assert f"{believed} results from elsewhere are believed; 1 are not: {METRICS}" in process.stderr
    clone.make(TABLE)
    assert clone.executed() == []
    fetched = clone.run("dvc", "repro", STAGE)
    assert "Running stage 'data'" in fetched, "each machine fetches its own"
    assert f"Stage '{STAGE}' didn't change, skipping" in fetched
    assert "Data and pipelines are up to date" in clone.run("dvc", "repro", STAGE)
    assert clone.executed() == []


def test_after_a_pull_an_edit_does_what_it_touches(clone: Project) -> None:
    clone.edit("params.yaml", "mu: 1.0", "mu: 0.5")
    assert clone.jobs(TABLE) == {"train": 6, "table": 1}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("results/*/*/cross_silo-mnist-sim0/fedprox-*/seed0/history.csv", {"train": 1, "table": 1}),
        ("results/*/*/partitions/*/seed1/partition.npz", None),
        ("reports/rfedavg/table1.md", {"table": 1}),
    ],
)
def test_what_was_changed_on_the_way_is_not_believed(
    clone: Project, pattern: str, expected: dict[str, int] | None
) -> None:
    path = sorted(clone.folder.glob(pattern))[0]
    text = path.read_bytes()
    path.unlink()  # the cache may be linked to
    path.write_bytes(text + b" ")
    jobs = clone.jobs(TABLE)
    if expected is None:
        assert jobs["partition"] == 1
        assert jobs["train"] == 6
    else:
        assert jobs == expected


def test_changed_code_is_noticed_after_a_pull(clone: Project) -> None:
    clone.edit("fedcore/parts/objective.py", "else 2 * self.mu", "else self.mu * 2")
    assert clone.jobs(TABLE) == {"train": 8, "table": 1}
    clone.make(TABLE)
    assert len(clone.executed()) == 8 * 2, "runs of other code are done again, the others are not"


def test_an_interrupted_repro_keeps_finished_runs(clone: Project) -> None:
    clone.edit("params.yaml", "mu: 1.0", "mu: 0.25")
    process = clone.call("dvc", "repro", STAGE, FAKE_FAILS="cross_silo-cifar10-sim0/fedprox")
    assert process.returncode != 0
    first = clone.executed()
    clone.run("dvc", "repro", STAGE)
    second = clone.executed()
    assert len(first) + len(second) == 6 * 2
    assert not set(first) & set(second)
    assert first


def test_metrics_parameters_plots_and_experiments(clone: Project) -> None:
    shown = clone.run("dvc", "metrics", "show", "--json")
    assert '"table1"' in shown
    clone.edit("params.yaml", "mu: 1.0", "mu: 0.5")
    assert f"{PARAMETER}" in clone.run("dvc", "params", "diff")
    clone.edit("params.yaml", "mu: 0.5", "mu: 1.0")
    clone.run("dvc", "exp", "run", STAGE, "--set-param", f"{PARAMETER}=0.125", "--name", "smaller")
    executed = clone.executed()
    assert len(executed) == 6 * 2
    assert all("/fedprox-" in folder for folder in executed)
    assert "0.125" in clone.run("dvc", "exp", "show", "--csv")
    assert "table1.fedprox" in clone.run("dvc", "metrics", "diff", "--all")
