"""Texts from elsewhere, such as the name of a data folder, stay texts in every form. Tables fit pages."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from pipeline.catalogue.targets import Column
from pipeline.reports import figures, render
from pipeline.reports.captions import Caption
from pipeline.reports.grid import Grid, PrintedCell

NASTY = (
    "<img src=x onerror=alert(1)> [a](b) **c** `d` x|y \\input{/etc/passwd} $x_{ %\n\n~^ & # λ 漢 \x1b[31m"
)
TEX = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on PATH")
CLASSES = [r"\documentclass{article}", r"\documentclass[twocolumn]{article}"]


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
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    said = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, said[-2000:]
    return said


def test_markdown_shows_foreign_text_literally() -> None:
    text = render.markdown(grid(text=NASTY))
    first, *_ = text.splitlines()
    assert r"\[a\](b) \*\*c\*\* \`d\` x\|y" in first
    assert "&lt;img" in first
    assert "\x1b" not in text
    assert not re.search(r"<(?!br>)", text)


def test_html_shows_foreign_text_literally() -> None:
    assert "<img" not in render.html(grid(text=NASTY))


def test_a_caption_of_a_figure_is_no_formula() -> None:
    figure = Figure()
    figures.captioned(figure, "folder $x_{ of $")
    figure.draw_without_rendering()


@TEX
@pytest.mark.parametrize("head", CLASSES)
def test_tex_takes_any_text(tmp_path: Path, head: str) -> None:
    compiled(tmp_path, render.latex(grid(2, NASTY)), head)


@TEX
@pytest.mark.parametrize("head", CLASSES)
@pytest.mark.parametrize("columns", [1, 3, 8, 12])
def test_a_table_fits_the_page_with_the_published_numbers(tmp_path: Path, head: str, columns: int) -> None:
    table = render.latex(grid(columns))
    assert table.count(r"97.07 $\pm$ 0.34") == columns
    assert "Overfull" not in compiled(tmp_path, table, head)


def test_a_wide_table_spans_both_columns_and_a_narrow_one_does_not() -> None:
    assert r"\begin{table*}" in render.latex(grid(8))
    assert r"\begin{table}" in render.latex(grid(2))
    assert "smaller and in italics: the published one" in render.latex(grid(2))
