"""Which results from elsewhere are believed: by hashes alone, and only if all that they were made of are."""

from __future__ import annotations

import calendar
import fcntl
import json
import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pretended import catalogue, finish
from project import seal_partition
from snakemake.persistence import MetadataRecord
from snakemake.persistence.file import FilePersistence

from fedcore.base.files import read_object
from fedcore.execution.integrity import sealed
from pipeline.catalogue import Catalogue
from pipeline.reports import seal_report
from pipeline.workflow import dvc
from pipeline.workflow.adopt import Decision, apply, forget, forget_dead, inspect, recorded
from pipeline.workflow.answers import Workflow

FIGURE = "theory"
OLD = 1_000_000_000


@pytest.fixture(scope="module")
def made() -> Catalogue:
    return catalogue("rfedavg")


@pytest.fixture
def root(made: Catalogue, tmp_path: Path) -> Path:
    """Return a folder with a figure's partitions, runs, report and metrics, all as described, and all old."""
    for run in made.needed("rfedavg", FIGURE):
        finish(run, tmp_path, 0.5)
        statistics = tmp_path / run.partition / "stats.json"
        statistics.parent.mkdir(parents=True, exist_ok=True)
        statistics.write_text(json.dumps({"code": made.partitions[run.partition].code}))
        seal_partition(statistics.parent)
    report(made, tmp_path)
    reports = tmp_path / "reports/rfedavg"
    (reports / dvc.METRICS).write_text(dvc.means_json([]))
    for name in made.papers["rfedavg"].targets:
        if made.target("rfedavg", name).kind == "table":
            (reports / f"{name}.csv").write_text("row,column,mean,diverged\na,b,1.5,0\n")
    tables = [reports / f"{name}.csv" for name in tables_of(made)]
    (reports / dvc.METRICS).write_text(dvc.means_json(tables))
    for path in tmp_path.rglob("*"):
        os.utime(path, (OLD, OLD))
    return tmp_path


def tables_of(made: Catalogue) -> list[str]:
    targets = made.papers["rfedavg"].targets
    return [name for name, target in targets.items() if target.kind == "table"]


def report(made: Catalogue, root: Path) -> None:
    """Write a figure's files and their provenance."""
    folder = root / "reports/rfedavg"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{FIGURE}.csv").write_text("numbers")
    seal_report(made.sources("rfedavg", FIGURE, root), [folder / f"{FIGURE}.csv"])


def stale(made: Catalogue, root: Path) -> set[str]:
    """Return what is not believed, but for the tables, which were sealed by nobody."""
    unsealed = {f"reports/rfedavg/{name}" for name in tables_of(made)}
    decided = inspect(made, root)
    assert unsealed <= decided.stale.keys()
    return {*decided.stale} - unsealed


FIGURES, METRICS = f"reports/rfedavg/{FIGURE}", f"reports/rfedavg/{dvc.METRICS}"


def test_what_is_as_described_is_believed_with_all_its_files(made: Catalogue, root: Path) -> None:
    for name in tables_of(made):
        (root / "reports/rfedavg" / f"{name}.csv").unlink()
    (root / METRICS).write_text(dvc.means_json([]))
    decided = inspect(made, root)
    runs = made.needed("rfedavg", FIGURE)
    assert set(decided.believed) == {name for run in runs for name in (run.folder, run.partition)} | {FIGURES}
    assert decided.stale == {METRICS: [root / METRICS]}, "its tables are not there"
    run = runs[0]
    (root / run.folder / "checkpoint.npz").touch()
    (root / run.folder / "folder").mkdir()
    names = {path.name for path in inspect(made, root).believed[run.folder]}
    assert names == {"history.csv", "summary.json", "spec.yaml", "timing.json", "provenance.json"}
    assert {path.name for path in decided.believed[run.partition]} == {"partition.npz", "stats.json"}
    assert {path.name for path in decided.believed[FIGURES]} == {f"{FIGURE}.csv", f"{FIGURE}.provenance.json"}


def test_a_changed_run_takes_its_reports_along_and_nothing_else(made: Catalogue, root: Path) -> None:
    first, second = made.needed("rfedavg", FIGURE)[:2]
    (root / first.folder / "history.csv").write_text("round\n0\n")
    assert stale(made, root) == {first.folder, FIGURES, METRICS}
    assert second.folder in inspect(made, root).believed


def test_a_run_that_did_not_end_is_neither(made: Catalogue, root: Path) -> None:
    first = made.needed("rfedavg", FIGURE)[0]
    (root / first.folder / "summary.json").unlink()
    decided = inspect(made, root)
    assert first.folder not in {**decided.believed, **decided.stale}
    assert first.partition in decided.believed


@pytest.mark.parametrize("how", ["rows", "code", "unsealed", "no statistics", "no rows"])
def test_a_partition_of_other_rows_or_code_takes_its_runs_along(
    made: Catalogue, root: Path, how: str
) -> None:
    first = made.needed("rfedavg", FIGURE)[0]
    folder = root / first.partition
    statistics = read_object(folder / "stats.json")
    if how == "rows":
        (folder / "partition.npz").write_bytes(b"other rows")
    elif how == "no rows":
        (folder / "partition.npz").unlink()
    elif how == "no statistics":
        (folder / "stats.json").unlink()
    else:
        content = {key: value for key, value in statistics.items() if key != "sha256"} | {"code": "other"}
        (folder / "stats.json").write_text(
            json.dumps(sealed(content) if how == "code" else statistics | content)
        )
    sharing = {run.folder for run in made.needed("rfedavg", FIGURE) if run.partition == first.partition}
    assert stale(made, root) == {first.partition, *sharing, FIGURES, METRICS}


def test_metrics_are_believed_if_they_are_those_of_their_tables(
    made: Catalogue, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert METRICS in inspect(made, root).stale, "its tables are not believed"
    paper = made.papers["rfedavg"]
    monkeypatch.setitem(made.papers, "rfedavg", replace(paper, targets={FIGURE: paper.targets[FIGURE]}))
    (root / METRICS).write_text(dvc.means_json([]))
    assert METRICS in inspect(made, root).believed
    (root / METRICS).write_text(dvc.means_json([]) + " ")
    assert inspect(made, root).stale == {METRICS: [root / METRICS]}


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A time that is not UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_looking_moves_nothing_and_applying_moves_what_is_stale_alone(made: Catalogue, root: Path) -> None:
    first = made.needed("rfedavg", FIGURE)[0]
    (root / first.folder / "history.csv").write_text("round\n0\n")
    (root / first.folder / "checkpoint.npz").write_bytes(b"kept")
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    decided = inspect(made, root)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    text = apply(decided, root)
    aside = Path(text.split("set aside in ")[1].split(";")[0])
    assert aside.parts[:2] == ("results", ".superseded")
    assert abs(calendar.timegm(time.strptime(aside.name, "%Y%m%dT%H%M%S")) - time.time()) < 3600
    assert (
        text == f"{len(decided.stale)} results are set aside in {aside}; `cp -a {aside}/. .` brings them back"
    )
    moved = {path for files in decided.stale.values() for path in files}
    for path, content in before.items():
        now = root / aside / path.relative_to(root) if path in moved else path
        assert now.read_bytes() == content
        assert path.exists() == (path not in moved)
    times = {path.stat().st_mtime for files in decided.believed.values() for path in files}
    assert len(times) == 1
    assert times.pop() > OLD
    assert (root / first.folder / "checkpoint.npz").read_bytes() == b"kept"
    again = inspect(made, root)
    assert not again.stale
    assert apply(again, root) == ""


def test_a_decision_is_one_line() -> None:
    decided = Decision()
    decided.judge("a", [Path("x")], True)
    decided.judge("none", [], False)
    assert str(decided) == "1 results from elsewhere are what params.yaml and the code describe"
    for name in "bcd":
        decided.judge(name, [Path(name)], False)
    assert str(decided) == "1 results from elsewhere are believed; 3 are not: b, c, d"
    decided.judge("e", [Path("e")], True, ["d"])
    assert str(decided) == "1 results from elsewhere are believed; 4 are not: b, c, d, ..."


def test_records_of_snakemake_are_found_by_the_names_that_it_gives_them(tmp_path: Path) -> None:
    assert recorded(tmp_path) == frozenset()
    persistence = FilePersistence(path=tmp_path / ".snakemake")
    names = ["reports/a.csv", "results/" + 250 * "long" + "/summary.json"]
    persistence._write_record(names[0], MetadataRecord())
    persistence._mark_incomplete(names[1], None)
    assert recorded(tmp_path) == frozenset(urlsafe_b64encode(name.encode()).decode() for name in names)
    forget(tmp_path)
    assert len(recorded(tmp_path) or ()) == 1, "what was begun is left to Snakemake"
    (tmp_path / ".snakemake/metadata.db").touch()
    assert recorded(tmp_path) is None
    forget(tmp_path)
    (tmp_path / ".snakemake/locks/0.input.lock").touch()
    assert recorded(tmp_path) is None, "somebody is at work"


def test_what_snakemake_has_no_record_of_is_judged_beside_what_it_made(made: Catalogue, root: Path) -> None:
    first, second = made.needed("rfedavg", FIGURE)[:2]
    for run in (first, second):
        (root / run.folder / "history.csv").write_text("round\n0\n")
    persistence = FilePersistence(path=root / ".snakemake")
    persistence._write_record(f"{first.folder}/summary.json", MetadataRecord())
    decided = inspect(made, root, recorded(root) or frozenset())
    assert second.folder in decided.stale
    assert first.folder not in {**decided.stale, **decided.believed}


def test_what_snakemake_made_is_not_even_planned(
    made: Catalogue, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    records = frozenset(urlsafe_b64encode(name.encode()).decode() for name in names)
    monkeypatch.delattr(Catalogue, "planned")
    assert inspect(made, root, records) == Decision()


def test_a_snakemake_that_ends_leaves_the_locks_of_another(tmp_path: Path) -> None:
    first, second = (FilePersistence(path=tmp_path) for _ in range(2))
    for persistence, name in ((first, "a.csv"), (second, "b.csv")):
        running = {"is_main_process": True, "dryrun": False, "configfiles": (), "persistence": persistence}
        settings = SimpleNamespace(config={"scale": "quick"})
        Workflow({}, SimpleNamespace(**running, config_settings=settings)).all_data(None)
        persistence._write_locks("output", [name])
    second.unlock()
    assert [*first._read_locks()] == [("output", "a.csv")]
    first.unlock()
    assert not [*first._read_locks()]


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return two locks and another file in a folder that becomes the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".snakemake/locks").mkdir(parents=True)
    paths = [tmp_path / ".snakemake/locks" / name for name in ("0.input.lock", "0.output.lock", "note")]
    for path in paths:
        path.touch()
    return paths


def test_locks_of_the_dead_are_removed_in_words(
    locks: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    forget_dead()
    assert [path.exists() for path in locks] == [False, False, True]
    output = capsys.readouterr()
    assert (output.out, output.err) == (
        "",
        "A Snakemake was killed in this folder; its locks are removed.\n",
    )
    sign = locks[0].parents[1] / "alive"
    assert sign.stat().st_mode & 0o7111 == 0, "nobody executes it"
    with sign.open() as mine:  # this process shows that it lives, and others may do so too
        fcntl.flock(mine, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError):
            fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_locks_are_left_to_whoever_lives(locks: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    with (locks[0].parents[1] / "alive").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        forget_dead()
    assert all(path.exists() for path in locks)
    assert capsys.readouterr().err == ""


def test_where_nothing_can_be_written_no_lock_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".snakemake").write_text("a file in the folder's place")
    forget_dead()
    (tmp_path / ".snakemake").unlink()
    forget_dead()
    assert (tmp_path / ".snakemake/alive").exists()
    assert capsys.readouterr().err == ""
