"""What a paper declares: its tables and figures, as questions to the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from fedcore.lazy import Figure, pd
from pipeline.schema import PaperParams

Cell = tuple[str, str]
Needs = Literal["runs", "partitions"]
Best = Literal["largest", "smallest", "none"]
Test = Literal["t", "wilcoxon", "none"]
RESULTS = "results"
TABLE_FILES = ("csv", "md", "html", "tex", "standalone.tex")
FIGURE_FILES = ("csv", "svg", "pdf", "png")


@dataclass(frozen=True)
class Query:
    """One setting and algorithm; the catalogue answers with a run for each seed.

    Attributes:
        regime, dataset, split, algorithm: keys of the paper's parameters.
        changes: (dotted key of the specification, value) pairs, laid over the parameters last.
        seeds: seeds of its own, for partitions; runs take the paper's.
    """

    regime: str
    dataset: str
    split: str
    algorithm: str
    changes: tuple[tuple[str, Any], ...] = ()
    seeds: tuple[int, ...] | None = None

    @property
    def setting(self) -> str:
        """Readable name of the setting, shared by all its algorithms."""
        return f"{self.regime}-{self.dataset}-{self.split}"


@dataclass(frozen=True)
class PlannedRun:
    """One training run.

    Attributes:
        paper, scale, setting, dataset, algorithm, seed: what it is.
        method: the algorithm's name and the hash of the specification without its seed.
        spec: the resolved specification.
        code: hash of the code that it executes.
        partition: folder of the partition that it uses.
    """

    paper: str
    scale: str
    setting: str
    dataset: str
    algorithm: str
    method: str
    seed: int
    spec: Mapping[str, Any]
    code: str
    partition: str

    @cached_property
    def folder(self) -> str:
        """Where its files go."""
        return f"{self.group}/seed{self.seed}"

    @cached_property
    def group(self) -> str:
        """The folder that it shares with the other seeds."""
        return f"{RESULTS}/{self.paper}/{self.scale}/{self.setting}/{self.method}"

    def order(self) -> dict[str, Any]:
        """Return what ``fedcore run-batch`` is told."""
        return {
            "spec": self.spec,
            "out": self.folder,
            "partition": f"{self.partition}/partition.npz",
            "provenance": {"code": self.code},
        }


@dataclass(frozen=True)
class PartitionJob:
    """One partition of one data set, shared by all algorithms of a setting: its specification and code."""

    folder: str
    spec: Mapping[str, Any]
    code: str


@dataclass(frozen=True)
class Column:
    """A column of a table: ``key`` in files, ``label`` in print, under a ``group`` heading.

    ``decimals``, ``best`` and ``test`` take the place of the table's where they are given.
    """

    key: str
    label: str
    group: str = ""
    decimals: int | None = None
    best: Best | None = None
    test: Test | None = None


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
        best: which mean of a column is set in bold.
        test: the paired test that decides which others are underlined as not significantly worse.
        when: at which point of a run, for the caption; empty where that makes no sense.
        note: a sentence of its own for the caption, or what makes one of the tidy frame.
        heading: what stands over the rows' labels.
        columns: the columns, given the paper's parameters.
        query: the runs of a cell, given row and column key.
        queries: several settings whose runs make up one cell, such as folds, given the parameters, row
            and column key; takes the place of ``query``.
        rows: label of each row by key; the paper's algorithms unless given.
        measure: (run, folder of results/, column key) -> the number, in the table's unit, or None for a
            diverged run; ``metric`` times ``factor`` of the final measurements unless given.
        needs: what cells are made of: finished runs, or partitions only.
        relative: changes the tidy frame once it is collected, as for cells relative to a row.
        dataset: (row, column key) -> the data set in print that a cell is about, for the caption's notes on
            data; the column's heading unless given.
        beside: the target whose published numbers stand beside its cells; its own unless given.
        beside_cell: (row, column) -> the cell there; the one of the same name unless given.
        search: its rows are candidates, the best of which ``pipeline chosen`` puts into parameters.
    """

    title: str
    published: str
    columns: Callable[[PaperParams], tuple[Column, ...]]
    query: Callable[[str, str], Query] | None = None
    queries: Callable[[PaperParams, str, str], tuple[Query, ...]] | None = None
    rows: Callable[[PaperParams], Mapping[str, str]] | None = None
    measure: Callable[[PlannedRun, Path, str], float | None] | None = None
    needs: Needs = "runs"
    relative: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    dataset: Callable[[str, str], str] | None = None
    beside: str = ""
    beside_cell: Callable[[str, str], Cell] | None = None
    metric: str = "test_accuracy"
    factor: float = 100.0
    unit: str = "%"
    decimals: int = 2
    best: Best = "largest"
    test: Test = "t"
    when: str = "after the last round"
    note: str | Callable[[pd.DataFrame], str] = ""
    heading: str = "Method"
    search: bool = False

    def row_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return what rows that are no algorithms are called in print."""
        own = {} if self.rows is None else self.rows(params)
        return {row: label for row, label in own.items() if label}

    def column_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return what columns are called in print, each after its group."""
        return {c.key: f"{c.group} {c.label}".strip() for c in self.columns(params)}

    def cells(self, params: PaperParams) -> Mapping[Cell, tuple[Query, ...]]:
        """Return the queries of each (row, column), in reading order."""
        columns = self.columns(params)
        rows = params.algorithms if self.rows is None else self.rows(params)
        return {(row, c.key): self._asked(params, row, c.key) for row in rows for c in columns}

    def _asked(self, params: PaperParams, row: str, column: str) -> tuple[Query, ...]:
        if self.queries is not None:
            return self.queries(params, row, column)
        return () if self.query is None else (self.query(row, column),)


@dataclass(frozen=True)
class Panel:
    """One set of axes: a curve for each algorithm in one setting; of ``rows`` alone where they are given."""

    key: str
    label: str
    regime: str
    dataset: str
    split: str
    rows: tuple[str, ...] = ()


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
        rows: the algorithms that have a curve; all of the paper's unless given.
        so_far: show the largest value up to each round.
        queries: several settings whose runs make up one curve, such as folds, given the parameters, panel and
            algorithm; the panel's own setting unless given.
        series: (run, folder of results/) -> a run's values by round, in the figure's unit; ``metric`` times
            ``factor`` unless given.
        horizontal: label of the horizontal axis.
        shared: whether all panels have the same horizontal axis.
        note: a sentence of its own for the caption, or what makes one of the tidy frame.
    """

    title: str
    published: str
    panels: tuple[Panel, ...]
    metric: str = "test_accuracy"
    factor: float = 100.0
    axis: str = "test accuracy (%)"
    across: int = field(default=2)
    rows: tuple[str, ...] = ()
    so_far: bool = False
    queries: Callable[[PaperParams, Panel, str], tuple[Query, ...]] | None = None
    series: Callable[[PlannedRun, Path], pd.Series[float]] | None = None
    horizontal: str = "communication round"
    shared: bool = True
    note: str | Callable[[pd.DataFrame], str] = ""
    needs: Needs = "runs"

    def row_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return none: rows are algorithms."""
        del params
        return {}

    def column_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return what panels are called in print."""
        del params
        return {panel.key: panel.label for panel in self.panels}

    def cells(self, params: PaperParams) -> Mapping[Cell, tuple[Query, ...]]:
        """Return the queries of each (algorithm, panel)."""
        return {
            (name, p.key): self._asked(params, p, name)
            for p in self.panels
            for name in p.rows or self.rows or params.algorithms
        }

    def _asked(self, params: PaperParams, panel: Panel, name: str) -> tuple[Query, ...]:
        if self.queries is not None:
            return self.queries(params, panel, name)
        return (Query(panel.regime, panel.dataset, panel.split, name),)


@dataclass(frozen=True)
class Found:
    """What a drawing is given.

    Attributes:
        params: the paper's parameters.
        cells: the runs of each (row, column).
        root: the folder that holds results/.
        caption: what to print below the axes, given the drawing's own sentences.
    """

    params: PaperParams
    cells: Mapping[Cell, tuple[PlannedRun, ...]]
    root: Path
    caption: Callable[..., str]


@dataclass(frozen=True)
class Drawing:
    """A figure with a picture of its own.

    Attributes:
        title: what the figure shows.
        published: the figure's name in the paper.
        queries: the runs of each (row, column), of one setting or of several, given the paper's parameters.
        draw: returns the tidy numbers and the picture that was drawn from them.
        rows: label of each row by key, where they are no algorithms.
        needs: what it is made of: finished runs, or partitions only.
    """

    title: str
    published: str
    queries: Callable[[PaperParams], Mapping[Cell, Query | tuple[Query, ...]]]
    draw: Callable[[Found], tuple[pd.DataFrame, Figure]]
    rows: Callable[[PaperParams], Mapping[str, str]] | None = None
    needs: Needs = "runs"

    def row_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return what rows that are no algorithms are called in print."""
        own = {} if self.rows is None else self.rows(params)
        return {row: label for row, label in own.items() if label}

    def column_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return none: columns are data sets."""
        del params
        return {}

    def cells(self, params: PaperParams) -> Mapping[Cell, tuple[Query, ...]]:
        """Return the queries of each cell."""
        asked = self.queries(params)
        return {cell: own if isinstance(own, tuple) else (own,) for cell, own in asked.items()}


@dataclass(frozen=True)
class Entry:
    """A line of a listing: ``key`` in files, ``label`` in print, and a text for each column."""

    key: str
    label: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """A table of words: what follows from the parameters or the recipes alone, so it needs no run.

    Attributes:
        title: what the table shows, the caption's first sentence without its full stop.
        published: the table's name in the paper.
        columns: the columns, given the paper's parameters.
        entries: the lines, given the paper's parameters.
        heading: what stands over the lines' labels.
        note: a sentence of its own for the caption.
        scaled: whether the words change with the scale, which the caption then says.
        needs: nothing that could be missing.
    """

    title: str
    published: str
    columns: Callable[[PaperParams], tuple[Column, ...]]
    entries: Callable[[PaperParams], tuple[Entry, ...]]
    heading: str = ""
    note: str = ""
    scaled: bool = True
    needs: Needs = "runs"

    def row_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return none: rows are algorithms."""
        del params
        return {}

    def column_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return none: columns are data sets."""
        del params
        return {}

    def cells(self, params: PaperParams) -> Mapping[Cell, tuple[Query, ...]]:
        """Return no cells: nothing has to run."""
        del params
        return {}


Target = Table | Curves | Drawing | Listing


@dataclass(frozen=True)
class Paper:
    """What a paper's folder declares.

    Attributes:
        title: the paper's title.
        citation: authors, venue and year.
        datasets: label of each data set in print.
        targets: tables and figures by the name they have in reports/.
        numbers: the file of its published numbers; ``published.csv`` of its folder.
    """

    title: str
    citation: str
    datasets: Mapping[str, str]
    targets: Mapping[str, Target]
    numbers: Path = Path("published.csv")
