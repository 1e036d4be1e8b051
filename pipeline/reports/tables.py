"""Tables of means over seeds: runs in, csv, Markdown, HTML and LaTeX out."""

import contextlib
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from fedcore.base.lazy import DataFrame, pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Best, Cell, Column, Paper, Query, Sources, Target, Test
from pipeline.reports import captions, results, significance, style
from pipeline.reports.agreement import Agreement, stands_in
from pipeline.reports.grid import (
    MISSED,
    PARTIAL,
    Grid,
    Line,
    PrintedCell,
    failed_in,
    missed,
    missed_in,
    printed_column,
)
from pipeline.reports.kept import NotKept
from pipeline.reports.render import write_grid
from pipeline.reports.results import Published, RunFacts, Summary, is_made, pair_key, short_hash
from pipeline.reports.significance import Comparison

COLUMNS = (
    *("paper", "target", "row", "column", "mean", "std", "n", "seeds", "diverged", "failed", "p_best"),
    *("published_mean", "published_std", "published_unit", "difference", "margin", "margin_rule", "verdict"),
    *("scale", "variant", "data", "data_state", "specs", "values"),
)
NEVER = math.inf
FACTS: Mapping[str, tuple[str, Callable[[Summary], float]]] = {
    "classes": ("classes", lambda data: data["data_classes"]),
    "training_size": ("training rows", lambda data: data["data_rows"]["train"]),
    "testing_size": ("test rows", lambda data: data["data_rows"]["test"]),
    "features": ("features", lambda data: data["data_features"]),
    "dimensions": ("dimensions", lambda data: data["data_features"]),
    "c_score": ("class non-IID score (% of the largest)", lambda data: 50 * data["c_score"]),
    "spread": (
        "sd of clients' rows (% of mean)",
        lambda data: 100 * data["sizes"]["std"] / data["sizes"]["mean"],
    ),
    "labels": (
        "most labels of a client",
        lambda data: max(sum(map(bool, counts)) for counts in data["label_counts"]),
    ),
}
SENTENCE = re.compile(r"(?<=\.) (?=[A-Z])")


@dataclass(frozen=True, kw_only=True)
class Table(Target):
    """A table of means over seeds.

    Attributes:
        unit: of its numbers, for the caption.
        decimals: digits after the point.
        best: which mean of a column is set in bold.
        test: the paired test that decides which others are underlined as not significantly worse.
        when: at which point of a run, for the caption; empty where that makes no sense.
        note: a sentence of its own for the caption, or what makes one of the tidy frame.
        heading: what stands over the rows' labels.
        query: the runs of a cell, given row and column key, where ``queries`` gives none.
        measure: (run's facts, column key) -> the number, in the table's unit, None for a diverged run, or
            ``NEVER`` for one that did not get there; the test accuracy after the last round in per cent
            unless given.
        finish: changes the tidy frame once it is collected, as where cells become relative to a row.
        dataset: (row, column key) -> the data set in print that a cell is about, for the caption's notes on
            data; the column's heading unless given.
        beside: the target whose published numbers are shown with its cells; its own by default.
        beside_cell: (row, column) -> the cell there; the one of the same name unless given.
        search: its rows are candidates, the best of which ``fedcore chosen`` puts into parameters.
        untrained: ``measure`` gives a diverged run the number of the model before the first round.
        apart: whether a row doesn't compete for the best.
    """

    kind = "table"
    kept = ("csv", "md")
    query: Callable[[str, str], Query] | None = None
    measure: Callable[[RunFacts, str], float | None] | None = None
    finish: Callable[[DataFrame], DataFrame] | None = None
    dataset: Callable[[str, str], str] | None = None
    beside: str = ""
    beside_cell: Callable[[str, str], Cell] | None = None
    unit: str = "%"
    decimals: int = 2
    best: Best = "largest"
    test: Test = "t"
    when: str = "after the last round"
    note: captions.Note = ""
    heading: str = "Method"
    search: bool = False
    untrained: bool = False
    apart: Callable[[str], bool] | None = None

    def cells(self, params: PaperParams) -> Mapping[Cell, tuple[Query, ...]]:
        """Return the queries of each (row, column), in reading order."""
        keys = product(self.rows(params), (c.key for c in self.columns(params)))
        queries = {cell: (self.query(*cell),) if self.query else () for cell in keys}
        return super().cells(params) or queries

    def build(self, sources: Sources, outputs: Mapping[str, Path]) -> None:
        """Write the table in all its forms."""
        results.refuse_changed(sources.runs, sources.root)
        cells = results.read(sources.cells, sources.root, sources.kept_folder)
        columns = self.columns(sources.params)
        numbers = sources.declared.numbers
        frame = tidy(sources.paper, sources.name, self, cells, numbers, columns, sources.earlier)
        labels = self.row_labels(sources.params)
        origin = captions.origin_of(results.each_once(cells) if self.needs == "runs" else ())
        grid = arrange(frame, self, columns, sources.declared, labels, origin)
        write_grid(grid, frame, outputs, sources.layout)


def tidy(
    paper: str,
    target: str,
    table: Table,
    cells: Mapping[Cell, Sequence[RunFacts]],
    published: Path | None,
    columns: Sequence[Column] = (),
    earlier: Path | None = None,
) -> DataFrame:
    """Return one line per cell: mean and standard deviation over runs, and the published numbers.

    The standard deviation has n - 1 in its denominator and is missing for one run. A diverged run
    counts in ``diverged`` and not in the mean; ``failed`` says of what runs without a result failed.
    ``values`` holds each run's own number, before cells are made relative; ``p_best`` is corrected, and
    missing for the best cell and where no test could run.

    Args:
        published: the paper's published.csv; None compares with nothing.
        columns: the columns in which methods are tested against the best.
        earlier: this table as another sitting made it; its numbers stand where a run isn't here, as long as
            their specifications are those of today.

    It raises DataError if a summary is damaged or foreign, or the runs are of several scales or variants.
    """
    results.require_one_scale([facts.run for runs in cells.values() for facts in runs])
    published_cells = results.published_cells(published, table.beside or target)
    before = {} if earlier is None else results.earlier_cells(earlier)
    lines = []
    for cell, runs in cells.items():
        beside = cell if table.beside_cell is None else table.beside_cell(*cell)
        key = {"paper": paper, "target": target, "row": cell[0], "column": cell[1]}
        published_cell = published_cells.get(beside, Published())
        lines.append(key | _line(table, cell[1], runs, published_cell, before.get(cell, {})))
    frame = pd.DataFrame(lines, columns=list(COLUMNS))
    frame = significance.with_p(frame, compared_in(frame, table, columns))
    return frame if table.finish is None else table.finish(frame)


def compared_in(frame: DataFrame, table: Table, columns: Sequence[Column]) -> dict[str, Comparison]:
    """Compare the rows of each column that compete for the best: complete ones that don't stand apart.

    Which mean is best, and which test is meant, a column may say otherwise than its table.
    """
    rivals = frame if table.apart is None else frame[~frame["row"].map(table.apart).astype(bool)]
    samples = significance.complete(rivals)
    return {
        c.key: significance.compare(samples.get(c.key, {}), c.best or table.best, c.test or table.test)
        for c in columns
    }


def _line(
    table: Table, column: str, runs: Sequence[RunFacts], published: Published, before: Line
) -> dict[str, object]:
    numbers = dict(measured(table, column, runs))
    never = [*numbers.values()].count(NEVER)
    samples, specs = _samples(numbers), [short_hash(run.run) for run in numbers]
    notes, all_specs = [run.notes for run in numbers], [short_hash(run.run) for run in runs]
    earlier = {*str(before.get("specs", "")).split()}
    if earlier and earlier <= {*all_specs}:
        pairs = [pair_key(run.run) for run in runs]
        samples = results.merge_samples(significance.parse_samples(before["values"]), samples, pairs)
        never += min(missed_in(before), len(earlier.difference(specs)))
        specs = [spec for spec in dict.fromkeys(all_specs) if spec in earlier.union(specs)]
        notes = [(before["data_state"], before["data"]), *notes]
    values = list(samples.values())
    mean = statistics.fmean(values) if values else math.nan
    states = _joined(word for state, _ in notes for word in state.split())
    compared, planned = Agreement(mean, *published), runs[0].run
    failed = (results.causes(runs) if len(specs) < len(runs) else "", f"{never} {MISSED}" if never else "")
    diverged = sum(run.diverged for run in numbers)
    margin, rule = compared.margin
    return {
        "mean": mean,
        "std": statistics.stdev(values) if len(values) > 1 else math.nan,
        "n": len(values),
        "seeds": len(runs),
        "diverged": diverged if table.untrained else len(specs) - len(values) - never,
        "failed": "; ".join(filter(None, failed)),
        "p_best": math.nan,
        "published_mean": published.mean,
        "published_std": published.std,
        "published_unit": published.unit,
        "difference": compared.difference,
        "margin": margin,
        "margin_rule": rule,
        "verdict": results.verdict(compared, planned.scale, stands_in(states, published.unit)),
        "scale": planned.scale,
        "variant": planned.spec["variant"],
        "data": _joined(note for _, note in notes),
        "data_state": states,
        "specs": _joined(specs),
        "values": significance.format_samples(samples),
    }


def measured(table: Table, column: str, runs: Iterable[RunFacts]) -> Iterator[tuple[RunFacts, float | None]]:
    """Yield finished runs' numbers, but of kept runs that don't hold what the table needs."""
    for run in runs:
        if is_made(run.run, run.root, table.needs == "partitions", run.kept_folder):
            with contextlib.suppress(NotKept):
                yield run, run.score("test_accuracy") if table.measure is None else table.measure(run, column)


def _samples(numbers: Mapping[RunFacts, float | None]) -> dict[str, float]:
    """Return runs' numbers by pair, as the table states them; runs with one pair get different keys."""
    samples, seen = dict[str, float](), Counter[str]()
    for run, value in numbers.items():
        if value is not None and value != NEVER:
            pair = pair_key(run.run)
            samples[f"{pair}#{seen[pair]}" if seen[pair] else pair] = value
            seen[pair] += 1
    return significance.parse_samples(significance.format_samples(samples))


def _joined(parts: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(parts))


def arrange(
    frame: DataFrame,
    table: Table,
    columns: Sequence[Column],
    paper: Paper,
    labels: Mapping[str, str] = {},
    origin: str = "",
) -> Grid:
    """Lay a tidy table out, without sentences that would name a method without finished runs.

    ``labels`` are those of rows that are no algorithms.
    """
    names = {name: labels.get(name) or style.label(name) for name in dict.fromkeys(frame["row"])}
    compared = compared_in(frame, table, columns)
    cells = {}
    for c in columns:
        of_column = frame[frame["column"] == c.key].to_dict("records")
        decimals = table.decimals if c.decimals is None else c.decimals
        cells[c.key] = printed_column(of_column, compared[c.key], decimals, table.apart)
    printed = [cell for column in cells.values() for cell in column.values()]
    lines = frame.to_dict("records")
    ran = set(frame[frame["n"] + frame["diverged"] > 0]["row"])
    absent = [label for name, label in names.items() if name not in ran]
    counts = {(line["row"], line["column"]): (int(line["diverged"]), int(line["seeds"])) for line in lines}
    lost_runs = {cell: runs for cell, runs in counts.items() if runs[0]}
    headings = {c.key: c.heading for c in columns}
    columns_in_print = {c.key: c.group or c.label for c in columns}
    tests = {c.key: c.test or table.test for c in columns}
    kinds = sorted({c.best or table.best for c in columns if compared[c.key].best is not None})
    has_means = frame["n"].any() or not (frame["diverged"].any() or missed(frame).any())
    title = captions.naming_only_what_ran(table.title, absent, f"{table.published}, in part")
    parts = SENTENCE.split(captions.note(table.note, frame))
    marks = "".join(cell.mark for cell in printed)
    sentences = (
        f"{title} ({table.unit})" + (f", {table.when}." if table.when else "."),
        captions.spread(frame[frame["std"].notna() | (frame["n"] == 1)]["values"]) if has_means else "",
        *(captions.naming_only_what_ran(part, absent) for part in parts),
        _chosen(frame, table, columns, names) if table.search else "",
        f"Bold: {' or '.join(kinds)} mean of the column." if any(cell.best for cell in printed) else "",
        captions.underlined(tests, compared, headings),
        f"{PARTIAL} fewer runs than asked for, never bold." if PARTIAL in marks else "",
        "–: not measured." if any(cell.mean == "–" for cell in printed) else "",
        captions.diverged(lost_runs, (names, headings), counts, untrained=table.untrained),
        captions.failed(filter(None, map(failed_in, lines))),
    )
    dataset = table.dataset or (lambda row, column: columns_in_print[column])
    notes = ((dataset(line["row"], line["column"]), line["data_state"], line["data"]) for line in lines)
    scale, variant = str(lines[0]["scale"]), str(lines[0]["variant"])
    return Grid(
        name=f"{frame['paper'].iloc[0]}-{frame['target'].iloc[0]}",
        columns=tuple(columns),
        rows=tuple(
            (label, tuple(cells[c.key].get(name, PrintedCell("")) for c in columns))
            for name, label in names.items()
        ),
        caption=captions.compose(sentences, table.published, paper, scale, variant, notes, origin),
        corner=table.heading,
    )


def of_datasets(
    published: str, facts: Collection[str], labels: Mapping[str, str], regime: str, split: str, algorithm: str
) -> Table:
    """Declare a table of data sets: rows, features and classes, as the loaded data have them.

    Its columns are ``facts``, keys of ``FACTS``; a setting of regime, split and algorithm uses each data set.
    """
    return Table(
        title="Data sets as they were loaded",
        published=published,
        columns=lambda params: tuple(Column(fact, FACTS[fact][0]) for fact in facts),
        rows=lambda params: {name: label for name, label in labels.items() if name in params.datasets},
        query=lambda row, column: Query(regime, row, split, algorithm, seeds=(0,)),
        measure=lambda run, column: float(FACTS[column][1](run.statistics)),
        dataset=lambda row, column: labels[row],
        needs="partitions",
        unit="counts",
        decimals=0,
        best="none",
        when="",
        heading="Data set",
    )


def _chosen(frame: DataFrame, table: Table, columns: Sequence[Column], names: Mapping[str, str]) -> str:
    labels = [column.label for column in columns]
    chosen = [(c, best(frame[frame["column"] == c.key], c.best or table.best)) for c in columns]
    parts = [
        f"{names[row]} ({c.label if labels.count(c.label) == 1 else c.heading})" for c, row in chosen if row
    ]
    return f"Chosen: {'; '.join(parts)}." if parts else ""


def best(cells: DataFrame, optimum: Best) -> str | None:
    """Return the row that a search chooses in one column, of those without a diverged run.

    The first of equal ones; None if the column has no best, or a candidate is missing. One of which a run did
    not get there counts as measured, and is not chosen.
    """
    without = cells["diverged"] + missed(cells)
    means = cells[without == 0].set_index("row")["mean"].dropna()
    if optimum == "none" or means.empty or (cells["n"] + without < cells["seeds"]).any():
        return None
    return str(means.idxmax() if optimum == "largest" else means.idxmin())
