"""The targets of a study, from its file: what a paper's folder declares, without a line of Python."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedcore.base.errors import SpecError
from fedcore.base.files import digest
from fedcore.base.lazy import DataFrame, pd
from fedcore.partitions.figure import labels as draw_labels
from pipeline.catalogue.grids import Setting, alike, data_set, method_label, rows, settings
from pipeline.catalogue.params import StudyError, require_known
from pipeline.catalogue.schema import PaperParams, StudyParams
from pipeline.catalogue.targets import Best, Changes, Column, Paper, Query, Target, Variation
from pipeline.reports import benchmark, cost, figures, ranks, significance
from pipeline.reports.drawings import Curves, Drawing, Inputs, Picture, by_label
from pipeline.reports.results import RunFacts
from pipeline.reports.search import (
    SELECTION,
    Choice,
    Search,
    chosen_of_today,
    held_out,
    on_held_out,
    search,
    seeds,
    tried,
)
from pipeline.reports.tables import Table

BASE = "fedavg"
PARTITION = "partition"


class Metric(NamedTuple):
    """A metric: its column in histories, its name after "test", what measures it, how numbers are printed."""

    column: str
    label: str
    changes: Changes = ()
    factor: float = 100.0
    sign: str = "%"
    decimals: int = 2
    best: Best = "largest"

    def printed(self, value: float) -> str:
        """Return a value of the column in print."""
        return f"{self.factor * value:.{self.decimals}f}{self.sign}"


OF_TABLES = ("metric", "target", "diverged", "test", "margin", "show")
OF_BOARDS = ("controls", "headlines", "contrasts", "factorial", "without")
METRICS = {
    "accuracy": Metric("test_accuracy", "accuracy"),
    "f1": Metric("test_f1", "F1", (("evaluation.metrics", ("f1",)),)),
    "auc": Metric("test_auc", "AUC", (("evaluation.metrics", ("auc",)),)),
    "loss": Metric("test_loss", "loss", factor=1.0, sign="", decimals=4, best="smallest"),
}


def study_paper(file: str, params: StudyParams) -> Paper:
    """Return a study's targets, or raise StudyError with file and key if the grid or a variant is wrong."""
    try:
        by_key = settings(params)
        named = rows(params)
        _refuse_unused(params, named, by_key)
        targets = _targets(_Design(params, METRICS[params.report.metric], named, by_key))
        if params.benchmark:
            kept = {PARTITION + "s": targets[PARTITION + "s"]}
            targets = kept | benchmark.benchmark_targets(Path(file).stem, params, by_key)
    except SpecError as error:
        raise StudyError(f"{file}: {error}") from None
    shown = (*params.report.show, *tuned(params))
    return Paper(
        title=params.title,
        citation=file,
        datasets={name: params.report.labels.get(name, name) for name in params.datasets},
        targets={name: target for name, target in targets.items() if params.benchmark or name in shown},
        numbers=None,
        code=__name__,
        shown=digest(params.model_dump(mode="json")),
    )


def _refuse_unused(
    params: StudyParams, named_rows: Mapping[str, Variation], by_key: Mapping[str, Setting]
) -> None:
    """Refuse keys that would change nothing."""
    splits = [
        (f"datasets.{name}.splits.{split}", split, section.model_extra or {})
        for name, dataset in params.datasets.items()
        for split, section in dataset.splits.items()
    ]
    named = {**params.regimes, **params.datasets, **{split: section for _, split, section in splits}}
    for number, entry in enumerate(params.chosen):
        require_known(f"chosen.{number}.at", entry.at, {**named, **by_key})
        require_known(f"chosen.{number}.of", entry.of or "", {**params.algorithms, "": None})
    report = params.report
    sides = {name: client for client, servers in report.factorial.items() for name in (client, *servers)}
    printed = {**params.algorithms, **report.controls, **sides, **named}
    for name in report.labels:
        require_known("report.labels", name, printed)
    bare = [where for where, _, section in splits if not section.get("selection")]
    if params.tune.held_out == SELECTION and tuned(params) and bare:
        raise SpecError(f"{bare[0]}.selection: missing, but tune.held_out is 'selection'")
    if params.benchmark is None:
        used = {f"datasets.{name}.tune": dataset.tune for name, dataset in params.datasets.items()}
        used |= {f"report.{key}": getattr(report, key) for key in OF_BOARDS}
        for key in filter(used.get, used):
            raise SpecError(f"{key}: given, but the study is no benchmark, which alone has it")
        return
    for key in OF_TABLES:
        if key in report.model_fields_set:
            raise SpecError(f"report.{key}: given, but a benchmark's reports don't have it")
    for key, row in named_rows.items():
        if key != row.method:
            where = f"algorithms.{row.method}: its grid or variants, or the study's, give"
            raise SpecError(f"{where} several rows, but a benchmark has one a method, which it tunes")


@dataclass(frozen=True)
class _Design:
    params: StudyParams
    metric: Metric
    methods: Mapping[str, Variation]
    settings: Mapping[str, Setting]

    @cached_property
    def names(self) -> dict[str, str]:
        return {key: row.label for key, row in self.methods.items()}

    @cached_property
    def headings(self) -> dict[str, str]:
        return {key: f"{setting.group} {setting.label}" for key, setting in self.settings.items()}

    def dataset(self, row: str, column: str) -> str:
        name = self.settings[column].dataset
        return self.params.report.labels.get(name, name)

    def query(self, row: str, column: str) -> Query:
        return self.settings[column].query(self.methods[row], *self.metric.changes)

    def candidate(self, params: PaperParams, column: str, search: Search, choice: Choice) -> Query:
        plain = Variation(search.label, search.method, (*held_out(params), *choice.items()))
        return replace(self.settings[column].query(plain, *self.metric.changes), seeds=seeds(params))

    def measure(self, facts: RunFacts, column: str) -> float | None:
        if facts.diverged and self.params.report.diverged == "untrained":
            return self.metric.factor * float(facts.untrained[self.metric.column])
        return facts.score(self.metric.column, self.metric.factor)


def _targets(design: _Design) -> dict[str, Target]:
    table = _table(design)
    return {
        "table": table,
        "curves": _curves(design),
        "ranks": ranks.summary(
            replace(table, published="Mean ranks"),
            title="Ranks of the methods in each column, 1 being the best",
            dataset={key: data_set(design.params, setting) for key, setting in design.settings.items()},
        ),
        "cost": _cost(design),
        "partitions": _partitions(design),
        **_searches(design, table),
    }


def _table(design: _Design) -> Table:
    title, report, metric = design.params.title.rstrip(". "), design.params.report, design.metric
    return Table(
        title=f"{title} Test {metric.label}" if title.endswith("?") else f"{title}: test {metric.label}",
        published="Table",
        columns=lambda params: tuple(Column(c.key, c.label, c.group) for c in design.settings.values()),
        rows=lambda params: design.names,
        query=design.query,
        measure=design.measure,
        dataset=design.dataset,
        unit=metric.sign or "no unit",
        decimals=metric.decimals,
        best=metric.best,
        test=report.test,
        note=partial(_note, design),
        untrained=report.diverged == "untrained",
    )


def _curves(design: _Design) -> Curves:
    keys, names, metric = [*design.settings], design.names, design.metric
    return Curves(
        title=f"Test {metric.label} over rounds",
        published="Curves",
        panels=design.headings,
        across=min(2, len(keys)),
        rows=lambda params: names,
        queries=lambda params: {(row, key): design.query(row, key) for key in keys for row in names},
        metric=metric.column,
        factor=metric.factor,
        axis=f"test {metric.label}" + (metric.sign and f" ({metric.sign})"),
    )


def _cost(design: _Design) -> cost.Cost:
    params, report, metric = design.params, design.params.report, design.metric
    base, labels = _base(params), {key: (c.group, c.label) for key, c in design.settings.items()}
    ends = f"the test {metric.label} with which {method_label(params, base)} ends at the same seed"
    reached = f"a test {metric.label} of {report.target:g}" if report.target else ends
    return cost.Cost(
        title=f"Rounds and traffic until {reached}",
        published="Cost",
        columns=lambda params: cost.columns(labels),
        rows=lambda params: design.names,
        query=lambda row, column: design.query(row, cost.split(column)[1]),
        dataset=lambda row, column: design.dataset(row, cost.split(column)[1]),
        unit="rounds; megabytes both ways, all clients",
        best="smallest",
        test="none",
        when="",
        note=cost.levels_note(metric.printed, design.headings),
        metric=metric.column,
        falling=metric.best == "smallest",
        target=report.target,
        base=tuple(key for key, row in design.methods.items() if row.method == base),
    )


def _partitions(design: _Design) -> Drawing:
    first, seed = next(iter(design.methods)), design.params.seeds[:1]
    return Drawing(
        title="Who holds which labels, at the first seed",
        published="Partitions",
        queries=lambda params: {
            (PARTITION, key): replace(design.query(first, key), seeds=seed) for key in design.settings
        },
        draw=partial(_draw_partitions, design.headings),
        rows=lambda params: {PARTITION: "Partition"},
        needs="partitions",
    )


def _searches(design: _Design, table: Table) -> dict[str, Table]:
    params, metric = design.params, design.metric
    title = f"Candidates of {{}}: {metric.label} on held-out rows"
    searches, on_selection = tuned(params), params.tune.held_out == SELECTION
    if params.tune.model_fields_set and not (searches or params.benchmark):
        raise SpecError("tune: given, but there are no values to try")
    measure = on_held_out(lambda facts: params.report.metric, metric.factor, on_selection)
    printed = {key: getattr(table, key) for key in ("dataset", "unit", "decimals", "best")}
    return {
        name: search(wanted, design.candidate, title, table.columns, measure, **printed)
        for name, wanted in searches.items()
    }


def tuned(params: StudyParams) -> dict[str, Search]:
    """Return the search of each method that has values to try, by the name of its report.

    It raises SpecError if a key, or one that excludes it, is in the grid or in a variant too.
    """
    by_report = {}
    for name, algorithm in params.algorithms.items():
        if keys := tried(params, name):
            cases = [*params.variants.values(), *algorithm.variants.values()]
            taken = {key: "variants" for case in cases for key in case}
            taken |= dict.fromkeys((*params.grid, *algorithm.grid), "grid")
            for key, other in product(keys, taken):
                if other in alike(key):
                    raise SpecError(f"algorithms.{name}: '{key}' is in tune and {taken[other]}, expected one")
            by_report[f"tune_{name}"] = Search(name, method_label(params, name), "Tuning")
    return by_report


def _note(design: _Design, frame: DataFrame) -> str:
    """Say for the caption what values were chosen from, and what is equivalent where a margin is given."""
    params, names, unit = design.params, design.names, design.metric.sign and " points"
    margin, source, decimals = params.report.margin, "", design.metric.decimals
    if tuned(params):
        named = ", ".join(sorted({entry.source.partition(":")[0] for entry in params.chosen}))
        source = f"Values were chosen on held-out rows, by {named}." if named else "No value is chosen yet."
        if old := [entry.of or entry.at for entry in params.chosen if not chosen_of_today(params, entry)]:
            source += (
                f" Those of {', '.join(dict.fromkeys(old))} were chosen among other candidates than today's."
            )
    if margin is None:
        return source
    base = next(key for key, row in design.methods.items() if row.method == _base(params))
    tested = {
        f"{names[row]} on {design.headings[column]} ({difference:+.{decimals}f}, p = {p:.2g})": p
        for column, samples in significance.complete(frame).items()
        for row, (difference, p) in significance.equivalent(samples, base, margin).items()
    }
    near = "; ".join(line for line, p in tested.items() if p < significance.ALPHA) or "none"
    least = f"{margin:g}{unit[:-1] if margin == 1 else unit}"
    return (
        f"{source} Less than {least} from {names[base]} (two one-sided paired t-tests, p "
        f"below {significance.ALPHA:g} after Holm's correction over the methods of a column): "
        f"{near if tested else f'not tested: {significance.FEW_PAIRS}'}."
    ).strip()


def _base(params: StudyParams) -> str:
    named = {algorithm.name or name: name for name, algorithm in reversed(params.algorithms.items())}
    return named.get(BASE, next(iter(params.algorithms)))


def _draw_partitions(titles: Mapping[str, str], inputs: Inputs) -> Picture:
    """Draw who holds which labels in each setting; settings that share a partition have one picture."""
    first: dict[str, tuple[str, RunFacts]] = {}
    for (_, column), (facts, *_) in inputs.cells.items():
        first.setdefault(facts.run.partition, (column, facts))
    drawn = dict(first.values())
    across, frames = min(2, len(drawn)), []
    shown = {key: titles[key] for key in drawn}
    figure, panels = figures.panels(shown, 0.5 + 2.2 * ceil(len(drawn) / across), across)
    for column, facts in drawn.items():
        axes, listed = panels[column], facts.statistics.get("label_counts")
        axes.set_xlabel("client")
        if listed is None:
            axes.text(0.5, 0.5, "too many labels to list", ha="center", transform=axes.transAxes)
            continue
        counts = np.array(listed)
        draw_labels(axes, counts)
        frames.append(by_label(counts, row=PARTITION, column=column))
    return Picture(pd.concat(frames or [pd.DataFrame()], ignore_index=True), figure, ())
