"""Tidy numbers to a grid of printed cells: rounding, the best of a column, marks for what is incomplete."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Any

from fedcore.lazy import pd
from fedcore.status import MEMORY
from pipeline.report import captions, significance, style
from pipeline.report.captions import Caption
from pipeline.report.collect import UNKNOWN, Origin
from pipeline.report.significance import ALPHA, Comparison
from pipeline.search import best
from pipeline.targets import Column, Paper, Table

PARTIAL = "†"
FAILED = "failed"
SENTENCE = re.compile(r"(?<=\.) (?=[A-Z])")
Line = Mapping[Hashable, Any]


@dataclass(frozen=True)
class PrintedCell:
    """One printed cell.

    Attributes:
        mean: the number, or what stands in its place.
        std: the number after ±, or empty.
        best: set in bold.
        close: not significantly worse than the best, underlined.
        mark: a sign that the caption explains, or empty.
        published: the published number with its deviation, or empty.
        about: one sentence for a reader who asks.
    """

    mean: str
    std: str = ""
    best: bool = False
    close: bool = False
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
    rows: tuple[tuple[str, tuple[PrintedCell, ...]], ...]
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
    labels: Mapping[str, str] = MappingProxyType({}),
    origin: Origin = UNKNOWN,
) -> Grid:
    """Lay a tidy table out.

    Args:
        frame: one line a cell.
        table: what is printed, and how.
        columns: the columns, in order.
        paper: the paper it belongs to.
        labels: labels of rows that are no algorithms.
        origin: where it comes from.
    """
    lines = {(line["row"], line["column"]): line for line in frame.to_dict("records")}
    names = {name: labels.get(name) or style.label(name) for name in dict.fromkeys(frame["row"])}
    compared = significance.columns(frame, table, columns)
    best = {column.key: _best(lines, compared[column.key], table, column) for column in columns}
    rows = tuple(
        (
            label,
            tuple(_cell(lines[name, c.key], table, c, best[c.key], compared[c.key]) for c in columns),
        )
        for name, label in names.items()
    )
    return Grid(
        name=f"{frame['paper'].iloc[0]}-{frame['target'].iloc[0]}",
        unit=table.unit,
        groups=groups(columns),
        columns=tuple(column.label for column in columns),
        rows=rows,
        caption=_caption(frame, table, columns, paper, names, rows, compared, origin),
        corner=table.heading,
    )


def _best(lines: Mapping[Any, Line], found: Comparison, table: Table, column: Column) -> str | None:
    """Return the best mean of a column as it is printed."""
    if found.best is None:
        return None
    return _number(lines[found.best, column.key]["mean"], _decimals(table, column))


def _cell(line: Line, table: Table, column: Column, best: str | None, found: Comparison) -> PrintedCell:
    n, seeds, diverged = (int(line[key]) for key in ("n", "seeds", "diverged"))
    decimals = _decimals(table, column)
    published = _with_std(line["published_mean"], line["published_std"], decimals)
    finished = n + diverged
    if not n or math.isnan(line["mean"]):
        word = "diverged" if diverged else _word(_failed(line))
        mark = style.DIVERGED if diverged else ""
        return PrintedCell(word, mark=mark, published=published, about=_about(line, n, seeds, diverged, None))
    mean = _number(line["mean"], decimals)
    std = _number(line["std"], decimals)
    mark = (style.DIVERGED if diverged else "") + (PARTIAL if finished < seeds else "")
    bold = n == seeds and mean == best
    p = found.p.get(str(line["row"]))
    close = not bold and p is not None and p >= ALPHA
    return PrintedCell(mean, std, bold, close, mark, published, _about(line, n, seeds, diverged, p))


def _failed(line: Line) -> str:
    """Return of what runs of a cell failed; a csv of older code doesn't say."""
    return str(line.get("failed") or "")


def _word(failed: str) -> str:
    """Return what stands in place of a number that no run gave."""
    return next((word for word in (MEMORY, FAILED) if word in failed), "–")


def _decimals(table: Table, column: Column) -> int:
    return table.decimals if column.decimals is None else column.decimals


def _about(line: Line, n: int, seeds: int, diverged: int, p: float | None) -> str:
    parts = [f"{n} of {seeds} runs"]
    if diverged:
        parts.append(f"{diverged} diverged")
    if failed := _failed(line):
        parts.append(failed)
    if p is not None:
        parts.append(f"p = {p:.2g} against the best")
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
    names: Mapping[str, str],
    rows: tuple[tuple[str, tuple[PrintedCell, ...]], ...],
    compared: Mapping[str, Comparison],
    origin: Origin,
) -> Caption:
    """Say what was found; a sentence that would name a method of which no run ended is left out."""
    scale, variant = str(frame["scale"].iloc[0]), str(frame["variant"].iloc[0])
    lines = frame.to_dict("records")
    ran = set(frame[frame["n"] + frame["diverged"] > 0]["row"])
    absent = [label for name, label in names.items() if name not in ran]
    marks = "".join(cell.mark for _, cells in rows for cell in cells)
    gone = {
        (line["row"], line["column"]): (int(line["diverged"]), int(line["seeds"]))
        for line in lines
        if line["diverged"]
    }
    headings = {column.key: f"{column.group} {column.label}".strip() for column in columns}
    labels = {column.key: column.group or column.label for column in columns}
    tests = {column.key: column.test or table.test for column in columns}
    title = captions.naming_only_what_ran(table.title, absent, f"{table.published}, in part")
    sentences = (
        f"{title} ({table.unit})" + (f", {table.when}." if table.when else "."),
        *(
            captions.naming_only_what_ran(part, absent)
            for part in SENTENCE.split(captions.note(table, frame))
        ),
        captions.spread(frame[frame["std"].notna() | (frame["n"] == 1)]["values"]),
        _chosen(frame, table, columns, names) if table.search else "",
        *captions.bold({c.best or table.best for c in columns if compared[c.key].best is not None}),
        captions.underlined(tests, compared, headings),
        f"{PARTIAL} fewer runs than asked for." if PARTIAL in marks else "",
        captions.diverged(gone, (names, headings), [(line["row"], line["column"]) for line in lines]),
        captions.failed(filter(None, map(_failed, lines))),
        captions.scale_and_variant(scale, variant),
        captions.data(captions.notes_of(frame, table.dataset or (lambda row, column: labels[column]))),
        captions.origin(table.published, paper),
        captions.made(origin),
    )
    return Caption(captions.watermark(scale), tuple(filter(None, sentences)))


def _chosen(frame: pd.DataFrame, table: Table, columns: tuple[Column, ...], names: Mapping[str, str]) -> str:
    """Say which candidate a search chooses in each column that is complete."""
    found = {c.label: best(frame[frame["column"] == c.key], c.best or table.best) for c in columns}
    parts = [f"{names[row]} ({label})" for label, row in found.items() if row is not None]
    return f"Chosen: {'; '.join(parts)}." if parts else ""


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
