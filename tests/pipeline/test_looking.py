"""Looking changes nothing: no file and no time, even where hashes decide that results can't be believed.

Commands that start no other program are called within this process, all others as people call them.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest
import yaml
from project import HOME, Project
from typer.testing import CliRunner

from fedcore.base.errors import DataError
from fedcore.cli.main import app
from pipeline.catalogue.params import EDITIONS
from pipeline.cli import COMMANDS
from pipeline.reports.kept import REFERENCE

TABLE = "reports/rfedavg/table1.csv"
CELL = (TABLE, "--row", "fedprox", "--column", "mnist-sim0")
FEDCORE = str(Path(sys.executable).with_name("fedcore"))
OWN = {".snakemake", "__pycache__"}  # what Snakemake and Python keep for themselves
LOOKS = [
    ("snakemake", "-n", "-p", TABLE),
    ("snakemake", "--list-rules"),
    ("snakemake", TABLE, "--dag"),
    (FEDCORE, "verify"),
]
SLOW_LOOKS = [
    (FEDCORE, "readings", "table2", "--points", "whose_deltas", "--dry-run"),
    (FEDCORE, "build", "rfedavg", "--dry-run"),
    ("snakemake", "-n", "reports/rfedavg/table9"),
    ("snakemake", "--list-target-rules"),
    ("snakemake", "--lint"),
    ("snakemake", TABLE, "--rulegraph"),
    ("snakemake", TABLE, "--filegraph"),
    ("snakemake", "--summary", TABLE),
    ("snakemake", "--detailed-summary", TABLE),
    ("snakemake", "--list-params-changes", TABLE),
]
WITHIN = {
    "list": (),
    "describe": ("scaffold",),
    "data list": (),
    "data info": ("mnist",),
    "data verify": ("mnist",),
    "doctor": (),
    "status": ("--json",),
    "verify": ("--json",),
    "targets": (),
    "explain": CELL,
    "runs": CELL,
    "cost": ("rfedavg/table1", "--scale", "paper"),
    "chosen": ("reports/rfedavg/search_fedprox.csv",),
    "prune": (),
}
SITE = ("python", "-m", "pipeline", "site")
REFUSED = {  # that something is wrong here
    (FEDCORE, "verify"): 1,
    ("snakemake", "-n", "reports/rfedavg/table9"): 1,
    ("python", "-m", "pipeline", "partial", TABLE): 2,
}
WRITES = {
    ("python", "-m", "pipeline", "fidelity"): "reports/fidelity",
    SITE: "reports/site",
    ("python", "-m", "pipeline", "partial", TABLE): "reports/rfedavg/table1.partial",
    (FEDCORE, "study", "new", "own", "--data", "mnist", "--edition", "demo"): "studies/own.yaml",
    (FEDCORE, "metrics", TABLE, "--out", "means.json"): "means.json",
    (FEDCORE, "evaluate", "rfedavg", "--minutes", "0.1"): "reports/evaluation",
}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with results in an arbitrary order of times, a part of them by other code, and no records."""
    project = Project.copy(tmp_path_factory.mktemp("foreign"))
    shutil.copytree(HOME / "data" / "demo", project.folder / "data" / "demo")
    editions = yaml.safe_load((HOME / EDITIONS).read_text())["papers"]["rfedavg"]
    (project.folder / EDITIONS).write_text(yaml.safe_dump({"papers": {"rfedavg": editions}}))
    shutil.copytree(HOME / REFERENCE / "rfedavg", project.folder / REFERENCE / "rfedavg")
    project.make(TABLE)
    for package in {path.parent for path in project.folder.rglob("*.py")}:
        (package / "__pycache__").mkdir(exist_ok=True)  # whose coming would change its folder's time
    project.executed()
    project.edit("fedcore/parts/objective.py", "else 2 * self.mu", "else self.mu * 2")
    sorted(project.folder.glob("results/*/*/partitions/*/seed1/partition.npz"))[0].write_bytes(b"other rows")
    shutil.rmtree(project.folder / ".snakemake")
    for number, path in enumerate(sorted(project.folder.glob("re*/**/*"), key=lambda path: hash(path.name))):
        os.utime(path, (time.time() - 1000 + number, time.time() - 1000 + number))
    return project


def seen(project: Project, but: str = "-") -> dict[str, tuple[int, bytes]]:
    """Return time and content of every file, and the time of every folder but those that hold others' own."""
    return {
        name: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in project.folder.rglob("*")
        if OWN.isdisjoint(path.relative_to(project.folder).parts)
        and not (path / ".snakemake").exists()
        and not (name := path.relative_to(project.folder).as_posix()).startswith(but)
        and not but.startswith(f"{name}/")
    }


@pytest.mark.parametrize(
    "command",
    [*LOOKS, *(pytest.param(command, marks=pytest.mark.slow) for command in SLOW_LOOKS)],
    ids=lambda command: " ".join(command).rpartition("/bin/")[2],
)
def test_looking_changes_no_file_and_no_time(foreign: Project, command: tuple[str, ...]) -> None:
    before = seen(foreign)
    process = foreign.call(*command)
    assert process.returncode == REFUSED.get(command, 0), process.stdout + process.stderr
    assert seen(foreign) == before


@pytest.mark.parametrize("command", WITHIN)
def test_looking_within_a_process_changes_none_either(
    foreign: Project, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(foreign.folder)
    monkeypatch.delenv("FEDCORE_MIRROR", raising=False)  # what comes from there is kept
    before = seen(foreign)
    result = CliRunner().invoke(app, [*command.split(), *WITHIN[command]])
    ended = {"verify": SystemExit, "chosen": DataError}  # no search was built here
    assert type(result.exception) is ended.get(command, type(None)), result.output
    assert seen(foreign) == before


def test_every_command_that_looks_is_tried() -> None:
    called = {*WITHIN, *(command[1] for command in (*LOOKS, *SLOW_LOOKS, *WRITES) if FEDCORE in command)}
    assert {*COMMANDS["Look"]} <= called


@pytest.mark.parametrize(
    ("command", "own"),
    [pytest.param(*item, marks=pytest.mark.slow if item[0] == SITE else ()) for item in WRITES.items()],
    ids=str,
)
def test_a_report_about_what_exists_changes_nothing_else(
    foreign: Project, command: tuple[str, ...], own: str
) -> None:
    before = seen(foreign, own)
    process = foreign.call(*command)
    assert process.returncode == REFUSED.get(command, 0), process.stdout + process.stderr
    assert any(foreign.folder.glob(f"{own}*")) == (command not in REFUSED)
    assert seen(foreign, own) == before


@pytest.mark.slow
def test_a_dry_run_says_how_long_its_jobs_train(foreign: Project) -> None:
    output = foreign.make("--dry-run", TABLE)
    (count,) = re.findall(r"^(\d+) jobs train for about \d\S* .*on one core", output, re.MULTILINE)
    assert re.findall(r"^train +(\d+)$", output, re.MULTILINE) == [count]
    elsewhere, quiet = foreign.run(FEDCORE, "build", TABLE, "--dry-run", "-q").splitlines()
    assert "results from elsewhere are believed" in elsewhere
    assert re.fullmatch(rf"{count} jobs train for about \d.* on one core; see `fedcore cost`", quiet)


@pytest.fixture
def clone(foreign: Project, tmp_path: Path) -> Project:
    """A copy of it that may be changed."""
    shutil.copytree(foreign.folder, tmp_path / "clone", symlinks=True)
    shutil.rmtree(tmp_path / "clone" / ".snakemake", ignore_errors=True)
    return Project(tmp_path / "clone")


@pytest.mark.slow
def test_a_dry_run_foresees_the_jobs_of_the_real_run(clone: Project) -> None:
    targets = (TABLE, "reports/table1.tex")
    foreseen = clone.jobs(*targets)
    output = clone.make("-p", *targets)
    assert {name: output.count(f"rule {name}:") for name in foreseen} == foreseen
    assert foreseen["partition"] == 1
    assert 8 <= foreseen["train"] < 48
    assert clone.jobs(*targets) == {}


def test_what_is_not_believed_is_set_aside_and_can_be_brought_back(clone: Project) -> None:
    before = seen(clone)
    output = clone.make(TABLE)
    (line,) = [line for line in output.splitlines() if "set aside in" in line]
    aside = line.split("set aside in ")[1].split(";")[0]
    assert aside.startswith("results/.superseded/")
    kept = {
        path.relative_to(clone.folder / aside).as_posix(): path.read_bytes()
        for path in (clone.folder / aside).rglob("*")
        if path.is_file()
    }
    assert TABLE in kept
    assert {name: before[name][1] for name in kept} == kept
    results = (name for name in before if not name.startswith("logs/") and (clone.folder / name).is_file())
    changed = {name for name in results if (clone.folder / name).read_bytes() != before[name][1]}
    assert changed <= kept.keys(), "what was written over is kept"
    clone.run("sh", "-c", line.split("`")[1])
    assert (clone.folder / TABLE).read_bytes() == kept[TABLE]


@pytest.mark.slow
def test_what_was_set_aside_is_no_result(clone: Project) -> None:
    clone.make(TABLE)
    counted = clone.run(FEDCORE, "status", "results/rfedavg")
    shutil.rmtree(clone.folder / "results" / ".superseded")
    assert clone.run(FEDCORE, "status", "results/rfedavg") == counted
