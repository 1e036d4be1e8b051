"""Tables of means over seeds: summaries in, csv, Markdown, HTML and LaTeX out."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedcore.base.files import write_text
from fedcore.base.lazy import pd
from fedcore.execution.status import MEMORY
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Best, Cell, Column, Paper, PlannedRun, Query, Sources, Target, Test
from pipeline.reports import agreement, captions, significance, style
from pipeline.reports.agreement import stands_in
from pipeline.reports.captions import Caption
from pipeline.reports.earlier import NOTHING, Earlier, earlier_cells, together
from pipeline.reports.grid import Grid, PrintedCell, groups
from pipeline.reports.render import csv, write_grid
from pipeline.reports.results import (
    UNKNOWN,
    Origin,
    Published,
    Summary,
    causes,
    final_of,
    notes_of,
    origin_of,
    pair_key,
    published_cells,
    refuse_changed,
    require_one_scale,
    short_hash,
    statistics_of,
    summary_of,
    verdict,
)
from pipeline.reports.search import best
from pipeline.reports.significance import ALPHA, Comparison

COLUMNS = (
    "paper",
    "target",
    "row",
    "column",
    "mean",
    "std",
    "n",
    "seeds",
    "diverged",
    "failed",
    "p_best",
    "published_mean",
    "published_std",
    "published_unit",
    "difference",
    "margin",
    "margin_rule",
    "verdict",
    "scale",
    "variant",
    "data",
    "data_state",
    "specs",
    "values",
)
PARTIAL = "†"
FAILED = "failed"
SENTENCE = re.compile(r"(?<=\.) (?=[A-Z])")
Line = Mapping[Hashable, Any]


@dataclass(frozen=True, kw_only=True)
class Table(Target):
    """A table of means over seeds.

    Attributes:
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
        relative: changes the tidy frame once it is collected, as for cells relative to a row.
        dataset: (row, column key) -> the data set in print that a cell is about, for the caption's notes on
            data; the column's heading unless given.
        beside: the target whose published numbers are shown with its cells; its own by default.
        beside_cell: (row, column) -> the cell there; the one of the same name unless given.
        search: its rows are candidates, the best of which ``pipeline chosen`` puts into parameters.
    """

    kind = "table"
    kept = ("csv", "md")
    columns: Callable[[PaperParams], tuple[Column, ...]]
    query: Callable[[str, str], Query] | None = None
    queries: Callable[[PaperParams, str, str], tuple[Query, ...]] | None = None
    rows: Callable[[PaperParams], Mapping[str, str]] | None = None
    measure: Callable[[PlannedRun, Path, str], float | None] | None = None
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

    def build(self, found: Sources, outputs: Mapping[str, Path]) -> None:
        """Write the table in all its forms."""
        columns = self.columns(found.params)
        refuse_changed(found.runs, found.root)
        frame = tidy(
            found.paper,
            found.name,
            self,
            found.cells,
            found.about.numbers,
            found.root,
            columns,
            found.earlier,
        )
        labels = self.row_labels(found.params)
        grid = arrange(frame, self, columns, found.about, labels, origin_of(found.runs, found.root))
        write_text(outputs["csv"], csv(frame))
        write_grid(grid, outputs)


def tidy(
    paper: str,
    target: str,
    table: Table,
    cells: Mapping[tuple[str, str], Sequence[PlannedRun]],
    published: Path | None,
    root: Path = Path(),
    columns: Sequence[Column] = (),
    earlier: Path | None = None,
) -> pd.DataFrame:
    """Return one line per cell: mean and standard deviation over runs, and the published numbers.

    The standard deviation has n - 1 in its denominator and is missing for one run. A diverged run
    counts in ``diverged`` and not in the mean; ``failed`` says of what runs without a result failed.
    ``values`` holds each run's own number, before cells are made relative; ``p_best`` is corrected, and
    missing for the best cell and where no test could run.

    Args:
        paper, target: names of what is collected.
        table: which measurement, in what unit.
        cells: the runs of each (row, column).
        published: the paper's published.csv; None compares with nothing.
        root: the folder that holds results/.
        columns: the columns in which methods are tested against the best.
        earlier: this table as another sitting made it; its numbers stand where a run isn't here, as long as
            their specifications are those of today.

    Raises:
        DataError: a summary is damaged or foreign, or the runs are of several scales or variants.
    """
    require_one_scale([run for runs in cells.values() for run in runs])
    known = {} if published is None else published_cells(published, table.beside or target)
    before = {} if earlier is None else earlier_cells(earlier)
    lines = [
        _line(
            paper, target, table, cell, runs, known.get(_beside(table, cell)), root, before.get(cell, NOTHING)
        )
        for cell, runs in cells.items()
    ]
    frame = pd.DataFrame(lines, columns=list(COLUMNS))
    frame = significance.with_p(frame, significance.columns(frame, table.best, table.test, columns))
    return frame if table.relative is None else table.relative(frame)


def _beside(table: Table, cell: tuple[str, str]) -> tuple[str, str]:
    return cell if table.beside_cell is None else table.beside_cell(*cell)


def _line(
    paper: str,
    target: str,
    table: Table,
    cell: tuple[str, str],
    runs: Sequence[PlannedRun],
    known: Published | None,
    root: Path,
    before: Earlier,
) -> tuple[Any, ...]:
    found = [run for run in runs if _made_of(table, run, root) is not None]
    numbers = [(run, measured(table, run, root, cell[1])) for run in found]
    samples = _samples([(run, value) for run, value in numbers if value is not None])
    specs = [short_hash(run) for run in found]
    notes = [notes_of(run, root) for run in found]
    asked = list(map(short_hash, runs)) if before.specs else []
    if before.specs and {*before.specs} <= {*asked}:
        samples = together(before.samples, samples, [pair_key(run) for run in runs])
        specs = [spec for spec in dict.fromkeys(asked) if spec in {*specs, *before.specs}]
        notes = [before.notes, *(note for note in notes if note != before.notes)]
    values = list(samples.values())
    mean = statistics.fmean(values) if values else math.nan
    std = statistics.stdev(values) if len(values) > 1 else math.nan
    known = known or Published()
    states = _joined(word for state, _ in notes for word in state.split())
    compared = agreement.Agreement(mean, *known)
    scale = runs[0].scale
    return (
        paper,
        target,
        *cell,
        mean,
        std,
        len(values),
        len(runs),
        len(specs) - len(values),
        causes(runs, root) if len(specs) < len(runs) else "",
        math.nan,
        *known,
        compared.difference,
        compared.margin,
        compared.rule,
        verdict(compared, scale, stands_in(states, known.unit)),
        scale,
        runs[0].spec["variant"],
        _joined(note for _, note in notes),
        states,
        _joined(specs),
        significance.written(samples),
    )


def _samples(numbers: Sequence[tuple[PlannedRun, float]]) -> dict[str, float]:
    """Return runs' numbers by pair, as the table states them; runs with one pair get different keys."""
    samples: dict[str, float] = {}
    for run, value in numbers:
        pair = pair_key(run)
        same = sum(key.partition("#")[0] == pair for key in samples)
        samples[f"{pair}#{same}" if same else pair] = value
    return significance.parsed(significance.written(samples))


def _made_of(table: Table, run: PlannedRun, root: Path) -> Summary | None:
    return statistics_of(run, root) if table.needs == "partitions" else summary_of(run, root)


def measured(table: Table, run: PlannedRun, root: Path, column: str) -> float | None:
    """Return a run's number in the table's unit, None if it diverged."""
    if table.measure is not None:
        return table.measure(run, root, column)
    final = final_of(run, root)
    return table.factor * final[table.metric] if final else None


def _joined(parts: Any) -> str:
    return " ".join(dict.fromkeys(parts)) if parts else ""


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
        frame: one line per cell.
        table: what is printed, and how.
        columns: the columns, in order.
        paper: the paper it belongs to.
        labels: labels of rows that are no algorithms.
        origin: where it comes from.
    """
    lines = {(line["row"], line["column"]): line for line in frame.to_dict("records")}
    names = {name: labels.get(name) or style.label(name) for name in dict.fromkeys(frame["row"])}
    compared = significance.columns(frame, table.best, table.test, columns)
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
    """Return the text for a cell without a result."""
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
    """Describe the result, without sentences that would name a method without finished runs."""
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
            for part in SENTENCE.split(captions.note(table.note, frame))
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


def _number(value: float, decimals: int) -> str:
    return "" if math.isnan(value) else f"{value:.{decimals}f}"


def _with_std(mean: float, std: float, decimals: int) -> str:
    text = _number(mean, decimals)
    return text + (f" ± {_number(std, decimals)}" if text and not math.isnan(std) else "")
