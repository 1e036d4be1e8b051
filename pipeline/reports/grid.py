"""From tidy numbers to a grid of printed cells: rounding, the best of a column, marks of missing runs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from pipeline.catalogue.targets import Column
from pipeline.reports.captions import Caption


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


def groups(columns: tuple[Column, ...]) -> tuple[tuple[str, int], ...]:
    """Return (heading, number of columns) of neighbours under one heading."""
    found: list[tuple[str, int]] = []
    for column in columns:
        if found and found[-1][0] == column.group:
            found[-1] = (column.group, found[-1][1] + 1)
        else:
            found.append((column.group, 1))
    return tuple(found)
