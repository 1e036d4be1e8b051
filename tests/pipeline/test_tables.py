"""Tables: golden renderings of fixed runs, with ties, missing, diverged and single runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from project import PLUGGED, seal

from fedcore.algorithms import example
from fedcore.base.errors import DataError
from fedcore.base.files import canonical_json, sha256_text
from pipeline.catalogue.targets import Column, Paper, PlannedRun, Query
from pipeline.papers import published
from pipeline.reports import agreement, render
from pipeline.reports.captions import Caption
from pipeline.reports.grid import Grid, PrintedCell
from pipeline.reports.results import read, verdict
from pipeline.reports.tables import COLUMNS, Table, arrange, tidy

GOLDEN = Path(__file__).with_name("golden")
COLUMNS_OF = (Column("easy", "Sim 100%", "MNIST"), Column("hard", "Sim 0%", "MNIST"))
TABLE = Table(
    title="Test accuracy & more",
    published="Table I",
    columns=lambda params: COLUMNS_OF,
    query=lambda row, column: Query("regime", "mnist", column, row),
)
PAPER = Paper(title="A paper", citation="A. Author, 2023", datasets={}, targets={"table1": TABLE})
SEEDS = (0, 1, 2)


def run(row: str, column: str, seed: int, scale: str = "demo", variant: str = "paper") -> PlannedRun:
    spec = {"row": row, "column": column, "seed": seed, "variant": variant, **PLUGGED}
    return PlannedRun(
        paper="toy",
        scale=scale,
        setting=f"regime-mnist-{column}",
        dataset="mnist",
        algorithm=row,
        method=f"{row}-00000000",
        seed=seed,
        spec=spec,
        division=f"mnist-{column}-0",
        recipe=example("fedavg"),
    )


def write(root: Path, made: PlannedRun, accuracy: float | None) -> None:
    folder = root / made.folder
    folder.mkdir(parents=True, exist_ok=True)
    summary = {
        "status": "completed" if accuracy is not None else "diverged",
        "final": None
        if accuracy is None
        else {"test_accuracy": accuracy, "train_loss": None, "test_loss": 0.1},
        "spec_sha256": sha256_text(canonical_json(made.spec)),
        "data_note": "5 + 5 images",
        "data_state": "subset",
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    seal(folder, made.spec)


def table_of(
    root: Path, accuracies: dict[tuple[str, str], list[float | str | None]], scale: str = "demo"
) -> tuple[pd.DataFrame, Grid]:
    """Build a table; an accuracy of None is a diverged run, "missing" one that did not run."""
    cells = {}
    for (row, column), values in accuracies.items():
        runs = [run(row, column, seed, scale) for seed in SEEDS[: len(values)]]
        for planned, value in zip(runs, values, strict=True):
            if value != "missing":
                write(root, planned, value if isinstance(value, float) else None)
        cells[row, column] = runs
    (root / "published.csv").write_text(
        "target,row,column,mean,std\ntable1,fedavg,easy,99.28,0.01\ntable1,fedavg,hard,97.07,\n"
    )
    frame = tidy("toy", "table1", TABLE, read(cells, root), root / "published.csv", COLUMNS_OF)
    return frame, arrange(frame, TABLE, COLUMNS_OF, PAPER, origin="Commit abc1234567, newest run 2023-01-02.")


ONE_SEED: dict[tuple[str, str], list[float | str | None]] = {
    ("fedavg", "easy"): [0.991],
    ("fedavg", "hard"): [0.5],
    ("fedprox", "easy"): [0.9],
    ("fedprox", "hard"): [0.6],
}
FULL: dict[tuple[str, str], list[float | str | None]] = {
    ("fedavg", "easy"): [0.991, 0.992, 0.993],
    ("fedavg", "hard"): [0.5, 0.6, 0.7],
    ("fedprox", "easy"): [0.99204, 0.99196, 0.992],
    ("fedprox", "hard"): [0.9, None, 0.8],
    ("rfedavg_plus", "easy"): [0.98, "missing", 0.97],
    ("rfedavg_plus", "hard"): [None, None, None],
    ("mine_&_only", "easy"): ["missing", "missing", "missing"],
    ("mine_&_only", "hard"): [0.65, 0.61, 0.63],
}


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("full.md", render.markdown),
        ("full.html", render.html),
        ("full.tex", render.latex),
        ("full.standalone.tex", render.standalone),
    ],
)
def test_a_table_with_ties_missing_and_diverged_runs(tmp_path: Path, name: str, form: object) -> None:
    _, grid = table_of(tmp_path, FULL)
    compare(name, form(grid))  # type: ignore[operator]


def test_the_tidy_file_has_a_line_a_cell(tmp_path: Path) -> None:
    frame, _ = table_of(tmp_path, FULL)
    assert tuple(frame.columns) == COLUMNS
    assert len(frame) == len(FULL)
    compare("full.csv", frame.to_csv(index=False, lineterminator="\n", float_format="%.6g"))


def test_an_average_that_lacks_a_column_is_missing(tmp_path: Path) -> None:
    """It has runs, but its mean would be another one."""
    frame, _ = table_of(tmp_path, ONE_SEED)
    hard = (frame["row"] == "fedavg") & (frame["column"] == "hard")
    frame.loc[hard, ["mean", "difference", "seeds"]] = float("nan"), float("nan"), 3
    grid = arrange(frame, TABLE, COLUMNS_OF, PAPER, origin="Commit abc1234567, newest run 2023-01-02.")
    cells = dict(grid.rows)["FedAvg"]
    assert (cells[1].mean, cells[1].mark) == ("–", "")
    assert cells[1].remark.startswith("1 of 3 runs")


def test_one_seed_has_no_spread(tmp_path: Path) -> None:
    _, grid = table_of(tmp_path, ONE_SEED, "quick")
    text = render.markdown(grid)
    compare("one_seed.md", text)
    assert "One seed (0)" in text
    assert "Test accuracy &amp; more (%), after the last round.\n\n|" in text


def compare(name: str, text: str) -> None:
    """Compare with the golden file; write the new text beside it when they differ."""
    path = GOLDEN / name
    if not path.exists() or path.read_text() != text:
        (GOLDEN / "new").mkdir(parents=True, exist_ok=True)
        (GOLDEN / "new" / name).write_text(text)
    assert path.exists(), f"look at tests/pipeline/golden/new/{name} and move it up if it is right"
    assert text == path.read_text(), f"see tests/pipeline/golden/new/{name}"


def test_bold_is_for_the_best_as_printed_and_for_complete_cells_only(tmp_path: Path) -> None:
    _, grid = table_of(tmp_path, FULL)
    bold = {(label, c) for label, cells in grid.rows for c, cell in enumerate(cells) if cell.best}
    assert bold == {("FedAvg", 0), ("FedProx", 0), ("mine_&_only", 1)}


def test_a_row_that_does_not_compete_is_not_bold_where_it_ties(tmp_path: Path) -> None:
    frame, _ = table_of(tmp_path, FULL)
    rival = frame[frame["row"] == "fedavg"].assign(row="scaffold", mean=1.0, values="p/seed0=1 p/seed1=1")
    grid = arrange(
        pd.concat([frame, rival]), replace(TABLE, apart=lambda row: row == "fedprox"), COLUMNS_OF, PAPER
    )
    assert {label for label, (easy, _) in grid.rows if easy.best} == {"FedAvg"}


def test_a_cell_without_a_rival_is_not_bold(tmp_path: Path) -> None:
    frame, _ = table_of(tmp_path, FULL)
    grid = arrange(frame[frame["row"] == "fedavg"], TABLE, COLUMNS_OF, PAPER)
    assert not any(cell.best for _, cells in grid.rows for cell in cells)
    assert "Bold" not in grid.caption.text


def test_a_row_that_does_not_compete_is_no_rival(tmp_path: Path) -> None:
    frame, _ = table_of(tmp_path, FULL)
    two = frame[frame["row"].isin(["fedavg", "fedprox"])]
    grid = arrange(two, replace(TABLE, apart=lambda row: row == "fedprox"), COLUMNS_OF, PAPER)
    assert not any(cell.best for _, cells in grid.rows for cell in cells)


def test_incomplete_cells_say_so(tmp_path: Path) -> None:
    _, grid = table_of(tmp_path, FULL)
    cells = {(label, c): cell for label, row in grid.rows for c, cell in enumerate(row)}
    assert cells["FedProx", 1].mark == "‡"
    assert cells["rFedAvg+", 0].mark == "†"
    assert cells["rFedAvg+", 1].mean == "diverged"
    assert cells["mine_&_only", 0].mean == "–"
    assert "† fewer runs than asked for, never bold. –: not measured." in grid.caption.text
    assert cells["rFedAvg+", 1].mark == "‡"
    sentence = (
        "‡ Without diverged runs: FedProx, MNIST Sim 0% (1 of 3 runs); rFedAvg+, MNIST Sim 0% (3 of 3 runs)."
    )
    assert sentence in grid.caption.text


def test_marks_that_are_not_used_are_not_explained(tmp_path: Path) -> None:
    _, grid = table_of(tmp_path, {("fedavg", "easy"): [0.1, 0.2], ("fedavg", "hard"): [0.1, 0.2]})
    assert "†" not in grid.caption.text
    assert "‡" not in grid.caption.text


def test_a_caption_names_what_ran(tmp_path: Path) -> None:
    _, grid = table_of(tmp_path, FULL)
    for part in (
        "over 2 to 3 runs a cell (seeds 0, 1, 2)",
        "Scale: demo. Variant: paper.",
        "MNIST: 5 + 5 images (subset)",
        "Table I of A. Author, 2023, computed anew.",
    ):
        assert part in grid.caption.text
    assert "SCAFFOLD" not in render.html(grid)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        ("demo", "Demo scale: not a reproduction."),
        ("quick", "Quick scale: not a reproduction."),
        ("paper", ""),
    ],
)
def test_reduced_scales_are_watermarked(tmp_path: Path, scale: str, expected: str) -> None:
    frame, grid = table_of(tmp_path, {("fedavg", "easy"): [0.5], ("fedavg", "hard"): [0.5]}, scale)
    assert grid.caption.watermark == expected
    for form in (render.markdown, render.html, render.latex):
        assert ("not a reproduction" in form(grid)) == bool(expected)
    assert all(("not tested" in text) == bool(expected) for text in frame["verdict"])


@pytest.mark.parametrize(
    ("difference", "mean", "std", "unit", "expected"),
    [
        (0.9, 90.0, 0.01, "percent", "agrees"),
        (-1.0, 90.0, float("nan"), "percent", "agrees"),
        (1.1, 90.0, 0.01, "relative_percent", "differs"),
        (-5.0, 90.0, 3.0, "percent", "agrees"),
        (6.1, 90.0, 3.0, "percent", "differs"),
        (float("nan"), 90.0, 1.0, "percent", ""),
        (0.9, 2.0, float("nan"), "mmd", "differs"),  # a point is no margin here: 5% of 2 is .1
        (0.1, 2.0, float("nan"), "mmd", "agrees"),
        (-30.0, 1000.0, 10.0, "bytes", "differs"),
        (-20.0, 1000.0, 10.0, "bytes", "agrees"),
        (0.0, 5.0, 0.0, "count", "agrees"),
    ],
)
def test_verdicts_know_units(difference: float, mean: float, std: float, unit: str, expected: str) -> None:
    compared = agreement.Agreement(mean + difference, mean, std, unit)
    assert verdict(compared, "paper") == expected
    assert verdict(compared, "paper", part_of_data=True) == (expected and "on a part of the data")


@pytest.mark.parametrize(
    ("what", "change"), [("scales", {"scale": "quick"}), ("variants", {"variant": "released"})]
)
def test_a_table_never_mixes(tmp_path: Path, what: str, change: dict[str, str]) -> None:
    runs = [run("fedavg", "easy", 0), run("fedavg", "easy", 1, **change)]
    with pytest.raises(DataError, match=f"one table can't mix {what}"):
        tidy("toy", "table1", TABLE, read({("fedavg", "easy"): runs}, tmp_path), published("rfedavg"))


def test_a_summary_of_another_specification_is_refused(tmp_path: Path) -> None:
    planned = run("fedavg", "easy", 0)
    write(tmp_path, planned, 0.5)
    other = replace(planned, spec={**planned.spec, "lr": 1.0})
    with pytest.raises(DataError, match=r"summary\.json: made by another specification"):
        tidy("toy", "table1", TABLE, read({("fedavg", "easy"): [other]}, tmp_path), published("rfedavg"))


def test_a_damaged_summary_is_one_line(tmp_path: Path) -> None:
    planned = run("fedavg", "easy", 0)
    write(tmp_path, planned, 0.5)
    (tmp_path / planned.folder / "summary.json").write_text("{")
    with pytest.raises(DataError, match=r"seed0: summary\.json is changed .*; delete the folder and build"):
        tidy("toy", "table1", TABLE, read({("fedavg", "easy"): [planned]}, tmp_path), published("rfedavg"))


def test_tex_is_made_harmless() -> None:
    assert render.tex(r"50% & a_b {c} $ # \x ~ ^ ±") == (
        r"50\% \& a\_b \{c\} \$ \# \textbackslash{}x \textasciitilde{} \textasciicircum{} $\pm$"
    )
    assert render.tex("α ‖Φ‖ ſ 漢") == r"$\alpha$ $\Vert$$\Phi$$\Vert$ ? ?"


@pytest.mark.parametrize("label", ["[1] Fed", "*Fed"])
def test_a_label_is_no_argument_of_the_end_of_the_line_before(label: str) -> None:
    assert render.tex(label).startswith(f"{{{label[0]}}}")


@pytest.mark.skipif(render.engine() is None, reason="no TeX on PATH")
def test_a_table_compiles(tmp_path: Path) -> None:
    _, grid = table_of(tmp_path, FULL)
    source = tmp_path / "table.standalone.tex"
    source.write_text(render.standalone(grid))
    render.compile_document(source, tmp_path / "table.pdf")
    assert (tmp_path / "table.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on PATH")
def test_a_wide_table_is_not_cut(tmp_path: Path) -> None:
    """TeX warns of what is wider than the text, which is as wide as what is cropped to."""
    cell = PrintedCell("-100.00", "100.00")
    rows = (("RADFed", (cell,) * 14),)
    wide = Grid("wide", (Column("", "COVFEAT-G", "F1"),) * 14, rows, Caption("", ("A table.",)))
    source = tmp_path / "wide.tex"
    source.write_text(render.standalone(wide))
    assert source.read_text().count("RADFed") > 1, "it has several blocks"
    process = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", source.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Overfull" not in process.stdout
    assert ".pfb>" in process.stdout
    assert not re.search(r"\.\d*pk>", process.stdout), "fonts that can't be scaled"


def test_what_tex_says_need_not_be_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, source = tmp_path / "pdflatex", tmp_path / "a.tex"
    engine.write_text("#!/bin/sh\nprintf '! \\275 stops\\n'\nexit 1\n")
    engine.chmod(0o755)
    source.touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(DataError, match=r"a\.tex: pdflatex refused it: ! \ufffd stops"):
        render.compile_document(source, tmp_path / "a.pdf")


def test_without_a_tex_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"needs a TeX on PATH.*install texlive-latex-recommended"):
        render.compile_document(tmp_path / "a.tex", tmp_path / "a.pdf")
