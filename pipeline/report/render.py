"""A grid of printed cells as Markdown, HTML and LaTeX."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from pipeline.report.grid import Grid

TEMPLATES = Path(__file__).parent / "templates"
TEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
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
    return _template("table.tex.j2").render(grid=grid)


def standalone(grid: Grid) -> str:
    """Return a LaTeX document that holds the table alone, cropped by the preview package."""
    return _template("standalone.tex.j2").render(body=latex(grid))


def tex(text: str) -> str:
    """Return a text with TeX's special characters made harmless."""
    return "".join(TEX.get(sign, sign) for sign in text)


@cache
def _template(name: str) -> Template:
    if ".tex" in name:
        environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
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
