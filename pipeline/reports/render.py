"""A grid of printed cells as Markdown, HTML and LaTeX, and LaTeX as PDF with the TeX that the machine has."""

from __future__ import annotations

import math
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fedcore.base.errors import DataError
from fedcore.base.files import atomic, write_text
from fedcore.base.lazy import jinja2, pd
from pipeline.reports.grid import Grid, PrintedCell

TEMPLATES = Path(__file__).parent / "templates"
ENGINES = ("pdflatex", "lualatex", "xelatex", "tectonic")
NO_TEX = (
    "a PDF needs a TeX on PATH, and there is none; install texlive-latex-recommended and preview-latex-style"
    " (Debian, Ubuntu), MacTeX, MiKTeX or tectonic, or ask for .tex"
)
LINE, SHARED = 80, 0.86
ONE_COLUMN = 8  # cm, of a page in two columns
PAGE, LETTER, GAP, SMALL = 19, 0.16, 0.35, 0.8  # cm, but the last: the size of a deviation's letters
GREEK = {"η": "eta", "λ": "lambda", "μ": "mu", "σ": "sigma", "γ": "gamma", "τ": "tau", "ρ": "rho", "χ": "chi"}
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
    "−": "$-$",
    "≤": r"$\leq$",
    "→": r"$\to$",
    "…": r"\dots{}",
    "’": "'",
    "`": r"\textasciigrave{}",
    **{sign: rf"$\{name}$" for sign, name in GREEK.items()},
}
TEX_SIGNS = {
    f"{kind}_{end}_string": sign
    for kind, signs in {"block": "<% %>", "variable": "<< >>", "comment": "<# #>"}.items()
    for end, sign in zip(("start", "end"), signs.split(), strict=True)
}
MD = {sign: f"\\{sign}" for sign in "\\`*[]|"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def markdown(grid: Grid) -> str:
    """Return the table as GitHub Markdown, each number over the published one."""
    return _template("table.md.j2").render(grid=grid)


def html(grid: Grid) -> str:
    """Return the table as one page that needs no other file, each number over the published one."""
    return _template("table.html.j2").render(grid=grid)


def latex(grid: Grid) -> str:
    r"""Return a table to be ``\input``; it needs the packages booktabs and graphicx.

    It spans both columns of a page where it is wider than one, and shrinks where it is wider than the text.
    """
    widths = _widths(grid) if grid.words else ()
    side = "l" if grid.words else "r"
    aligned = "l" + "".join(r"@{\hspace{10pt}}" + side * span for _, span in grid.groups)
    wrapped = "".join(rf"p{{{width:.2f}\linewidth}}" for width in widths)
    return _template("table.tex.j2").render(
        grid=grid,
        table="table*" if grid.words or _width(grid) > ONE_COLUMN else "table",
        shape=wrapped or aligned,
        ragged="\\raggedright " if widths else "",
        end="\\tabularnewline" if widths else "\\\\",
    )


def standalone(grid: Grid) -> str:
    """Return a LaTeX document that holds the table alone, cropped by the preview package.

    It is as wide as a page, or as the columns of a table of numbers need.
    """
    width = PAGE if grid.words else max(PAGE, math.ceil(_width(grid)))
    return _template("standalone.tex.j2").render(body=latex(grid), width=width)


def tex(text: str) -> str:
    """Return a text with TeX's special characters made harmless; ? for those that its fonts lack."""
    return "".join(TEX.get(sign, sign if sign < "\u0180" else "?") for sign in _line(text))


def md(text: str) -> str:
    """Return a text as Markdown shows it literally, in a line or in a table's cell."""
    return "".join(MD.get(sign, sign) for sign in _line(text))


def md_table(headings: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table; a column of numbers, whose heading ends with a colon, ends at the right."""
    names = list(headings)
    rules = ["--:" if name.endswith(":") else ":--" for name in names]
    rows = [[name.removesuffix(":") for name in names], rules, *lines]
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows)


def number(value: float, form: str = "{:.6g}") -> str:
    """Return a number in print; a dash where there is none."""
    return "–" if pd.isna(value) else form.format(value).replace("-", "−")


def _line(text: str) -> str:
    """Return a text without line breaks and other signs that can't be printed."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _widths(grid: Grid) -> tuple[float, ...]:
    """Return the columns' shares of the line in proportion to their longest texts; none if all fit."""
    heads = (grid.corner, *(column.label for column in grid.columns))
    lines = [heads, *((label, *(c.mean for c in cells)) for label, cells in grid.rows)]
    longest = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    total = sum(longest)
    return tuple(SHARED * own / total for own in longest) if total > LINE else ()


def _width(grid: Grid) -> float:
    """Return about how wide the columns of a table of numbers are, in cm."""

    def wide(cell: PrintedCell) -> float:
        return len(f"{cell.mean}{cell.mark}") + (SMALL * len(f" ± {cell.std}") if cell.std else 0)

    columns = zip(grid.columns, *(cells for _, cells in grid.rows), strict=True)
    numbers = [max(len(column.label), *map(wide, cells)) for column, *cells in columns]
    labels = max(len(text) for text in (grid.corner, *(label for label, _ in grid.rows)))
    return LETTER * (labels + sum(numbers)) + GAP * (1 + len(numbers))


def csv(frame: pd.DataFrame) -> str:
    """Return the numbers of a report as csv, with six significant digits."""
    return frame.to_csv(index=False, lineterminator="\n", float_format="%.6g")


def write_grid(grid: Grid, outputs: Mapping[str, Path]) -> None:
    """Write a table in the forms that are printed."""
    for form, text in (("md", markdown), ("html", html), ("tex", latex), ("standalone", standalone)):
        write_text(outputs[form], text(grid))


def engine() -> str | None:
    """Return the first TeX engine found on PATH, or None."""
    return next((name for name in ENGINES if shutil.which(name)), None)


def compile_document(source: Path, target: Path) -> None:
    """Compile ``source`` and put the PDF at ``target``.

    Raises:
        DataError: there is no TeX, or it refuses the document.
    """
    name = engine()
    if name is None:
        raise DataError(f"{target}: {NO_TEX}")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(source, Path(folder, "table.tex"))
        options = (
            [] if name == "tectonic" else ["-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error"]
        )
        done = subprocess.run(
            [name, *options, "table.tex"], cwd=folder, capture_output=True, text=True, check=False
        )
        result = Path(folder, "table.pdf")
        if done.returncode or not result.exists():
            problems = [line for line in done.stdout.splitlines() if line.startswith("!")]
            raise DataError(
                f"{source}: {name} refused it: {' '.join(problems) or done.stderr.strip()[-200:]}"
            )
        with atomic(target) as handle:
            handle.write(result.read_bytes())


@cache
def _template(name: str) -> jinja2.Template:
    signs: Any = TEX_SIGNS if ".tex" in name else {}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=".html" in name,  # in TeX the filter "tex" escapes
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **signs,
    )
    environment.filters |= {"tex": tex, "md": md}
    return environment.get_template(name)
