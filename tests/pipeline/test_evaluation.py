"""Kept results made again: real runs at demo scale, kept, and then evaluated as a referee would."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pretended import catalogue
from project import HOME
from typer.testing import CliRunner

from fedcore.data import Source
from fedcore.execution.integrity import code_of
from fedcore.execution.runner import Settings, run
from pipeline.__main__ import app
from pipeline.catalogue import Catalogue
from pipeline.cli import evaluate as command
from pipeline.fidelity import evaluation, reference
from pipeline.fidelity.evaluation import (
    CLOSE,
    OTHER,
    SAME,
    Evaluation,
    Recheck,
    Unit,
    again,
    evaluate,
    in_turn,
    without_history,
)
from pipeline.reports.kept import HISTORIES, RUNS, read_kept
from pipeline.reports.kept import add_histories as add

NAME = "fedomw/table2_released"
CELL = ("dl_u", "dna")
SETTINGS = Settings(source=Source(HOME / "data", None, True), device="cpu")


@pytest.fixture(scope="module")
def made() -> Catalogue:
    return catalogue("fedomw")


@pytest.fixture(scope="module")
def real(made: Catalogue, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which one cell's runs are kept."""
    root = tmp_path_factory.mktemp("first")
    for plan in made.cells(*NAME.split("/"))[CELL]:
        run(dict(plan.spec), root / plan.folder, replace(SETTINGS, provenance={"code": plan.code}), False)
    reference.keep(made, [NAME], root, root / "kept")
    return root / "kept"


@pytest.fixture
def kept(real: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(real, tmp_path / "kept"))


def evaluated(made: Catalogue, kept: Path, seconds: float = 600, settings: Settings = SETTINGS) -> Evaluation:
    return evaluate(made, ["fedomw"], seconds, kept.parent / "work", settings, folder=kept)


def change(kept: Path, name: str, **columns: Any) -> None:
    """Give columns of a kept file other values, in the lines that have one."""
    path = kept / "fedomw" / name
    frame = read_kept(path) if name == RUNS else pd.read_csv(path)
    present = frame["n"] > 0 if "n" in frame else frame["run"].notna()
    for column, value in columns.items():
        frame.loc[present, column] = value
    if name == RUNS:
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)


def test_kept_runs_come_out_again_and_so_does_their_table(made: Catalogue, kept: Path) -> None:
    evaluation = evaluated(made, kept)
    (check,) = evaluation.checks
    assert (check.unit.row, check.unit.column) == CELL
    assert set(check.outcomes) == {SAME}
    assert len(check.outcomes) == len(made.cells(*NAME.split("/"))[CELL])
    assert (check.largest, check.agrees) == (0, True)
    assert evaluation.rebuilt == {NAME: True}
    assert evaluation.left == {"fedomw": (0, 0.0)}
    assert not evaluation.absent
    for plan in check.unit.runs:
        assert code_of(kept.parent / "work" / plan.folder) == plan.code


def test_other_bytes_with_the_same_numbers_agree(made: Catalogue, kept: Path) -> None:
    change(kept, RUNS, summary_sha256="0" * 64)
    (check,) = evaluated(made, kept).checks
    assert set(check.outcomes) == {CLOSE}
    assert 0 <= check.largest < 1e-8
    assert check.agrees


def test_what_a_gpu_made_is_left_out(made: Catalogue, kept: Path) -> None:
    change(kept, RUNS, device="cuda")
    evaluation = evaluated(made, kept)
    assert (evaluation.checks, evaluation.left) == ([], {"fedomw": (0, 0.0)})


@pytest.mark.parametrize("column", ["test_accuracy", "partition_sha256", "status"])
def test_another_number_hash_or_status_does_not_agree(made: Catalogue, kept: Path, column: str) -> None:
    value = {"test_accuracy": 0.5, "partition_sha256": "0" * 64, "status": "diverged"}[column]
    change(kept, RUNS, history_sha256="0" * 64, **{column: value})
    (check,) = evaluated(made, kept).checks
    assert set(check.outcomes) == {OTHER}
    assert not check.agrees
    assert check.largest == math.inf or check.largest > 0.01


def test_a_table_with_another_number_is_not_rebuilt(made: Catalogue, kept: Path) -> None:
    change(kept, "table2_released.csv", mean=12.3)
    evaluation = evaluated(made, kept)
    assert evaluation.checks[0].agrees
    assert evaluation.rebuilt == {NAME: False}


@pytest.mark.parametrize(("factor", "same"), [(1 + 5e-5, True), (1.01, False)])
def test_a_table_is_rebuilt_within_the_tolerance_of_numbers(
    made: Catalogue, kept: Path, factor: float, same: bool
) -> None:
    """At a mean of some 80 per cent the second is off by less than a point."""
    frame = pd.read_csv(kept / "fedomw" / "table2_released.csv")
    (mean,) = frame["mean"].dropna()
    change(kept, "table2_released.csv", mean=factor * mean)
    assert evaluated(made, kept).rebuilt == {NAME: same}


def test_what_does_not_fit_is_left_and_counted(made: Catalogue, kept: Path) -> None:
    change(kept, RUNS, seconds=100.0)
    runs = len(made.cells(*NAME.split("/"))[CELL])
    evaluation = evaluated(made, kept, seconds=100.0 * runs)
    assert not evaluation.checks
    assert evaluation.left == {"fedomw": (runs, 100.0 * runs)}


def test_runs_of_other_parameters_are_not_checked(made: Catalogue, kept: Path) -> None:
    change(kept, RUNS, spec_sha256="0" * 64)
    assert not evaluated(made, kept).checks


def test_data_that_cannot_be_had_are_named(made: Catalogue, kept: Path) -> None:
    nowhere = replace(SETTINGS, source=Source(kept.parent / "none", None, True))
    shutil.copytree(HOME / "data/demo", kept.parent / "none/demo", ignore=lambda *_: ["libsvm"])
    evaluation = evaluated(made, kept, settings=nowhere)
    assert not evaluation.checks
    assert "demo" in evaluation.absent["dna"]


def filled(made: Catalogue, kept: Path, times: str = "once") -> Evaluation:
    return evaluate(made, ["fedomw"], 600, kept.parent / times, SETTINGS, folder=kept, fill=True)


def test_histories_are_made_again_as_they_were_kept(made: Catalogue, kept: Path) -> None:
    path = kept / "fedomw" / HISTORIES
    before = path.read_bytes()
    assert not filled(made, kept, "not at all").checks
    first = made.cells(*NAME.split("/"))[CELL][0].folder
    rest = read_kept(path)
    rest[rest["run"] == first].assign(test_accuracy=0.5).to_parquet(path)
    (check,) = filled(made, kept).checks
    assert {*check.outcomes} == {SAME}
    assert read_kept(path).loc[lambda frame: frame["run"] == first, "test_accuracy"].eq(0.5).all(), (
        "one was kept"
    )
    path.unlink()
    filled(made, kept, "twice")
    assert path.read_bytes() == before


def test_a_history_of_other_numbers_is_not_kept(made: Catalogue, kept: Path) -> None:
    (kept / "fedomw" / HISTORIES).unlink()
    change(kept, RUNS, test_accuracy=0.5, history_sha256="0" * 64)
    assert not filled(made, kept).checks[0].agrees
    assert not (kept / "fedomw" / HISTORIES).exists()


def test_cells_without_histories_come_by_their_times(made: Catalogue, tmp_path: Path) -> None:
    cells = list(made.cells(*NAME.split("/")).items())[:3]
    units = [
        Unit("fedomw", "table2_released", *cell, runs, [{"seconds": seconds}])
        for (cell, runs), seconds in zip(cells, (3.0, 1.0, 2.0), strict=True)
    ]
    frames = [pd.DataFrame({"run": [plan.folder], "processor": "", "round": 1}) for plan in units[2].runs]
    add(frames, tmp_path / "fedomw" / HISTORIES)
    assert without_history(units, tmp_path) == [units[1], units[0]]


def test_tables_and_papers_take_turns_after_one_figure() -> None:
    def unit(paper: str, target: str, row: str, seconds: float) -> Unit:
        return Unit(paper, target, row, "x", (), ({"seconds": seconds},))

    units = [unit("b", "quick", "", 2), unit("a", "slow", "", 9)]
    units += [unit("a", "t1", f"r{at}", 1) for at in range(3)]
    units += [
        unit("a", "t2", "r", 1),
        unit("a", "t3", "r", 1),
        unit("b", "t1", "r", 1),
        unit("b", "t2", "r", 1),
    ]
    first = ["".join((chosen.paper, chosen.target)) for chosen in in_turn(units, 0)]
    assert first == ["bquick", "at1", "bt1", "at2", "bt2", "at3", "at1", "at1"]
    orders = {tuple(chosen.row for chosen in in_turn(units, seed)) for seed in range(20)}
    assert len(orders) > 1
    assert [chosen.row for chosen in in_turn(units, 3)] == [chosen.row for chosen in in_turn(units, 3)]


@pytest.fixture
def folder(made: Catalogue, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the command writes, beside the kept results."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "catalogue_of", lambda *arguments: made)
    (tmp_path / "reports").mkdir()
    kept.rename(tmp_path / "reports/reference")
    return tmp_path / "reports/evaluation"


CALL = ["evaluate", "fedomw", "--root", str(HOME / "data")]


def test_former_runs_do_not_count_where_the_folder_is_a_link(made: Catalogue, folder: Path) -> None:
    (elsewhere := folder.parent / "elsewhere").mkdir()
    folder.symlink_to(elsewhere)
    for plan in made.cells(*NAME.split("/"))[CELL]:
        (folder / "work" / plan.folder).mkdir(parents=True)
        (folder / "work" / plan.folder / "summary.json").write_text("{}")
    result = CliRunner().invoke(app, CALL)
    assert "fedomw: 1 of 1 cells and figures reproduced\n" in result.output, result.exception
    assert (elsewhere / "evaluation.md").exists()


def test_an_interrupted_command_reports_the_checks_so_far(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Unit] = []

    def interrupted(unit: Unit, *arguments: Any) -> Recheck:
        calls.append(unit)
        if len(calls) > 1:
            with pytest.raises(BlockingIOError):  # another command waits
                fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
            raise KeyboardInterrupt
        return again(unit, *arguments)

    folder.mkdir()
    for former in ("comfed.svg", "evaluation.json"):
        (folder / former).touch()
    monkeypatch.setattr(evaluation, "again", interrupted)
    monkeypatch.setattr(evaluation, "in_turn", lambda units, seed: [*units] * 2)
    result = CliRunner().invoke(app, CALL)
    assert result.exit_code == 130, result.output
    facts = json.loads((folder / "evaluation.json").read_text())
    assert len(facts["checks"]) == 1
    assert 0 <= facts["interrupted"] < 10
    assert "within 10 minutes (interrupted after 0." in (folder / "evaluation.md").read_text()
    assert [path.name for path in folder.glob("*.svg")] == ["fedomw.svg"]


def test_the_command_writes_a_report_and_a_badge(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "commit", lambda: "")
    call = [*CALL, "--by", "A <b>"]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 0, result.output
    assert "fedomw: 1 of 1 cells and figures reproduced\n" in result.output
    assert "| fedomw | 1 | 1 | 0 |" in (folder / "evaluation.md").read_text()
    page = (folder / "evaluation.html").read_text()
    assert "A &lt;b&gt;" in page
    assert "<b>" not in page
    badge = (folder / "fedomw.svg").read_text()
    assert "1 of 1 cells" in badge
    assert ", commit unknown</title>" in badge
    assert "A &lt;b&gt;" in badge
    report = json.loads(CliRunner().invoke(app, [*call, "--json"]).stdout)
    assert report == json.loads((folder / "evaluation.json").read_text())
    page = (HOME / "docs/results.md").read_text()
    (line,) = re.findall(r"^\| `fedcore evaluate` .*", page, re.MULTILINE)
    assert re.findall(r"`(\w+)`", line) == [*report]


def test_a_paper_without_a_cell_in_time_says_what_the_quickest_takes(
    made: Catalogue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = sum(
        line["seconds"] for line in read_kept(folder.parent / "reference/fedomw" / RUNS).to_dict("records")
    )
    monkeypatch.setattr(evaluation, "LARGEST", seconds / (12.5 * 60))
    result = CliRunner().invoke(app, CALL)
    assert (
        "fedomw: nothing checked: its quickest cell or figure takes --minutes 13; 2 kept runs"
        in result.output
    )
    for enough in ("12.6", "13"):
        assert "takes" not in CliRunner().invoke(app, [*CALL, "--minutes", enough]).output


def test_an_unknown_paper_is_refused_in_one_line() -> None:
    error = CliRunner().invoke(app, ["evaluate", "fedomv"]).exception
    assert str(error) == "fedomv: no such paper (did you mean 'fedomw'?)"
