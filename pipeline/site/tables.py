"""A report's table for the site: the printed grid, each cell with its distance to the published number."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from fedcore.base.lazy import pd
from pipeline.reports.agreement import Agreement
from pipeline.reports.captions import Caption
from pipeline.reports.grid import Grid, PrintedCell
from pipeline.reports.listings import Listing
from pipeline.reports.tables import Table, arrange
from pipeline.site.survey import TargetStatus

FAR = 5
MARKS = {-2: "▼▼", -1: "▼", 0: "≈", 1: "▲", 2: "▲▲"}
CLASSES = {-2: "far-below", -1: "below", 0: "near", 1: "above", 2: "far-above"}
Line = Mapping[Hashable, Any]


@dataclass(frozen=True)
class Distance:
    """How far a cell is from the published number.

    Attributes:
        level: -2 (far below) to 2 (far above); 0 is near.
        text: the difference in print.
    """

    level: int
    text: str

    @property
    def mark(self) -> str:
        """A sign that says the same without colour."""
        return MARKS[self.level]

    @property
    def kind(self) -> str:
        """The name of its style."""
        return CLASSES[self.level]


@dataclass(frozen=True)
class SiteCell:
    """A cell: its key in files, what is printed, and its distance, None where nothing was published."""

    row: str
    column: str
    printed: PrintedCell
    distance: Distance | None


@dataclass(frozen=True)
class View:
    """A table ready for a page.

    Attributes:
        grid: headings and caption.
        rows: (label, cells).
        legend: (style, sign, meaning) of each level that can occur; empty where nothing was published.
    """

    grid: Grid
    rows: tuple[tuple[str, tuple[SiteCell, ...]], ...]
    legend: tuple[tuple[str, str, str], ...]

    @property
    def caption(self) -> Caption:
        """The lines below it."""
        return self.grid.caption


def view(shown: TargetStatus, table: Table, frame: pd.DataFrame) -> View:
    """Lay out a table that was built.

    Raises:
        KeyError: the csv's cells are not those that the parameters ask for.
    """
    params = shown.home.params.papers[shown.paper]
    columns = table.columns(params)
    grid = arrange(frame, table, columns, shown.declared, table.row_labels(params))
    lines = {(line["row"], line["column"]): line for line in frame.to_dict("records")}
    names = dict.fromkeys(frame["row"])
    rows = tuple(
        (
            label,
            tuple(
                _cell(lines[name, column.key], printed, _digits(table, column.decimals))
                for column, printed in zip(columns, printed_cells, strict=True)
            ),
        )
        for name, (label, printed_cells) in zip(names, grid.rows, strict=True)
    )
    return View(grid, rows, _legend(frame) if grid.has_published else ())


def distance(line: Line, unit: str, decimals: int = 2) -> Distance | None:
    """Return how far a line's mean is from its published mean: near within the margin, far beyond five.

    Args:
        line: ``mean``, ``published_mean`` and ``published_std``.
        unit: the published numbers' unit, which decides on the margin; see ``Agreement``.
        decimals: digits in print.
    """
    mean, published, spread = (float(line[key]) for key in ("mean", "published_mean", "published_std"))
    found = Agreement(mean, published, spread, unit)
    if found.near is None:
        return None
    level = 0 if found.near else 1 if found.within(FAR) else 2
    text = f"{found.difference:+.{decimals}f}".replace("-", "−")
    return Distance(level if found.difference > 0 else -level, text)


def words(shown: TargetStatus, listing: Listing, frame: pd.DataFrame) -> Grid:
    """Lay out a table of words that was built; a cell that the csv lacks is empty."""
    texts = {(line["row"], line["column"]): str(line["value"]) for line in frame.to_dict("records")}
    return listing.grid(shown.sources(), texts)


def plain(frame: pd.DataFrame, most: int = 200) -> tuple[list[str], list[list[str]]]:
    """Return heading and first lines of any csv as texts."""
    shown = frame.head(most)
    return list(map(str, frame.columns)), [
        ["" if value != value else str(value) for value in line] for line in shown.itertuples(index=False)
    ]


def _cell(line: Line, printed: PrintedCell, decimals: int) -> SiteCell:
    return SiteCell(line["row"], line["column"], printed, distance(line, line["published_unit"], decimals))


def _digits(table: Table, own: int | None) -> int:
    return table.decimals if own is None else own


def _legend(frame: pd.DataFrame) -> tuple[tuple[str, str, str], ...]:
    rules = " or ".join(sorted({str(rule) for rule in frame["margin_rule"] if rule}))
    words = {
        -2: f"below by more than {FAR} margins",
        -1: "below",
        0: f"within the margin ({rules})",
        1: "above",
        2: f"above by more than {FAR} margins",
    }
    return tuple((CLASSES[level], MARKS[level], text) for level, text in words.items())
