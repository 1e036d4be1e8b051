"""A grid of printed cells as Markdown, HTML and LaTeX, and LaTeX as PDF with the TeX that the machine has."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import markupsafe

from fedcore.base import core_yaml
from fedcore.base.errors import DataError
from fedcore.base.files import atomic, write_text
from fedcore.base.lazy import DataFrame, jinja2, pd
from pipeline.catalogue.schema import Layout
from pipeline.catalogue.targets import TEMPLATES
from pipeline.reports import style
from pipeline.reports.captions import Caption
from pipeline.reports.grid import Grid, PrintedCell

ENGINES = ("pdflatex", "lualatex", "xelatex", "tectonic")
LATEX_OPTIONS = ["-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error"]
NO_TEX = (
    "a PDF needs a TeX on PATH, and there is none; install texlive-latex-recommended and preview-latex-style"
    " (Debian, Ubuntu), MacTeX, MiKTeX or tectonic, or ask for .tex"
)
Span = tuple[int, int]
SHARED = 0.86
INCH = 2.54
TEXT = {columns: round(INCH * width, 1) for columns, width in style.TEXT.items()}  # in cm
COLUMN = {1: TEXT[1], 2: round(INCH * style.COLUMN, 1)}
LINES = 44  # of a page
SHRUNK = 7 / 8  # from eight points to the smallest size of letters
LETTER, GAP, SMALL = 0.15, 0.21, 0.875  # cm, but the last: the size of a deviation's letters
MATHS = (
    "αalpha βbeta γgamma δdelta εepsilon ζzeta ηeta θtheta ιiota κkappa λlambda μmu νnu ξxi πpi ρrho"
    " ςvarsigma σsigma τtau υupsilon φphi χchi ψpsi ωomega ΓGamma ΔDelta ΘTheta ΛLambda ΞXi ΠPi ΣSigma"
    " ΥUpsilon ΦPhi ΨPsi ΩOmega ±pm ×times ≤leq ≥geq ≠neq ≈approx ∼sim ←leftarrow →to √surd ‖Vert ∞infty"
    " ∈in ∇nabla ℓell"
)
TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    "†": r"\textsuperscript{\dag}",
    "‡": r"\textsuperscript{\ddag}",
    "…": r"\dots{}",
    "–": "--",
    "−": "$-$",
    "’": "'",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: f"${sign}$" for sign in "<>|"},
    **{sign: f"{{{sign}}}" for sign in "[]*"},  # not the argument of a command before it
    **{word[0]: rf"$\{word[1:]}$" for word in MATHS.split()},
    **dict.fromkeys("ĦħĸĿŀŉŦŧſ", "?"),
}
TEX_SIGNS: Mapping[str, Any] = {
    "block_start_string": "<%",
    "block_end_string": "%>",
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}
MD = {sign: f"\\{sign}" for sign in "\\`*[]|"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def rendered(name: str, values: Mapping[str, Any], folder: Path = TEMPLATES) -> str:
    """Return what a template, such as ``table.html``, makes of values.

    HTML escapes all of them; in TeX, where blocks are ``<% %>``, the filter ``tex`` does.
    """
    return _environment(folder, ".tex" in name).get_template(f"{name}.j2").render(values)


def markdown(grid: Grid) -> str:
    """Return the table as GitHub Markdown, each number over the published one."""
    return rendered("table.md", {"grid": grid})


def html(grid: Grid) -> str:
    """Return the table as one page that needs no other file, each number over the published one."""
    return rendered("table.html", {"grid": grid})


def latex(grid: Grid, columns: int = 1) -> str:
    r"""Return a table to be ``\input``; it needs the packages booktabs and graphicx.

    For a page of two columns it spans both where it is wider than one. A table wider than the text has its
    columns in several blocks, below each other, and one longer than a page continues on the next.
    """
    widths = _widths(grid) if grid.words else ()
    wide = bool(widths) or _width(grid)(0, len(grid.columns)) > COLUMN[columns] / SHRUNK
    blocks = [grid] if grid.words else [grid.part(*span) for span in _blocks(grid, TEXT[columns] / SHRUNK)]
    lines = max(1, (LINES // len(blocks) - 3) // (2 if grid.has_published else 1))
    shown = {
        "grid": grid,
        "table": "table*" if wide else "table",
        "floats": [slice(first, first + lines) for first in range(0, len(grid.rows) or 1, lines)],
        "blocks": [(block, _shape(block, widths)) for block in blocks],
        "ragged": "\\raggedright " if widths else "",
        "end": "\\tabularnewline" if widths else "\\\\",
    }
    return rendered("table.tex", shown)


def figure_in_latex(paper: str, name: str, caption: Caption, spans: bool) -> str:
    r"""Return a figure to be ``\input``, of the pdf beside it, which ``spans`` both columns or not."""
    environment = "figure*" if spans else "figure"
    shown = {"paper": paper, "name": name, "caption": caption, "figure": environment}
    return rendered("figure.tex", shown)


def standalone(grid: Grid, columns: int = 1) -> str:
    """Return a LaTeX document of the table alone, as wide as the page's text and cropped by preview."""
    return rendered("standalone.tex", {"body": latex(grid, columns), "width": TEXT[columns]})


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


def in_print(value: float, form: str = "{:.6g}") -> str:
    """Return a number in print; a dash where there is none."""
    return "–" if pd.isna(value) else form.format(value).replace("-", "−")


def _line(text: str) -> str:
    """Return a text without line breaks and other signs that can't be printed."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _shape(grid: Grid, widths: Iterable[float]) -> str:
    """Return a tabular's columns; a number's has two, so that decimal points and deviations are in line."""
    side = "l" if grid.words else "r@{}l"
    wrapped = "".join(rf"p{{{width:.2f}\linewidth}}" for width in widths)
    return wrapped or "l" + "".join(r"@{\hspace{9pt}}" + side * span for _, span in grid.groups)


def _blocks(grid: Grid, room: float) -> list[Span]:
    """Return the first column, and one past the last, of as few blocks as fit, the widest as narrow as can.

    Groups of columns stay whole where each of them fits.
    """
    pieces, width = grid.spans, _width(grid)
    if any(width(*piece) > room for piece in pieces):
        pieces = [(index, index + 1) for index in range(len(grid.columns))]
    spans = [(first, last) for (first, _), (_, last) in combinations_with_replacement(pieces, 2)]
    widths = {span: width(*span) for span in spans}
    fewest = len(_filled(pieces, widths, room))
    packings = (_filled(pieces, widths, width) for width in sorted(widths.values()))
    return next(blocks for blocks in packings if len(blocks) == fewest)


def _filled(pieces: Iterable[Span], widths: Mapping[Span, float], room: float) -> list[Span]:
    """Return blocks of neighbouring pieces, each filled as far as there is room."""
    blocks: list[Span] = []
    for first, last in pieces:
        if blocks and widths[blocks[-1][0], last] <= room:
            blocks[-1] = blocks[-1][0], last
        else:
            blocks.append((first, last))
    return blocks


def _widths(grid: Grid) -> tuple[float, ...]:
    """Return the columns' shares of the line in proportion to their longest texts; none if all fit."""
    heads = (grid.corner, *(column.label for column in grid.columns))
    lines = [heads, *((label, *(c.mean for c in cells)) for label, cells in grid.rows)]
    longest = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    total = sum(longest)
    fits = LETTER * total + GAP * len(longest) <= COLUMN[2]
    return () if fits else tuple(SHARED * length / total for length in longest)


def _width(grid: Grid) -> Callable[[int, int], float]:
    """Return about how wide a table of a grid's numbers is, in cm, from a column to before another."""

    def wide(cell: PrintedCell) -> float:
        ours = len(f"{cell.mean}{cell.mark}") + (SMALL * len(f" ± {cell.std}") if cell.std else 0)
        return max(ours, SMALL * len(cell.published))

    def long(text: str) -> float:
        return len(text) + 0.3 * sum(map(str.isupper, text))

    columns = zip(grid.columns, *(cells for _, cells in grid.rows), strict=True)
    numbers = [max([long(column.label), *map(wide, cells)]) for column, *cells in columns]
    labels = max(long(text) for text in (grid.corner, *(label for label, _ in grid.rows)))
    heads = replace(grid, rows=())

    def width(begin: int, end: int) -> float:
        part = heads.part(begin, end)
        groups = (
            max(sum(numbers[begin + first : begin + last]) + last - first - 1, long(heading))
            for (first, last), (heading, _) in zip(part.spans, part.groups, strict=True)
        )
        return LETTER * (labels + sum(groups)) + GAP * (end - begin)

    return width


def csv(frame: DataFrame) -> str:
    """Return the numbers of a report as csv, with six significant digits."""
    return frame.to_csv(index=False, lineterminator="\n", float_format="%.6g")


def write_grid(grid: Grid, frame: DataFrame, outputs: Mapping[str, Path], layout: Layout) -> None:
    """Write a table in the forms that are printed, and its numbers."""
    shown, columns = grid if layout.published else grid.alone(), layout.columns
    texts = (csv(frame), markdown(shown), html(shown), latex(shown, columns), standalone(shown, columns))
    for form, text in zip(("csv", "md", "html", "tex", "standalone"), texts, strict=True):
        write_text(outputs[form], text)


def engine() -> str | None:
    """Return the first TeX engine found on PATH, or None."""
    return next((name for name in ENGINES if shutil.which(name)), None)


def compile_document(source: Path, target: Path) -> None:
    """Compile ``source`` to the PDF ``target``, or raise DataError if there is no TeX or it refuses that."""
    name = engine()
    if name is None:
        raise DataError(f"{target}: {NO_TEX}")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(source, Path(folder, "table.tex"))
        options = [] if name == "tectonic" else LATEX_OPTIONS
        command = [name, *options, "table.tex"]
        process = subprocess.run(command, cwd=folder, capture_output=True, errors="replace", check=False)
        result = Path(folder, "table.pdf")
        if process.returncode or not result.exists():
            problems = [line for line in process.stdout.splitlines() if line.startswith("!")]
            reason = " ".join(problems) or process.stderr.strip()[-200:]
            raise DataError(f"{source}: {name} refused it: {reason}")
        with atomic(target) as handle:
            handle.write(result.read_bytes())


@cache
def _environment(folder: Path, for_tex: bool) -> "jinja2.Environment":
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=lambda name: name is not None and (".html" in name or ".svg" in name),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **(TEX_SIGNS if for_tex else {}),
    )
    env.filters |= {
        "tex": tex,
        "md": md,
        "number": in_print,
        "flow": lambda value: core_yaml.to_yaml(value, flow=True).strip(),
        "breakable": lambda text: markupsafe.escape(text).replace("/", markupsafe.Markup("/<wbr>")),
    }
    return env
