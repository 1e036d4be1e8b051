"""A report's table for the site: the printed grid, each cell with its distance to the published number."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.report import build_listing
from pipeline.report.agreement import DEVIATIONS, POINTS
from pipeline.report.captions import Caption
from pipeline.report.grid import Cell as Printed
from pipeline.report.grid import Grid, arrange, groups
from pipeline.site.survey import Shown
from pipeline.targets import Listing, Table

FAR = 5.0
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
class Cell:
    """A cell: its key in files, what is printed, and its distance, None where nothing was published."""

    row: str
    column: str
    printed: Printed
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
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    legend: tuple[tuple[str, str, str], ...]

    @property
    def caption(self) -> Caption:
        """What stands below it."""
        return self.grid.caption


def view(shown: Shown) -> View:
    """Lay out a table that was built.

    Raises:
        KeyError: the csv's cells are not those that the parameters ask for.
    """
    table, frame = shown.about, shown.frame
    assert isinstance(table, Table)
    assert frame is not None
    params = shown.home.params.papers[shown.paper]
    columns = table.columns(params)
    labels = {} if table.rows is None else table.rows(params)
    grid = arrange(frame, table, columns, shown.declared, labels)
    lines = {(line["row"], line["column"]): line for line in frame.to_dict("records")}
    names = dict.fromkeys(frame["row"])
    absolute = table.unit == "%"
    rows = tuple(
        (
            label,
            tuple(
                Cell(
                    name,
                    column.key,
                    printed,
                    distance(lines[name, column.key], absolute, _digits(table, column.decimals)),
                )
                for column, printed in zip(columns, printed_cells, strict=True)
            ),
        )
        for name, (label, printed_cells) in zip(names, grid.rows, strict=True)
    )
    return View(grid, rows, _legend(absolute) if grid.has_published else ())


def distance(line: Line, absolute: bool, decimals: int = 2) -> Distance | None:
    """Return how far a line's mean is from its published mean.

    Near is within a point or two published standard deviations, the larger of the two; far is more than five
    points. Where the unit is not per cent, a point is a hundredth of the published number.

    Args:
        line: ``mean``, ``published_mean`` and ``published_std``.
        absolute: the unit is per cent.
        decimals: digits in print.
    """
    difference = float(line["mean"]) - float(line["published_mean"])
    if math.isnan(difference):
        return None
    point = POINTS if absolute else abs(float(line["published_mean"])) / 100
    spread = float(line["published_std"])
    near = max(POINTS * point, 0.0 if math.isnan(spread) else DEVIATIONS * spread) + 1e-9
    size = abs(difference)
    level = 0 if size <= near else 1 if size <= max(FAR * point, near) else 2
    return Distance(level if difference > 0 else -level, f"{difference:+.{decimals}f}".replace("-", "−"))


def words(shown: Shown) -> Grid:
    """Lay out a table of words that was built; a cell that the csv lacks is empty."""
    listing, frame = shown.about, shown.frame
    assert isinstance(listing, Listing)
    assert frame is not None
    params = shown.home.params.papers[shown.paper]
    columns = listing.columns(params)
    texts = {(line["row"], line["column"]): str(line["value"]) for line in frame.to_dict("records")}
    return Grid(
        name=f"{shown.paper}-{shown.name}",
        unit="",
        groups=groups(columns),
        columns=tuple(column.label for column in columns),
        rows=tuple(
            (entry.label, tuple(Printed(texts.get((entry.key, column.key), "")) for column in columns))
            for entry in listing.entries(params)
        ),
        caption=build_listing.caption(listing, shown.declared, shown.scale, params.variant),
        corner=listing.heading,
        words=True,
    )


def plain(frame: pd.DataFrame, most: int = 200) -> tuple[list[str], list[list[str]]]:
    """Return heading and first lines of any csv as texts."""
    shown = frame.head(most)
    return list(map(str, frame.columns)), [
        ["" if value != value else str(value) for value in line] for line in shown.itertuples(index=False)
    ]


def _digits(table: Table, own: int | None) -> int:
    return table.decimals if own is None else own


def _legend(absolute: bool) -> tuple[tuple[str, str, str], ...]:
    unit = "points" if absolute else "%"
    one = "1 point" if absolute else "1%"
    words = {
        -2: f"below by more than {FAR:g} {unit}",
        -1: "below",
        0: f"within {one} or {DEVIATIONS:g} published sd",
        1: "above",
        2: f"above by more than {FAR:g} {unit}",
    }
    return tuple((CLASSES[level], MARKS[level], text) for level, text in words.items())
