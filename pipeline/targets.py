"""What a paper declares: its tables and figures, as questions to the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pipeline.schema import PaperParams


@dataclass(frozen=True)
class Query:
    """One setting and algorithm; the catalogue answers with a run for each seed.

    Attributes:
        regime, dataset, split, algorithm: keys of the paper's parameters.
    """

    regime: str
    dataset: str
    split: str
    algorithm: str

    @property
    def setting(self) -> str:
        """Readable name of the setting, shared by all its algorithms."""
        return f"{self.regime}-{self.dataset}-{self.split}"


@dataclass(frozen=True)
class Column:
    """A column of a table: ``key`` in files, ``label`` in print, under a ``group`` heading."""

    key: str
    label: str
    group: str = ""


@dataclass(frozen=True)
class Table:
    """A table of means over seeds.

    Attributes:
        title: what the table shows, the caption's first sentence without its full stop.
        published: the table's name in the paper.
        metric: a key of a run's final measurements.
        factor: what the metric is multiplied by for print (100: per cent).
        unit: what the numbers are then.
        decimals: digits after the point.
        best: whether the largest or the smallest mean of a column is set in bold.
        columns: the columns, given the paper's parameters.
        query: the runs of a cell, given algorithm (row) and column key.
    """

    title: str
    published: str
    columns: Callable[[PaperParams], tuple[Column, ...]]
    query: Callable[[str, str], Query]
    metric: str = "test_accuracy"
    factor: float = 100.0
    unit: str = "%"
    decimals: int = 2
    best: Literal["largest", "smallest"] = "largest"

    def cells(self, params: PaperParams) -> Mapping[tuple[str, str], Query]:
        """Return the query of each (row, column), in reading order."""
        columns = self.columns(params)
        return {(row, c.key): self.query(row, c.key) for row in params.algorithms for c in columns}


@dataclass(frozen=True)
class Panel:
    """One set of axes: a curve for each algorithm in one setting."""

    key: str
    label: str
    regime: str
    dataset: str
    split: str


@dataclass(frozen=True)
class Curves:
    """A figure of curves over rounds, mean and standard deviation over seeds.

    Attributes:
        title: what the figure shows.
        published: the figure's name in the paper.
        panels: the sets of axes.
        metric: a column of a run's history.
        factor: what it is multiplied by.
        axis: label of the vertical axis.
        across: panels in a row.
    """

    title: str
    published: str
    panels: tuple[Panel, ...]
    metric: str = "test_accuracy"
    factor: float = 100.0
    axis: str = "test accuracy (%)"
    across: int = field(default=2)

    def cells(self, params: PaperParams) -> Mapping[tuple[str, str], Query]:
        """Return the query of each (algorithm, panel)."""
        return {
            (name, p.key): Query(p.regime, p.dataset, p.split, name)
            for p in self.panels
            for name in params.algorithms
        }


Target = Table | Curves


@dataclass(frozen=True)
class Paper:
    """What a paper's folder declares.

    Attributes:
        title: the paper's title.
        citation: authors, venue and year.
        datasets: label of each data set in print.
        targets: tables and figures by the name they have in reports/.
    """

    title: str
    citation: str
    datasets: Mapping[str, str]
    targets: Mapping[str, Target]
