"""Tidy numbers to a grid of printed cells: rounding, the best of a column, marks for what is incomplete."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import pandas as pd

from pipeline.report import captions, style
from pipeline.report.captions import Caption
from pipeline.targets import Column, Paper, Table

PARTIAL, DIVERGED = "†", "‡"
Line = Mapping[Hashable, Any]


@dataclass(frozen=True)
class Cell:
    """One printed cell.

    Attributes:
        mean: the number, or what stands in its place.
        std: the number after ±, or empty.
        best: set in bold.
        mark: a sign that the caption explains, or empty.
        published: the published number with its deviation, or empty.
        about: one sentence for a reader who asks.
    """

    mean: str
    std: str = ""
    best: bool = False
    mark: str = ""
    published: str = ""
    about: str = ""


@dataclass(frozen=True)
class Grid:
    """A table ready to be printed in any format.

    Attributes:
        name: unique name, such as ``rfedavg-table1``.
        unit: unit of the numbers.
        groups: (heading, number of columns) over the columns.
        columns: the columns' labels.
        rows: (label, cells).
        caption: what it says below or above.
        corner: what stands over the rows' labels.
        words: whether cells are texts, which start at the left.
    """

    name: str
    unit: str
    groups: tuple[tuple[str, int], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    caption: Caption
    corner: str = "Method"
    words: bool = False

    @property
    def has_published(self) -> bool:
        """Whether any cell has a published counterpart."""
        return any(cell.published for _, cells in self.rows for cell in cells)

    @property
    def grouped(self) -> bool:
        """Whether the columns have headings over them."""
        return any(heading for heading, _ in self.groups)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First and one past the last column of each group."""
        ends = list(accumulate(span for _, span in self.groups))
        return list(zip([0, *ends[:-1]], ends, strict=True))

    @property
    def headings(self) -> list[str]:
        """Each column's label with its group's heading before it."""
        over = [heading for heading, span in self.groups for _ in range(span)]
        return [f"{heading} {label}".strip() for heading, label in zip(over, self.columns, strict=True)]


def arrange(
    frame: pd.DataFrame,
    table: Table,
    columns: tuple[Column, ...],
    paper: Paper,
    seeds: tuple[int, ...],
    labels: Mapping[str, str] = MappingProxyType({}),
) -> Grid:
    """Lay a tidy table out.

    Args:
        frame: one line a cell.
        table: what is printed, and how.
        columns: the columns, in order.
        paper: the paper it belongs to.
        seeds: the seeds of each cell.
        labels: labels of rows that are no algorithms.
    """
    lines = {(line["row"], line["column"]): line for line in frame.to_dict("records")}
    names = list(dict.fromkeys(frame["row"]))
    best = {column.key: _best(frame, column, table) for column in columns}
    rows = tuple(
        (
            labels.get(name) or style.label(name),
            tuple(_cell(lines[name, c.key], table, c, best) for c in columns),
        )
        for name in names
    )
    return Grid(
        name=f"{frame['paper'].iloc[0]}-{frame['target'].iloc[0]}",
        unit=table.unit,
        groups=groups(columns),
        columns=tuple(column.label for column in columns),
        rows=rows,
        caption=_caption(frame, table, columns, paper, seeds, rows),
    )


def _best(frame: pd.DataFrame, column: Column, table: Table) -> str | None:
    """Return the best printed mean of a column; incomplete cells don't compete."""
    own = frame[(frame["column"] == column.key) & (frame["n"] == frame["seeds"])]["mean"]
    kind = column.best or table.best
    if own.empty or kind == "none":
        return None
    return _number(own.max() if kind == "largest" else own.min(), _decimals(table, column))


def _cell(line: Line, table: Table, column: Column, best: Mapping[str, str | None]) -> Cell:
    n, seeds, diverged = (int(line[key]) for key in ("n", "seeds", "diverged"))
    decimals = _decimals(table, column)
    published = _with_std(line["published_mean"], line["published_std"], decimals)
    finished = n + diverged
    if not n:
        return Cell("diverged" if diverged else "–", published=published, about=f"{n} of {seeds} runs")
    mean = _number(line["mean"], decimals)
    std = _number(line["std"], decimals)
    mark = (DIVERGED if diverged else "") + (PARTIAL if finished < seeds else "")
    bold = n == seeds and mean == best[column.key]
    return Cell(mean, std, bold, mark, published, _about(line, n, seeds, diverged))


def _decimals(table: Table, column: Column) -> int:
    return table.decimals if column.decimals is None else column.decimals


def _about(line: Line, n: int, seeds: int, diverged: int) -> str:
    parts = [f"{n} of {seeds} runs"]
    if diverged:
        parts.append(f"{diverged} diverged")
    difference = line["difference"]
    if not math.isnan(difference):
        parts.append(f"{difference:+.2f} to the published value")
    if verdict := line["verdict"]:
        parts.append(verdict)
    return "; ".join(parts)


def _caption(
    frame: pd.DataFrame,
    table: Table,
    columns: tuple[Column, ...],
    paper: Paper,
    seeds: tuple[int, ...],
    rows: tuple[tuple[str, tuple[Cell, ...]], ...],
) -> Caption:
    scale, variant = str(frame["scale"].iloc[0]), str(frame["variant"].iloc[0])
    marks = "".join(cell.mark for _, cells in rows for cell in cells)
    explained = {
        PARTIAL: f"{PARTIAL} fewer runs than asked for.",
        DIVERGED: f"{DIVERGED} without diverged runs.",
    }
    notes = captions.notes_of(frame, {column.key: column.group or column.label for column in columns})
    sentences = (
        f"{table.title} ({table.unit})" + (f", {table.when}." if table.when else "."),
        table.note,
        captions.spread(seeds),
        *captions.bold({column.best or table.best for column in columns}),
        *(text for mark, text in explained.items() if mark in marks),
        captions.scale_and_variant(scale, variant),
        captions.data(notes),
        captions.origin(table.published, paper),
    )
    return Caption(captions.watermark(scale), tuple(filter(None, sentences)))


def groups(columns: tuple[Column, ...]) -> tuple[tuple[str, int], ...]:
    """Return (heading, number of columns) of neighbours under one heading."""
    found: list[tuple[str, int]] = []
    for column in columns:
        if found and found[-1][0] == column.group:
            found[-1] = (column.group, found[-1][1] + 1)
        else:
            found.append((column.group, 1))
    return tuple(found)


def _number(value: float, decimals: int) -> str:
    return "" if math.isnan(value) else f"{value:.{decimals}f}"


def _with_std(mean: float, std: float, decimals: int) -> str:
    text = _number(mean, decimals)
    return text + (f" ± {_number(std, decimals)}" if text and not math.isnan(std) else "")
