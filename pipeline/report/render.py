"""A grid of printed cells as Markdown, HTML and LaTeX."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from pipeline.report.grid import Grid

TEMPLATES = Path(__file__).parent / "templates"
LINE, SHARED = 80, 0.86
PAGE, LETTER, GAP, SMALL = 19, 0.16, 0.35, 0.8  # cm, but the last: the size of a deviation's letters
TEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "–": "--",
    "†": r"\textsuperscript{\dag}",
    "‡": r"\textsuperscript{\ddag}",
}


def markdown(grid: Grid) -> str:
    """Return the table as GitHub Markdown, each number over the published one."""
    return _template("table.md.j2").render(grid=grid)


def html(grid: Grid) -> str:
    """Return the table as one page that needs no other file, each number over the published one."""
    return _template("table.html.j2").render(grid=grid)


def latex(grid: Grid) -> str:
    r"""Return a ``table`` environment to be ``\input``; it needs the booktabs package."""
    widths = _widths(grid) if grid.words else ()
    return _template("table.tex.j2").render(
        grid=grid,
        shape=_shape(grid, widths),
        ragged="\\raggedright " if widths else "",
        end="\\tabularnewline" if widths else "\\\\",
    )


def standalone(grid: Grid) -> str:
    """Return a LaTeX document that holds the table alone, cropped by the preview package."""
    return _template("standalone.tex.j2").render(body=latex(grid), width=_page(grid))


def tex(text: str) -> str:
    """Return a text with TeX's special characters made harmless."""
    return "".join(TEX.get(sign, sign) for sign in text)


def _shape(grid: Grid, widths: tuple[float, ...]) -> str:
    """Return a tabular's columns: numbers end at the right, words start at the left, long ones wrap."""
    if widths:
        return "".join(rf"p{{{width:.2f}\linewidth}}" for width in widths)
    side = "l" if grid.words else "r"
    return "l" + "".join(r"@{\hspace{10pt}}" + side * span for _, span in grid.groups)


def _widths(grid: Grid) -> tuple[float, ...]:
    """Return the columns' shares of the line in proportion to their longest texts; none if all fit."""
    lines = [(grid.corner, *grid.columns), *((label, *(c.mean for c in cells)) for label, cells in grid.rows)]
    longest = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    total = sum(longest)
    return tuple(SHARED * own / total for own in longest) if total > LINE else ()


def _page(grid: Grid) -> int:
    """Return the width in cm that a table of numbers takes: a page's, or more where its columns need more."""
    if grid.words:
        return PAGE
    numbers = [
        max(len(label), *(len(f"{c.mean}{c.mark}") + SMALL * len(f" ± {c.std}" * bool(c.std)) for c in cells))
        for label, *cells in zip(grid.columns, *(cells for _, cells in grid.rows), strict=True)
    ]
    labels = max(len(text) for text in (grid.corner, *(label for label, _ in grid.rows)))
    return max(PAGE, math.ceil(LETTER * (labels + sum(numbers)) + GAP * (1 + len(numbers))))


@cache
def _template(name: str) -> Template:
    if ".tex" in name:
        environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=False,  # the filter "tex" does
            block_start_string="<%",
            block_end_string="%>",
            variable_start_string="<<",
            variable_end_string=">>",
            comment_start_string="<#",
            comment_end_string="#>",
        )
    else:
        environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=".html" in name)
    environment.trim_blocks = environment.lstrip_blocks = environment.keep_trailing_newline = True
    environment.undefined = StrictUndefined
    environment.filters["tex"] = tex
    return environment.get_template(name)
