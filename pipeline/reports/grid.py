"""From tidy numbers to a grid of printed cells: rounding, the best of a column, marks of missing runs."""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from statistics import fmean
from typing import Any

from fedcore.base.lazy import DataFrame, Series, pd
from fedcore.execution.status import MEMORY
from pipeline.catalogue.targets import Column
from pipeline.reports import style
from pipeline.reports.captions import Caption
from pipeline.reports.significance import ALPHA, Comparison, parse_samples

PARTIAL = "†"
FAILED, MISSED = "failed", "not reached"
Line = Mapping[Hashable, Any]


@dataclass(frozen=True)
class PrintedCell:
    """One printed cell.

    Attributes:
        mean: the number, or the text in its place.
        std: the number after ±, or empty.
        best: set in bold.
        close: not significantly worse than the best, underlined.
        mark: a sign that the caption explains, or empty.
        published: the published number with its deviation, or empty.
        remark: one sentence for a reader who asks.
        link: the report beside it that it leads to, or empty.
    """

    mean: str
    std: str = ""
    best: bool = False
    close: bool = False
    mark: str = ""
    published: str = ""
    remark: str = ""
    link: str = ""


@dataclass(frozen=True)
class Grid:
    """A table ready to be printed in any format, with a unique name, such as ``rfedavg-table1``.

    Neighbouring columns of one group stand under its heading; rows are (label, cells), and ``corner`` stands
    over their labels; ``words``: whether cells are texts, which start at the left.
    """

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[PrintedCell, ...]], ...]
    caption: Caption
    corner: str = "Method"
    words: bool = False

    @property
    def has_published(self) -> bool:
        """Whether any cell has a published counterpart."""
        return any(cell.published for _, cells in self.rows for cell in cells)

    @property
    def groups(self) -> list[tuple[str, int]]:
        """(heading, number of columns) of neighbours under one heading."""
        return [(heading, len([*part])) for heading, part in groupby(column.group for column in self.columns)]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First and one past the last column of each group."""
        return list(pairwise([0, *accumulate(span for _, span in self.groups)]))

    def part(self, first: int, last: int) -> "Grid":
        """Return the table of the columns from ``first`` to before ``last``."""
        rows = tuple((label, cells[first:last]) for label, cells in self.rows)
        return replace(self, columns=self.columns[first:last], rows=rows)

    def alone(self) -> "Grid":
        """Return the table without published numbers."""
        rows = ((label, tuple(replace(cell, published="") for cell in cells)) for label, cells in self.rows)
        return replace(self, rows=tuple(rows))


def printed_column(
    lines: Iterable[Line], compared: Comparison, decimals: int, apart: Callable[[str], bool] | None
) -> dict[str, PrintedCell]:
    """Return the printed cell of each row of a column, given its lines and its rows against the best one.

    Rows ``apart`` are never the best, and neither is a row without another that has all its runs.
    """
    by_row = {str(line["row"]): line for line in lines}
    means = {row: _own_mean(line, decimals) for row, line in by_row.items()}
    best = means.get(compared.best or "")
    competing = {row: line for row, line in by_row.items() if not (apart and apart(row))}
    rivals = sum(line["n"] == line["seeds"] > 0 for line in competing.values()) > 1
    leads = {row: rivals and mean == best and row in competing for row, mean in means.items()}
    return {row: _printed(line, leads[row], compared.p.get(row), decimals) for row, line in by_row.items()}


def _own_mean(line: Line, decimals: int) -> str:
    """Return the mean of a cell's runs as it is printed, before cells are made relative to a row."""
    values = parse_samples(line.get("values")).values()
    return fixed(fmean(values) if values else line["mean"], decimals)


def fixed(value: float, decimals: int) -> str:
    """Return a number as it is printed; nothing for NaN."""
    return "" if math.isnan(value) else f"{value:.{decimals}f}"


def failed_in(line: Line) -> str:
    """Return of what runs of a cell failed; a csv of older code doesn't say."""
    return str(line.get("failed") or "")


def missed(frame: DataFrame) -> Series[float]:
    """Return how many runs of each cell ended without what the table asks for."""
    return pd.Series([missed_in(line) for line in frame.to_dict("records")], frame.index, float)


def missed_in(line: Line) -> int:
    """Return how many runs of one cell did."""
    count = re.search(rf"(\d+) {MISSED}", failed_in(line))
    return int(count[1]) if count else 0


def _printed(line: Line, best: bool, p: float | None, decimals: int) -> PrintedCell:
    n, seeds, diverged = (int(line[key]) for key in ("n", "seeds", "diverged"))
    mark = style.DIVERGED if diverged else ""
    published = fixed(line["published_mean"], decimals)
    if published and not math.isnan(line["published_std"]):
        published += f" ± {fixed(line['published_std'], decimals)}"
    unmeasured, difference = not n or math.isnan(line["mean"]), line["difference"]
    parts = (
        f"{n} of {seeds} runs",
        f"{diverged} diverged" if diverged else "",
        failed_in(line),
        "" if p is None or unmeasured else f"p = {p:.2g} against the best",
        "" if math.isnan(difference) else f"{difference:+.2f} to the published value",
        line["verdict"],
    )
    remark = "; ".join(filter(None, parts))
    if unmeasured:
        failure = next((word for word in (MEMORY, FAILED, MISSED) if word in failed_in(line)), "–")
        return PrintedCell("diverged" if diverged else failure, mark=mark, published=published, remark=remark)
    mean, bold = fixed(line["mean"], decimals), n == seeds and best
    close = not bold and p is not None and p >= ALPHA
    if n + diverged + missed_in(line) < seeds:
        mark += PARTIAL
    return PrintedCell(mean, fixed(line["std"], decimals), bold, close, mark, published, remark)
