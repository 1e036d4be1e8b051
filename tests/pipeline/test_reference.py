"""Results kept in git: compact reports and runs, gathered over sittings, and the scoreboard made of them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from pretended import catalogue, finish, one_line
from project import HOME, seal

from fedcore.base.errors import DataError, SpecError
from fedcore.base.files import sha256_file, write_text
from fedcore.execution.integrity import sealed
from pipeline.catalogue import Catalogue
from pipeline.claims.points import markdown as open_points
from pipeline.cli.lookup import summaries
from pipeline.fidelity import reference
from pipeline.fidelity import scoreboard as scoreboard_of
from pipeline.fidelity.board import board as fidelity_board
from pipeline.fidelity.evaluation import TOLERANCE
from pipeline.fidelity.reference import inserted
from pipeline.fidelity.scoreboard import CLAIMS, PICTURE, answer, markdown, points, scoreboard, write_picture
from pipeline.papers import catalogue_of, papers, published
from pipeline.reports import figures
from pipeline.reports import kept as kept_runs
from pipeline.reports.results import published_cells
from pipeline.reports.significance import FEWEST, parse_samples

NAME = "fedomw/table3_released"
PRINTED = published_cells(published("fedomw"), "table3")


@pytest.fixture(scope="module")
def made() -> Catalogue:
    return catalogue("fedomw", "paper")


def finish_cell(made: Catalogue, root: Path, row: str, column: str, off: float = 0.0, seeds: int = 3) -> None:
    mean = PRINTED[row, column].mean
    for place, run in enumerate(made.cells(*NAME.split("/"))[row, column][:seeds]):
        finish(run, root, (mean + off + (place - 1) * 0.1) / 100)


def keep(made: Catalogue, root: Path, *names: str) -> reference.Kept:
    return reference.keep(made, names or (NAME,), root, root / "kept")


def forget_histories(folder: Path) -> None:
    """Leave no history, as of runs that were kept before there were any."""
    path = folder / kept_runs.HISTORIES
    kept_runs.read_kept(path).iloc[:0].to_parquet(path)


def test_a_report_and_a_line_a_run_are_kept(made: Catalogue, tmp_path: Path) -> None:
    finish_cell(made, tmp_path, "fedomw", "dna")
    sitting = keep(made, tmp_path)
    folder = tmp_path / "kept" / "fedomw"
    assert [path.relative_to(folder).as_posix() for path in sitting.written] == [
        "table3_released.csv",
        "table3_released.md",
        "runs.parquet",
        "histories.parquet",
    ]
    table = pd.read_csv(folder / "table3_released.csv")
    filled = table[(table["row"] == "fedomw") & (table["column"] == "dna")]
    assert filled["mean"].tolist() == pytest.approx([PRINTED["fedomw", "dna"].mean])
    assert table["n"].sum() == 3
    runs = kept_runs.read_kept(folder / "runs.parquet")
    assert len(runs) == 3
    assert str(runs["best_round"].dtype) == "Int64"
    for line in runs.to_dict("records"):
        place = tmp_path / line["run"]
        assert line["summary_sha256"] == sha256_file(place / "summary.json")
        assert line["history_sha256"] == sha256_file(place / "history.csv")
        assert made.index[line["run"]].code == line["code"]


def test_a_line_has_the_last_and_the_best_accuracy(made: Catalogue, tmp_path: Path) -> None:
    run = made.cells(*NAME.split("/"))["fedomw", "dna"][0]
    finish(run, tmp_path, 0.8)
    path = tmp_path / run.folder / "summary.json"
    best = {"best": {"round": 1, "test_accuracy": 0.9}}
    path.write_text(json.dumps(json.loads(path.read_text()) | best))
    seal(path.parent, run.spec, code=run.code)
    line = reference.line(run, tmp_path)
    assert (line["test_accuracy"], line["best_round"], line["best_test_accuracy"]) == (0.8, 1, 0.9)


def test_a_table_can_be_computed_from_the_kept_histories(made: Catalogue, tmp_path: Path) -> None:
    """Each run's last accuracy gives the numbers that the table states, to the last digit."""
    for place, row in enumerate(("fedavg", "fedomw")):
        for run in made.cells(*NAME.split("/"))[row, "dna"]:
            finish(run, tmp_path, 1 / (3 + place + run.seed / 7))
    keep(made, tmp_path)
    kept = kept_runs.read_kept(tmp_path / "kept/fedomw" / kept_runs.HISTORIES)
    last = kept.groupby("run")["test_accuracy"].last()
    table = pd.read_csv(tmp_path / "kept/fedomw/table3_released.csv").set_index(["row", "column"])
    for row in ("fedavg", "fedomw"):
        runs = made.cells(*NAME.split("/"))[row, "dna"]
        scores = [100 * last[run.folder] for run in runs]
        assert table.loc[(row, "dna"), "mean"] == float(f"{sum(scores) / len(scores):.6g}")
        stated = parse_samples(str(table.loc[(row, "dna"), "values"]))
        assert [*stated.values()] == [float(f"{score:.10g}") for score in scores]


def test_histories_are_kept_digit_for_digit_whatever_the_order(made: Catalogue, tmp_path: Path) -> None:
    first, second = made.cells(*NAME.split("/"))["fedomw", "dna"][:2]
    measured = [0.1 + 0.2, 1 / 3, 5e-324]
    finish(first, tmp_path, 0.8, mmd=measured, bytes_up=[0, 2**53, 7])
    finish(second, tmp_path, 0.7, bytes_up=[0, 1, 2])
    histories = [reference.history(run.folder, tmp_path / run.folder) for run in (first, second)]
    at_once = kept_runs.add_histories(histories, tmp_path / "one.parquet")
    in_turn = tmp_path / "other.parquet"
    for history in (histories[1], histories[0].assign(mmd=0.0), histories[0]):
        kept_runs.add_histories([history], in_turn)
    assert at_once.read_bytes() == in_turn.read_bytes()
    kept = kept_runs.read_kept(at_once)
    of_first = kept[kept["run"] == first.folder]
    assert of_first["mmd"].tolist() == measured
    assert of_first["bytes_up"].tolist() == [0, 2**53, 7]
    assert of_first["round"].tolist() == [0, 1, 2]
    assert kept.loc[kept["run"] == second.folder, "mmd"].isna().all()
    assert len(kept) == 6
    runs = [pd.DataFrame([reference.line(run, tmp_path)]) for run in (first, second)]
    both = kept_runs.add_runs(pd.concat(runs), tmp_path / "both.parquet")
    for run in reversed(runs):
        kept_runs.add_runs(run, tmp_path / "turns.parquet")
    assert both.read_bytes() == (tmp_path / "turns.parquet").read_bytes()


def test_the_histories_that_are_here_end_in_what_is_kept_of_their_runs() -> None:
    paths = sorted((HOME / kept_runs.REFERENCE).glob(f"*/{kept_runs.HISTORIES}"))
    assert paths
    for path in paths:
        runs = kept_runs.read_kept(path.with_name(kept_runs.RUNS)).set_index("run")
        last = kept_runs.read_kept(path).groupby("run").tail(1).set_index("run").sort_index()
        stated = runs.loc[last.index]
        assert (last["round"] == stated["rounds"]).all()
        ended = stated["status"] != "diverged"  # a server's state can be infinite where the model is finite
        assert ended.mean() > 0.5
        for name in {*last} & {*stated} - {"processor"}:
            held = last[name].where(ended)
            pd.testing.assert_series_equal(held, stated[name], check_dtype=False, rtol=TOLERANCE)


def test_hours_on_one_core_leave_out_runs_of_a_gpu(tmp_path: Path) -> None:
    days = [f"2026-11-2{day}T10:00" for day in (7, 5, 6)]
    runs = pd.DataFrame({"run": [*"abc"], "seconds": [3600.0, 7200.0, 0.0], "finished": days})
    runs = runs.assign(commit="c", machine="m", device=["cpu", "cuda", "cpu"])
    (tmp_path / "p").mkdir()
    runs.to_parquet(tmp_path / "p" / kept_runs.RUNS)
    assert "\n| p | 3 | 1 | 1.00 | 2026-11-25 to 2026-11-27 |" in reference.contents(tmp_path)


@pytest.mark.parametrize("size", [0, 1000])
def test_a_damaged_file_of_runs_is_refused_in_one_line(size: int, tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    path.write_bytes((kept_runs.REFERENCE / "comfed" / kept_runs.RUNS).read_bytes()[:size])
    with pytest.raises(DataError, match=r"^[^\n]+some\.parquet: damaged, expected a Parquet file: [^\n]+$"):
        kept_runs.read_kept(path)


def test_a_second_sitting_adds_and_never_takes_away(made: Catalogue, tmp_path: Path) -> None:
    elsewhere, complete = tmp_path / "elsewhere", tmp_path / "both"
    for row, place, seeds in (("fedomw", tmp_path, 3), ("fedavg", tmp_path, 2), ("fedavg", elsewhere, 3)):
        finish_cell(made, place, row, "dna", seeds=seeds)
    for run in made.cells(*NAME.split("/"))["fedavg", "dna"][:2]:
        shutil.rmtree(elsewhere / run.folder)
    finish_cell(made, complete, "fedomw", "dna")
    finish_cell(made, complete, "fedavg", "dna")
    keep(made, tmp_path)
    kept = tmp_path / "kept"
    reference.keep(made, [NAME], elsewhere, kept)
    assert len(kept_runs.read_kept(kept / "fedomw" / "runs.parquet")) == 6
    at_once = reference.keep(made, [NAME], complete, tmp_path / "at once")
    reports = [path for path in at_once.written if path.stem == "table3_released"]
    assert {path.suffix for path in reports} == {".csv", ".md"}
    for path in reports:
        assert (kept / "fedomw" / path.name).read_bytes() == path.read_bytes()


def test_sittings_leave_no_trace_in_the_digits(tmp_path: Path) -> None:
    """Relative to FedAvg, FedProx's equal numbers are no change, whichever sitting either comes from."""
    radfed = catalogue("radfed", "paper")
    cells = radfed.cells("radfed", "table3")
    for row, root in (("fedavg", tmp_path / "a"), ("fedprox", tmp_path / "b")):
        for place, run in enumerate(cells[row, "mnist_1"]):
            finish(run, root, 0.9 + 1 / (7 * (place + 100)))
    for name in ("a", "b", "a", "b"):
        reference.keep(radfed, ["radfed/table3"], tmp_path / name, tmp_path / "kept")
    table = pd.read_csv(tmp_path / "kept/radfed/table3.csv").set_index(["row", "column"])
    assert table.loc[("fedprox", "mnist_1"), "mean"] == 0
    assert table.loc[("fedprox", "avg"), "data_state"] == "synthetic"


def test_numbers_of_other_specifications_are_not_kept_on(made: Catalogue, tmp_path: Path) -> None:
    finish_cell(made, tmp_path, "fedomw", "dna")
    keep(made, tmp_path)
    path = tmp_path / "kept" / "fedomw" / "table3_released.csv"
    frame = pd.read_csv(path)
    frame["specs"] = frame["specs"].str.replace(r"^\S+", "0123456789ab", regex=True)
    frame.to_csv(path, index=False)
    runs = tmp_path / "kept" / "fedomw" / "runs.parquet"
    kept_runs.read_kept(runs).assign(spec_sha256="0123456789ab").to_parquet(runs)
    finish_cell(made, tmp_path / "b", "fedavg", "dna")
    reference.keep(made, [NAME], tmp_path / "b", tmp_path / "kept")
    table = pd.read_csv(path)
    assert table[table["n"] > 0]["row"].tolist() == ["fedavg"]


def test_a_table_takes_kept_runs_that_it_shares_with_another(made: Catalogue, tmp_path: Path) -> None:
    """FedOMW's runs of Table 3 are rows of Table 5 too; a figure needs the runs themselves."""
    finish_cell(made, tmp_path / "a", "fedomw", "satimage")
    reference.keep(made, [NAME], tmp_path / "a", tmp_path / "kept")
    other = ["fedomw/table5_released", "fedomw/fig1_released"]
    sitting = reference.keep(made, other, tmp_path / "b", tmp_path / "kept")
    assert {*sitting.left} == {"fedomw/fig1_released"}
    first, second = (
        pd.read_csv(tmp_path / "kept/fedomw" / f"{name}_released.csv").query("n > 0")
        for name in ("table3", "table5")
    )
    columns = ["row", "column", "mean", "std", "n", "specs", "values"]
    assert len(second) == 1
    assert first[columns].to_numpy().tolist() == second[columns].to_numpy().tolist()


def test_a_number_stays_that_a_kept_run_has_no_history_for(tmp_path: Path) -> None:
    """Runs that were kept before there were histories count with the numbers of their table."""
    comfed, kept = catalogue("comfed", "paper"), tmp_path / "kept"

    def values() -> list[float]:
        table = pd.read_csv(path, dtype={"column": str}).set_index(["row", "column"])
        return [*parse_samples(one_line(table, "fedavg", "2000")["values"]).values()]

    first, second, _ = comfed.cells("comfed", "table4")["fedavg", "2000"]
    finish(first, tmp_path / "a", 0.3)
    reference.keep(comfed, ["comfed/table4"], tmp_path / "a", kept)
    path = kept / "comfed" / "table4.csv"
    forget_histories(kept / "comfed")
    finish(second, tmp_path / "b", 0.4)
    assert not reference.keep(comfed, ["comfed/table4"], tmp_path / "b", kept).left
    assert values() == [30, 40]
    path.unlink()
    assert not reference.keep(comfed, ["comfed/table4"], tmp_path / "b", kept).left
    assert values() == [40]


def test_a_diverged_run_of_another_sitting_still_counts(made: Catalogue, tmp_path: Path) -> None:
    finish_cell(made, tmp_path, "fedomw", "dna", seeds=2)
    finish(made.cells(*NAME.split("/"))["fedomw", "dna"][2], tmp_path, None)
    keep(made, tmp_path)
    finish_cell(made, tmp_path / "b", "fedavg", "dna", seeds=1)
    reference.keep(made, [NAME], tmp_path / "b", tmp_path / "kept")
    table = pd.read_csv(tmp_path / "kept" / "fedomw" / "table3_released.csv").set_index(["row", "column"])
    assert one_line(table[["n", "diverged"]], "fedomw", "dna").tolist() == [2, 1]
    assert one_line(table[["n", "diverged"]], "fedavg", "dna").tolist() == [1, 0]


def test_runs_that_are_kept_need_not_be_made_again(made: Catalogue, tmp_path: Path) -> None:
    finish_cell(made, tmp_path, "fedomw", "dna", seeds=2)
    everything = summaries(made, NAME, (), (), (), tmp_path / "kept")
    keep(made, tmp_path)
    finished = {f"{run.folder}/summary.json" for run in made.cells(*NAME.split("/"))["fedomw", "dna"][:2]}
    assert {*everything} - {*summaries(made, NAME, (), (), (), tmp_path / "kept")} == finished
    assert len(everything) == 54


def test_what_has_no_run_is_left_out_with_the_reason(made: Catalogue, tmp_path: Path) -> None:
    sitting = keep(made, tmp_path, NAME, "fedomw/fig1")
    assert sitting.left == dict.fromkeys((NAME, "fedomw/fig1"), "no run of it was made")
    assert not (tmp_path / "kept").exists()


def test_a_drawing_needs_all_its_runs(made: Catalogue, tmp_path: Path) -> None:
    for run in made.needed("fedomw", "fig2")[1:]:
        finish(run, tmp_path, 0.8)
    (why,) = keep(made, tmp_path, "fedomw/fig2").left.values()
    assert why.startswith("a figure needs all of its")


def test_curves_need_a_run_each_and_say_how_many_there_are(made: Catalogue, tmp_path: Path) -> None:
    cells = made.cells("fedomw", "fig1")
    for runs in list(cells.values())[1:]:
        finish(runs[0], tmp_path, 0.8)
    assert keep(made, tmp_path, "fedomw/fig1").left == {
        "fedomw/fig1": f"1 of {len(cells)} curves have no run"
    }
    finish(next(iter(cells.values()))[0], tmp_path, 0.8)
    written = keep(made, tmp_path, "fedomw/fig1").written
    assert {path.name for path in written} >= {"fig1.csv", "fig1.svg", "fig1.caption.md"}
    kept = pd.read_csv(tmp_path / "kept/fedomw/fig1.csv")
    assert kept[["n", "seeds"]].drop_duplicates().to_numpy().tolist() == [[1, 3]]
    assert ">test accuracy (%)</text>" in (tmp_path / "kept/fedomw/fig1.svg").read_text(encoding="utf-8")
    caption = (tmp_path / "kept/fedomw/fig1.caption.md").read_text(encoding="utf-8")
    assert f"{len(cells)} of {3 * len(cells)} runs are drawn." in caption


def test_curves_are_drawn_from_kept_histories_too(made: Catalogue, tmp_path: Path) -> None:
    cells = made.cells("fedomw", "fig1")
    for runs in cells.values():
        for run, place, accuracy in zip(runs, "ab", (0.7, 0.8), strict=False):
            finish(run, tmp_path / place, accuracy)
    for place in "ab":
        reference.keep(made, ["fedomw/fig1"], tmp_path / place, tmp_path / "kept")
    last = pd.read_csv(tmp_path / "kept/fedomw/fig1.csv").groupby("row").tail(1)
    assert last["mean"].tolist() == pytest.approx([75] * len(cells))
    caption = (tmp_path / "kept/fedomw/fig1.caption.md").read_text(encoding="utf-8")
    assert f"{2 * len(cells)} of {3 * len(cells)} runs are drawn." in caption


def test_a_figure_of_more_runs_is_kept(made: Catalogue, tmp_path: Path) -> None:
    for runs in made.cells("fedomw", "fig1").values():
        finish(runs[0], tmp_path, 0.7)
        for place, run in enumerate(runs):
            finish(run, tmp_path / "more", 0.8 + place / 100)
    reference.keep(made, ["fedomw/fig1"], tmp_path / "more", tmp_path / "kept")
    before = (tmp_path / "kept/fedomw/fig1.csv").read_text()
    forget_histories(tmp_path / "kept/fedomw")
    sitting = keep(made, tmp_path, "fedomw/fig1")
    assert sitting.left == {"fedomw/fig1": "the figure that is kept is of more runs"}
    assert (tmp_path / "kept/fedomw/fig1.csv").read_text() == before


def test_a_figure_keeps_what_lines_of_kept_runs_lack(tmp_path: Path) -> None:
    rfedavg = catalogue("rfedavg", "paper")
    timing = {"machine": "m", "processors": 1, "device": "cpu", "threads": 1, "median_round_seconds": 2.0}
    for run in rfedavg.needed("rfedavg", "fig10"):
        write_text(tmp_path / run.folder / "timing.json", json.dumps(timing))
        finish(run, tmp_path, 0.8)
    first = reference.keep(rfedavg, ["rfedavg/fig10"], tmp_path, tmp_path / "kept")
    assert not first.left
    sitting = reference.keep(rfedavg, ["rfedavg/fig10"], tmp_path / "empty", tmp_path / "kept")
    assert sitting == reference.Kept((), {"rfedavg/fig10": "the figure that is kept is of more runs"})


def test_a_report_whose_numbers_are_kept_is_left_as_it_is(made: Catalogue, tmp_path: Path) -> None:
    finish_cell(made, tmp_path, "fedomw", "dna")
    assert "table3_released.md" in {path.name for path in keep(made, tmp_path).written}
    again = keep(made, tmp_path)
    assert [path.name for path in again.written] == ["runs.parquet", "histories.parquet"]
    assert not again.left


def test_a_report_whose_words_have_changed_is_written_again(made: Catalogue, tmp_path: Path) -> None:
    finish_cell(made, tmp_path, "fedomw", "dna")
    keep(made, tmp_path)
    page = tmp_path / "kept" / "fedomw" / "table3_released.md"
    words = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r"[Cc]ommit \w+", "Commit 0123456789", words), encoding="utf-8")
    assert page not in keep(made, tmp_path).written
    page.write_text(words.replace("Scale: paper", "Size: paper"), encoding="utf-8")
    assert page in keep(made, tmp_path).written
    assert page.read_text(encoding="utf-8") == words


def test_a_table_of_more_partitions_is_kept(tmp_path: Path) -> None:
    radfed = catalogue("radfed", "paper")
    kept = tmp_path / "kept" / "radfed" / "table1.csv"
    kept.parent.mkdir(parents=True)
    shutil.copy(HOME / "reports/reference/radfed/table1.csv", kept)
    (run, *_) = radfed.cells("radfed", "table1")["mnist_1", "c_score"]
    folder = tmp_path / run.partition
    write_text(folder / "partition.npz", "rows of clients")
    statistics: dict[str, Any] = {
        "partition.npz_sha256": sha256_file(folder / "partition.npz"),
        "c_score": 0.5,
    }
    statistics["sizes"] = dict.fromkeys(("min", "max", "mean", "std", "total"), 3.0)
    write_text(folder / "stats.json", json.dumps(sealed(statistics)))
    before = kept.read_text()
    sitting = reference.keep(radfed, ["radfed/table1"], tmp_path, tmp_path / "kept")
    assert sitting.left["radfed/table1"] == "the table that is kept is of more partitions"
    assert kept.read_text() == before


def test_a_changed_result_is_refused(made: Catalogue, tmp_path: Path) -> None:
    finish_cell(made, tmp_path, "fedomw", "dna")
    run = made.cells(*NAME.split("/"))["fedomw", "dna"][0]
    (tmp_path / run.folder / "history.csv").write_text("round\n0\n")
    with pytest.raises(DataError, match="seed0"):
        keep(made, tmp_path)


def test_the_scoreboard_counts_what_was_measured(made: Catalogue, tmp_path: Path) -> None:
    for row, off in (("fedavg", 0.0), ("fedprox", 0.1), ("fedomw", 0.9)):
        finish_cell(made, tmp_path, row, "dna", off)
        finish_cell(made, tmp_path, row, "letter", 20.0 if row == "fedavg" else 0.0)
    finish_cell(made, tmp_path, "fedavg", "usps", seeds=2)
    keep(made, tmp_path)
    lines = scoreboard(tmp_path / "kept").to_dict("records")
    released, paper = (
        next(line for line in lines if (line["paper"], line["reading"]) == ("fedomw", reading))
        for reading in ("released", "paper")
    )
    assert (released["measured"], released["near"], released["columns"]) == (6, 5, 2)
    assert (released["in_part"], released["near_in_part"]) == (1, 1)
    assert (released["same_best"], released["same_order"]) == (1, 1)
    assert released["mean_difference"] == pytest.approx((0.1 + 0.9 + 20) / 6)
    assert paper["measured"] == 0
    page = inserted(
        "above\n<!-- x -->\nold\n<!-- end of x -->\nbelow\n", "x", markdown(scoreboard(tmp_path / "kept"))
    )
    dots = points(tmp_path / "kept")
    assert dict(dots.groupby("target")["kind"].value_counts()) == {
        ("table3_released", "near"): 5,
        ("table3_released", "far"): 1,
        ("table3_released", "near, fewer seeds"): 1,
    }
    numbers, svg, *claims = write_picture(tmp_path / "kept")
    assert [path.name for path in claims] == ["claims_by_reading.csv", "claims_by_reading.svg"]
    first = svg.read_bytes()
    write_picture(tmp_path / "kept")
    assert svg.read_bytes() == first
    assert len(pd.read_csv(numbers)) == 7
    assert "| fedomw | authors' code |" in page
    assert page.startswith("above\n")
    assert page.endswith("\nbelow\n")
    assert "old" not in page
    with pytest.raises(DataError, match="<!-- y -->"):
        inserted(page, "y", "")


@cache
def kept_board() -> pd.DataFrame:
    """Return the scoreboard of what is kept."""
    return scoreboard(HOME / kept_runs.REFERENCE)


@pytest.mark.parametrize(
    ("path", "name", "part"),
    [
        (
            "docs/fidelity.md",
            "answer",
            lambda folder: answer(kept_board(), pd.read_csv(folder / f"{CLAIMS}.csv")),
        ),
        ("docs/fidelity.md", "scoreboard", lambda folder: markdown(kept_board())),
        ("docs/readings.md", "readings", lambda folder: open_points(papers())),
        ("docs/fidelity.md", "headlines", lambda folder: reference.decided(folder, "headlines")),
        ("docs/benchmark.md", "decisions", lambda folder: reference.decided(folder, "decisions")),
        ("reports/reference/README.md", "kept", reference.contents),
    ],
)
def test_pages_show_the_reference_that_is_here(path: str, name: str, part: Callable[[Path], str]) -> None:
    page = (HOME / path).read_text(encoding="utf-8")
    assert inserted(page, name, part(HOME / kept_runs.REFERENCE)) == page


def test_kept_reports_show_no_test_of_fewer_than_five_pairs() -> None:
    for path in sorted((HOME / kept_runs.REFERENCE).rglob("*.csv")):
        kept = pd.read_csv(path)
        tested = kept[kept["p_best"].notna()] if "p_best" in kept else kept.iloc[:0]
        assert all(len(parse_samples(text)) >= FEWEST for text in tested.get("values", [])), path
        if not len(tested) and (page := path.with_suffix(".md")).exists():
            assert "<u>" not in page.read_text("utf-8"), page
        if "friedman" in kept:
            few = kept.loc[kept["column"].str.startswith("rank-"), "n"].min() < FEWEST
            assert not (few and kept["p"].notna().any()), path


def test_the_pictures_show_the_reference_that_is_here(tmp_path: Path) -> None:
    kept = HOME / kept_runs.REFERENCE
    measured = points(kept)
    assert measured.to_csv(index=False) == (kept / f"{PICTURE}.csv").read_text("utf-8")
    for name, figure_of, frame in (
        (PICTURE, scoreboard_of.figure_of, measured),
        (CLAIMS, scoreboard_of.figure_of_claims, pd.read_csv(kept / f"{CLAIMS}.csv")),
    ):
        with figures.styled(columns=2):
            figures.save(figure_of(frame), {"svg": tmp_path / "drawn.svg"})
        assert (tmp_path / "drawn.svg").read_bytes() == (kept / f"{name}.svg").read_bytes(), name


def test_runs_of_some_cells_are_listed() -> None:
    demo = catalogue_of(HOME / "params.yaml", "demo")
    everything = summaries(demo, "reports/fedomw/table3.csv", (), (), ())
    assert len(everything) == len(demo.needed("fedomw", "table3"))
    some = summaries(demo, "reports/fedomw/table3.csv", ["FedOMW"], ["dna", "letter"], [1])
    assert len(some) == 2
    assert {path.split("/")[-2] for path in some} == {"seed1"}
    assert set(some) < set(everything)
    with pytest.raises(SpecError, match="no run in the rows"):
        summaries(demo, "reports/fedomw/table3.csv", (), (), [99])


SIZES = {"fedomw/table1", "fedavgr/table1", "fedomw/theorem2"}
NUMBERS = ["eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"]
NUMBERS += ["nineteen", "twenty", "twenty-one", "twenty-two", "twenty-three", "twenty-four"]


def test_the_pages_say_what_the_kept_benchmark_shows() -> None:
    study = yaml.safe_load((HOME / "studies/benchmark/benchmark.yaml").read_text(encoding="utf-8"))
    kept, families = HOME / "reports/reference/benchmark", study["benchmark"]["families"].values()
    board, runs = pd.read_csv(kept / "board.csv").set_index("row"), kept_runs.read_kept(kept / kept_runs.RUNS)
    methods = board.loc[[method for family in families for method in family]]
    better, sets = methods.query("verdict == 'better'"), NUMBERS[int(board["sets"].max()) - 11]
    finished = {*pd.read_csv(kept / "matrix.csv").dropna(subset=["mean"])["column"]}
    begun = ~runs["run"].str.split("/").str[3].isin({f"bench-{workload}" for workload in finished})
    page, front = (
        " ".join((HOME / name).read_text(encoding="utf-8").split())
        for name in ("docs/benchmark.md", "README.md")
    )
    for text in (page, front):
        assert f"{NUMBERS[len(finished) - 11].capitalize()} of " in text
        assert f"{len(better)} of {len(methods)} methods" in text
        assert f"by {better['effect'].min():.1f} to {better['effect'].max():.1f} points" in text
        assert f" on {sets} data sets" in text
    assert f"{(~begun).sum():,} runs" in page
    assert f"{begun.sum()} of 704 trials are made" in page
    fedadc = board.loc["fedadc"]
    assert better["effect"].idxmax() == fedadc.name
    interval = f"(+{fedadc['low']:.2f} to +{fedadc['high']:.2f})".replace("+0", "+")
    assert f"FedADC +{fedadc['effect']:.2f} {interval}" in page
    p = [f"{value:.3f}".removeprefix("0") for value in board.loc[["fedadc", "fedavgm"], "p"]]
    assert f"FedADC's p is {p[0]}, and FedAvgM's {p[1]}" in page


def test_the_front_page_counts_what_is_kept() -> None:
    kept, text = HOME / kept_runs.REFERENCE, (HOME / "README.md").read_text(encoding="utf-8")
    board = kept_board().query("reading == 'paper'").set_index("paper")[["published", "measured", "near"]]
    claims = pd.read_csv(kept / f"{CLAIMS}.csv")
    for paper, numbers in board.iterrows():
        kinds = claims["kind"][claims["paper"] == paper]
        held, failed = (
            int(kinds.isin(decided).sum()) for decided in (["all", "holds", "test"], ["none", "fails"])
        )
        cells = " | ".join(map(str, [*numbers, f"{held} / {failed} / {len(kinds) - held - failed}"]))
        assert re.search(rf"^\| `{paper}` \| .* \| {re.escape(cells)} \|$", text, re.MULTILINE), cells
    published, measured, near = board.sum()
    assert f"{measured} of {published} printed numbers are measured so far.\n{near} of these are near" in text
    near_cells = fidelity_board("paper", kept).cells.query("verdict == 'agrees'")
    sizes = near_cells[(near_cells["paper"] + "/" + near_cells["target"]).isin(SIZES)]
    assert f"({len(sizes)} of the {near} are sizes of data sets and constants, not scores)" in text
    runs = pd.concat([kept_runs.read_kept(kept / paper / kept_runs.RUNS) for paper in papers()])
    assert f"{(runs['device'] == 'cuda').sum()} of {len(runs):,} paper runs were made on a GPU" in text
