"""What an evaluation chooses, how long it goes on, and when numbers agree: without any training."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from pretended import catalogue

from fedcore.base.errors import DataError
from fedcore.base.files import digest, sha256_file
from fedcore.execution.runner import Settings
from pipeline.catalogue import Catalogue
from pipeline.fidelity import evaluation
from pipeline.fidelity.evaluation import (
    CLOSE,
    OTHER,
    SAME,
    TOLERANCE,
    Evaluation,
    Recheck,
    Unit,
    compare,
    kept_runs,
    units,
)

PAPER, TABLE = "fedomw", "table2_released"

SETTINGS = Settings(device="cpu")


@pytest.fixture(scope="module")
def made() -> Catalogue:
    return catalogue(PAPER)


def unit(name: str, seconds: float, data: str = "dna", target: str = "t") -> Unit:
    """Return a unit of a run of that length, or of one for each data set."""
    sets = data.split()
    runs: Any = [
        SimpleNamespace(folder=f"{name}{at or ''}", spec={"data": {"name": key}})
        for at, key in enumerate(sets)
    ]
    return Unit("p", target, name, "x", runs, [{"seconds": seconds}] * len(runs))


Evaluated = Callable[..., tuple[Evaluation, list[str]]]


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Evaluated:
    """Return what evaluates units in their order on a clock that only their runs move."""
    clock = [1000.0]
    monkeypatch.setattr(evaluation, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def evaluate(
        cells: Sequence[Unit], seconds: float, slower: float = 1.0, absent: Sequence[str] = (), **more: Any
    ) -> tuple[Evaluation, list[str]]:
        noted: list[str] = []

        def again(cell: Unit, root: Path, settings: Settings) -> Recheck:
            began = clock[0]
            for run, line in zip(cell.runs, cell.kept, strict=True):
                path = root / run.folder / "summary.json"
                if run.spec["data"]["name"] in absent:
                    raise DataError("nowhere to be had")
                if run.folder == "interrupted":
                    raise KeyboardInterrupt
                clock[0] += 0 if path.exists() else slower * line["seconds"]
                path.parent.mkdir(exist_ok=True)
                path.touch()
            return Recheck(cell, (SAME,), 0.0, clock[0] - began)

        def rebuilt(no_catalogue: Any, paper: str, target: str, root: Path, folder: Path) -> bool:
            noted.append(f"rebuilt {paper}/{target}")
            return target == "t"

        kept = {run.folder: line for cell in cells for run, line in zip(cell.runs, cell.kept, strict=True)}
        for name, fake in {"again": again, "rebuilt": rebuilt}.items():
            monkeypatch.setattr(evaluation, name, fake)
        monkeypatch.setattr(
            evaluation, "kept_runs", lambda path, device: kept if path.parent.name == "p" else {}
        )
        monkeypatch.setattr(evaluation, "units", lambda no_catalogue, all_kept, folder: list(cells))
        monkeypatch.setattr(evaluation, "in_turn", lambda cells, seed: sorted(cells, key=lambda c: c.row))
        note = lambda what: noted.append(what if isinstance(what, str) else what.unit.row)  # noqa: E731
        unused: Any = None
        return (
            evaluation.evaluate(unused, ["p", "q"], seconds, tmp_path, SETTINGS, 0, note, tmp_path, **more),
            noted,
        )

    return evaluate


def rows(found: Evaluation) -> str:
    return "".join(check.unit.row for check in found.checks)


def test_what_fits_is_made_and_the_report_has_its_share_of_the_time(evaluated: Evaluated) -> None:
    """A quarter of 100 s for one cell, 5 s for reports: 75 s are gone when 'd' asks for 1.3 times 25."""
    lengths = {"a": 25, "b": 25, "c": 25, "d": 25, "e": 15.3, "f": 15.5, "g": 25.1}
    result, noted = evaluated([unit(*item) for item in lengths.items()], 100)
    assert rows(result) == "abce", "and e ends at 75 + 1.3 x 15.3 = 94.89"
    assert noted == ["a", "b", "c", "e", "rebuilt p/t"]
    assert result.left["p"] == pytest.approx((3, 65.6))
    assert result.left["q"] == (0, 0)


def test_a_slower_machine_makes_less(evaluated: Evaluated) -> None:
    """'a' takes 50 s in place of 25, so 'b' may take 65 and 'c' 26; then 'd' ends at 70 + 26, 'e' at 93.4."""
    lengths = {"a": 25, "b": 25, "c": 10, "d": 10, "e": 9}
    result, _ = evaluated([unit(*item) for item in lengths.items()], 100, slower=2.0)
    assert rows(result) == "ace"
    assert result.left["p"] == pytest.approx((2, 2 * 35)), "each takes twice as long"


def test_what_is_here_is_not_left_and_says_nothing_of_this_machine_s_speed(
    evaluated: Evaluated, tmp_path: Path
) -> None:
    """'a' needs no time; 'c' would end at 36 + 1.3 x 2 x 24 = 98.4, were its run not that of 'a'."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "summary.json").touch()
    cells = [unit("a", 24), unit("b", 18), unit("a", 24)._replace(row="c"), unit("d", 30)]
    result, _ = evaluated(cells, 100, slower=2.0)
    assert rows(result) == "abc"
    assert result.left == {"p": (1, 60.0), "q": (0, 0.0)}


def test_an_interruption_leaves_the_checks_so_far_and_their_reports(evaluated: Evaluated) -> None:
    result, noted = evaluated([unit("a", 5), unit("interrupted", 7), unit("z", 1)], 100)
    assert (rows(result), result.interrupted) == ("a", True)
    assert noted == ["a", "rebuilt p/t"]
    assert result.left["p"] == (2, 8.0)


def test_the_data_set_that_failed_is_the_one_that_is_absent(evaluated: Evaluated) -> None:
    cells = [unit("a", 1, "dna usps"), unit("b", 1, "mnist usps"), unit("c", 1, "dna mnist")]
    result, noted = evaluated(cells, 100, absent=["usps"])
    assert noted == ["usps: nowhere to be had", "c", "rebuilt p/t"]
    assert result.absent == {"usps": "nowhere to be had"}


def test_data_that_can_not_be_had_are_tried_once(evaluated: Evaluated) -> None:
    result, noted = evaluated(
        [unit("a", 1, "usps"), unit("b", 1, "usps"), unit("c", 1, target="u"), unit("d", 1, target="u")],
        100,
        absent=["usps"],
    )
    assert noted == ["usps: nowhere to be had", "c", "d", "rebuilt p/u"]
    assert (rows(result), result.absent) == ("cd", {"usps": "nowhere to be had"})
    assert result.rebuilt == {"p/u": False}


def test_with_nothing_to_make_all_is_left_at_the_kept_speed(evaluated: Evaluated) -> None:
    result, _ = evaluated([unit("a", 50), unit("b", 30)], 100)
    assert (result.checks, result.rebuilt) == ([], {})
    assert result.left["p"] == (2, 80.0)


def test_filling_takes_the_quickest_without_a_history_first_and_keeps_what_agrees(
    evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    monkeypatch.setattr(evaluation, "keep_histories", lambda check, root, folder: kept.append(check.unit.row))
    result, _ = evaluated([unit("a", 3), unit("b", 1), unit("c", 2)], 100, fill=True)
    assert rows(result) == "bca"
    assert kept == ["b", "c", "a"]


def test_histories_of_close_numbers_are_kept_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept: list[str] = []
    monkeypatch.setattr(evaluation, "history", lambda name, folder: name)
    monkeypatch.setattr(evaluation, "add_histories", lambda new, path: kept.extend(new))
    check = Recheck(unit("a", 1, "dna dna dna"), (SAME, CLOSE, OTHER), 0.0, 1.0)
    evaluation.keep_histories(check, tmp_path, tmp_path)
    assert kept == ["a", "a1"]


# -- when numbers agree --------------------------------------------------------------------------------------

HASHES = {"data_sha256": "d", "partition_sha256": "p"}


def compared(folder: Path, ours: Mapping[str, Any], kept: Mapping[str, Any], same: str = "") -> Any:
    """Compare a run with what is kept of it; ``same`` says which of its files has the kept bytes."""
    summary = {"status": "completed", **HASHES, "spec_sha256": "s", **ours}
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "history.csv").write_text("round\n")
    line = {f"{name}_sha256": "0" for name in ("summary", "history")} | {"status": "completed", **HASHES}
    for name, file in {"summary": "summary.json", "history": "history.csv"}.items():
        if name in same:
            line[f"{name}_sha256"] = sha256_file(folder / file)
    return compare(folder, {"spec_sha256": "s", **line, **kept})


def test_equal_bytes_need_both_files(tmp_path: Path) -> None:
    numbers = (
        {"final": {"test_accuracy": 0.5, "test_loss": None}},
        {"test_accuracy": 0.5, "test_loss": math.nan},
    )
    assert compared(tmp_path, *numbers, "summary history") == (SAME, 0.0)
    for name in ("summary", "history"):
        assert compared(tmp_path, *numbers, name) == (CLOSE, 0.0)


@pytest.mark.parametrize(
    ("line", "apart"),
    [
        ({"test_accuracy": 0.25}, 1.0),
        ({"test_accuracy": 0.5, "test_loss": 0.1}, math.inf),
        ({"test_accuracy": 0.5, "status": "diverged"}, math.inf),
        ({"test_accuracy": 0.5, "data_sha256": "other"}, math.inf),
    ],
)
def test_a_kept_line_that_was_edited_is_another_one_even_with_the_hashes_of_its_files(
    line: dict[str, Any], apart: float, tmp_path: Path
) -> None:
    ours, kept = {"test_accuracy": 0.5, "test_loss": None}, {"test_loss": math.nan, **line}
    assert compared(tmp_path, {"final": ours}, kept, "summary history") == (OTHER, apart)


@pytest.mark.parametrize(
    ("ours", "kept", "outcome"),
    [
        ({"a": 0.5, "b": 2.0}, {"a": 0.5, "b": 2.0}, (CLOSE, 0.0)),
        ({"a": 0.5, "b": 2.0 * (1 + TOLERANCE / 2)}, {"a": 0.5, "b": 2.0}, (CLOSE, TOLERANCE / 2)),
        ({"a": 0.5, "b": 2.0 * (1 - 2 * TOLERANCE)}, {"a": 0.5, "b": 2.0}, (OTHER, 2 * TOLERANCE)),
        ({"a": 10001.0}, {"a": 10000.0}, (CLOSE, 1e-4)),  # which is the tolerance
        ({"a": -0.5}, {"a": -1.0}, (OTHER, 0.5)),
        ({"a": 0.0}, {"a": 0.0}, (CLOSE, 0.0)),
        ({"a": 1e-12}, {"a": 0.0}, (OTHER, 1.0)),
        ({"a": 0.5}, {"a": math.nan}, (OTHER, math.inf)),
        ({"a": 0.5}, {}, (OTHER, math.inf)),
        ({"a": None}, {"a": math.nan}, (CLOSE, 0.0)),
        (None, {"a": math.nan}, (CLOSE, 0.0)),
    ],
)
def test_numbers_agree_within_a_share_of_the_kept_one(
    ours: dict[str, Any] | None, kept: dict[str, float], outcome: tuple[str, float], tmp_path: Path
) -> None:
    assert TOLERANCE == 1e-4
    result = compared(tmp_path, {"final": ours}, kept)
    assert result == (outcome[0], pytest.approx(outcome[1], rel=1e-6))


@pytest.mark.parametrize("name", ["status", "data_sha256", "partition_sha256"])
def test_other_data_or_another_end_agree_in_nothing(name: str, tmp_path: Path) -> None:
    assert compared(tmp_path, {"final": {"a": 1.0}, name: "other"}, {"a": 1.0}) == (OTHER, math.inf)


# -- what can be checked -------------------------------------------------------------------------------------


def kept_of(made: Catalogue, target: str) -> dict[str, dict[str, Any]]:
    return {
        run.folder: {"spec_sha256": digest(run.spec), "seconds": 1.0} for run in made.needed(PAPER, target)
    }


def test_cells_whose_runs_are_all_kept_as_asked_for_can_be_checked(made: Catalogue, tmp_path: Path) -> None:
    cells = made.cells(PAPER, TABLE)
    kept = kept_of(made, TABLE)
    assert [*units(made, {PAPER: kept}, tmp_path)] == [], "its numbers are not kept"
    (tmp_path / PAPER).mkdir()
    (tmp_path / PAPER / f"{TABLE}.csv").touch()
    (tmp_path / PAPER / "fig1.csv").touch()
    assert [*units(made, {PAPER: {}}, tmp_path)] == []
    first, second, *rest = cells
    kept[cells[first][0].folder]["spec_sha256"] = "0" * 64
    del kept[cells[second][-1].folder]
    checkable = [part for part in units(made, {PAPER: kept}, tmp_path) if part.target == TABLE]
    gone = {cells[first][0].folder, cells[second][-1].folder}
    complete = [cell for cell in rest if gone.isdisjoint(run.folder for run in cells[cell])]
    assert [(part.row, part.column) for part in checkable] == complete
    assert all([*part.kept] == [kept[run.folder] for run in part.runs] for part in checkable)
    assert all((part.paper, [*part.runs]) == (PAPER, [*cells[part.row, part.column]]) for part in checkable)


def test_a_figure_is_checked_as_a_whole_and_partitions_are_not(made: Catalogue, tmp_path: Path) -> None:
    (tmp_path / PAPER).mkdir()
    kept: dict[str, dict[str, Any]] = {}
    for paper, name, about in made.targets():
        (tmp_path / paper / f"{name}.csv").touch()
        kept |= kept_of(made, name) if about.drawn or about.needs != "runs" else {}
    checkable = [part for part in units(made, {PAPER: kept}, tmp_path) if not part.row]
    drawn = [name for _, name, about in made.targets() if about.drawn and about.needs == "runs"]
    assert [part.target for part in checkable] == [name for name in drawn if made.needed(PAPER, name)]
    assert all([*part.runs] == made.needed(PAPER, part.target) for part in checkable)


def test_a_unit_says_how_long_it_took(tmp_path: Path) -> None:
    cell = Unit("p", "t", "r", "c", (), ({"seconds": 1.5}, {"seconds": 2}))
    assert cell.seconds == 3.5
    assert Recheck(cell, (SAME, CLOSE), 0, 1).agrees
    assert not Recheck(cell, (SAME, OTHER), 0, 1).agrees
    assert kept_runs(tmp_path / "runs.parquet", "cpu") == {}
    pd.DataFrame({"run": ["a"], "seconds": [1.5], "spec_sha256": ["00"]}).to_parquet(
        tmp_path / "runs.parquet"
    )
    assert kept_runs(tmp_path / "runs.parquet", "cpu")["a"]["seconds"] == 1.5
