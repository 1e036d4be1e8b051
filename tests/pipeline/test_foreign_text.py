"""Texts from elsewhere, such as the name of a data folder, stay texts in every form. Tables fit pages."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from pipeline.catalogue.targets import Column
from pipeline.papers import catalogue_of
from pipeline.reports import figures, render, style
from pipeline.reports.captions import Caption
from pipeline.reports.grid import Grid, PrintedCell
from pipeline.reports.tables import Table, arrange

NASTY = (
    "<img src=x onerror=alert(1)> [a](b) **c** `d` x|y \\input{/etc/passwd} $x_{ %\n\n~^ & # λ 漢 \x1b[31m"
)
TEX = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on PATH")
CONFERENCE = r"\documentclass[twocolumn]{article}\usepackage[textwidth=506pt,columnsep=24pt]{geometry}"
IEEE = (
    shutil.which("kpsewhich") is not None
    and subprocess.run(["kpsewhich", "IEEEtran.cls"], capture_output=True, check=False).returncode == 0
)
# Computer Modern, which is wider, stands in for Times, whose metrics not every TeX has.
SHAPES = [
    (encoding, series, shape, f"{'m' if series == 'm' else 'bx'}/{shape}")
    for encoding in ("OT1", "TS1")
    for series in ("m", "b", "bx")
    for shape in ("n", "it", "sl", "sc")
]
TIMES = "".join(rf"\DeclareFontFamily{{{encoding}}}{{ptm}}{{}}" for encoding in ("OT1", "TS1")) + "".join(
    rf"\DeclareFontShape{{{encoding}}}{{ptm}}{{{series}}}{{{shape}}}{{<->ssub*cmr/{other}}}{{}}"
    for encoding, series, shape, other in SHAPES
)
LETTERS = [
    (CONFERENCE, 2),
    pytest.param(r"\documentclass{article}", 1, marks=pytest.mark.slow),
    pytest.param(
        TIMES + r"\documentclass[conference]{IEEEtran}",
        2,
        id="IEEEtran",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(not IEEE, reason="TeX has no IEEEtran (Debian: texlive-publishers)"),
        ],
    ),
]
CLASSES = [(r"\documentclass{article}", 1), (CONFERENCE, 2), (r"\documentclass[twocolumn]{article}", 2)]


def grid(columns: int = 8, text: str = "A table.") -> Grid:
    """Return a table as wide as Table I of rFedAvg, with published numbers."""
    cells = tuple(PrintedCell("95.04", "0.08", published="97.07 ± 0.34") for _ in range(columns))
    heads = tuple(Column(str(place), f"Sim {place}0%", "MNIST") for place in range(columns))
    return Grid("toy-table1", heads, (("rFedAvg+", cells),), Caption("", (text,)))


def compiled(folder: Path, table: str, head: str) -> str:
    """Return what TeX says of a document that has the table as its input."""
    (folder / "table.tex").write_text(table, encoding="utf-8")
    packages = r"\usepackage[utf8]{inputenc}\usepackage{booktabs,graphicx}"
    body = r"\begin{document}Text.\input{table}\end{document}"
    (folder / "main.tex").write_text(f"{head}{packages}{body}", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    process = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    log = process.stdout.decode("utf-8", "replace")
    assert process.returncode == 0, log[-2000:]
    return log


def test_markdown_shows_foreign_text_literally() -> None:
    text = render.markdown(grid(text=NASTY))
    first, *_ = text.splitlines()
    assert r"\[a\](b) \*\*c\*\* \`d\` x\|y" in first
    assert "&lt;img" in first
    assert "\x1b" not in text
    assert not re.search(r"<(?!br>)", text)


def test_html_shows_foreign_text_literally() -> None:
    text = render.html(grid(text=NASTY))
    assert "&lt;img" in text
    assert "<img" not in text


def test_a_caption_of_a_figure_is_no_formula() -> None:
    figure = Figure()
    figures.captioned(figure, "folder $x_{ of $")
    figure.draw_without_rendering()
    assert figure.get_supxlabel() == r"folder \$x_{ of \$"


@TEX
@pytest.mark.parametrize(("head", "page"), CLASSES)
def test_tex_takes_any_text(tmp_path: Path, head: str, page: int) -> None:
    compiled(tmp_path, render.latex(grid(2, NASTY), page), head)


@TEX
@pytest.mark.parametrize(("head", "page"), CLASSES[:2])
def test_a_figure_fits_the_page_at_its_own_size(tmp_path: Path, head: str, page: int) -> None:
    caption = Caption("Demo scale: not a reproduction.", ("A figure.", "Second."))
    log = ""
    for width in (style.TEXT[page], style.COLUMN):
        with figures.styled(page):
            figures.save(figures.framed(2.0, width), {"pdf": tmp_path / "fig1.pdf"})
        text = render.figure_in_latex("toy", "fig1", caption, page == 2 and width > style.COLUMN)
        log += compiled(tmp_path, text, rf"{head}\usepackage{{graphicx}}")
    assert "Overfull" not in log


@TEX
@pytest.mark.parametrize(("head", "page"), CLASSES)
@pytest.mark.parametrize("columns", [1, 3, 8, 12])
def test_a_table_fits_the_page_with_the_published_numbers(
    tmp_path: Path, head: str, page: int, columns: int
) -> None:
    table = render.latex(grid(columns), page)
    assert table.count(r"\itshape 97.07} & {\scriptsize{} $\pm$ \itshape 0.34}") == columns
    assert "Overfull" not in compiled(tmp_path, table, head)


@cache
def kept() -> dict[str, Grid]:
    """Return each kept table by name; a column that params.yaml no longer asks for has its key as label."""
    catalogue, tables = catalogue_of(Path("params.yaml"), "paper"), {}
    for paper, name, table in catalogue.targets():
        path = Path("reports/reference", paper, f"{name}.csv")
        if isinstance(table, Table) and path.exists():
            frame = pd.read_csv(path, dtype={"row": str, "column": str})
            words = ("failed", "verdict", "data", "data_state", "values")
            texts = {key: frame[key].astype(object).fillna("") for key in words}
            params = catalogue.params.papers[paper]
            by_key = {column.key: column for column in table.columns(params)}
            columns = [by_key.get(key, Column(key, key, "other")) for key in dict.fromkeys(frame["column"])]
            about, labels = catalogue.papers[paper], table.row_labels(params)
            tables[f"{paper}/{name}"] = arrange(frame.assign(**texts), table, columns, about, labels)
    return tables


@TEX
@pytest.mark.parametrize("published", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("head", "page"), LETTERS)
def test_every_kept_table_fits_its_page_in_letters_of_seven_points(
    tmp_path: Path, head: str, page: int, published: bool
) -> None:
    tables = {name: table if published else table.alone() for name, table in kept().items()}
    assert len(tables) >= 30
    measured = r"\typeout{SHRUNK: \the\wd0\space of \the\linewidth.}\ifdim\wd0"
    bodies = (render.latex(table, page).replace(r"\ifdim\wd0", measured) for table in tables.values())
    log = compiled(tmp_path, "\n\\clearpage\n".join(bodies), head)
    assert "Overfull" not in log
    assert "Float too large" not in log
    widths = re.findall(r"SHRUNK: ([\d.]+)pt ?of ([\d.]+)pt", log)
    assert len(widths) >= len(tables)
    assert min(float(room) / float(wide) for wide, room in widths) >= 7 / 8  # footnotesize is 8 points


def test_the_caption_of_every_kept_table_has_at_most_two_sentences() -> None:
    for name, table in kept().items():
        head, notes = table.caption.divided()
        sentences = re.split(r"[.?!] (?=[A-Z])", head)
        assert len(notes) > len(head)
        assert len(sentences) + bool(table.caption.watermark) <= 2, name
        assert "\\caption{" + render.tex(head) + "}" in render.latex(table)


def test_blocks_of_a_wide_table_hold_each_column_once() -> None:
    for columns in range(1, 20):
        wide = grid(columns)
        text = render.latex(wide)
        assert [text.count(f"Sim {place}0\\%") for place in range(columns)] == [1] * columns


def test_a_wide_table_spans_both_columns_and_a_narrow_one_does_not() -> None:
    assert r"\begin{table*}" in render.latex(grid(8), 2)
    assert r"\begin{table}" in render.latex(grid(2), 2)
    assert "smaller and in italics: the published one" in render.latex(grid(2))
    assert "published" not in render.latex(grid(2).alone())
