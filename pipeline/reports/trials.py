"""The runs of a benchmark: its trials, the best of them again, and what a run is scored by."""

import csv
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from fedcore.base.errors import SpecError, reason
from fedcore.base.files import digest
from fedcore.base.lazy import Series, pd
from pipeline.catalogue.grids import Setting, data_set
from pipeline.catalogue.schema import BenchmarkParams, StudyParams, TimesParams, Tried
from pipeline.catalogue.specification import specification
from pipeline.catalogue.targets import Asked, Cell, Column, Query, Sources
from pipeline.reports import REPORTS
from pipeline.reports.agreement import ROUNDING
from pipeline.reports.kept import REFERENCE
from pipeline.reports.results import RunFacts, is_made
from pipeline.reports.search import Choice, candidates, held_out, tried
from pipeline.reports.significance import parse_samples
from pipeline.reports.tables import Table

TRIALS, AGAIN, FINALS = "trials", "again", "matrix"
DRAW = "draw"
COMPARED = {"headlines", "always"}
SHARED = {"common", "regimes", "datasets", "tune", "equal_trainings", "measurements"}


class Trial(NamedTuple):
    """A trial with all of its runs: how many of them diverged, their mean score, and its number."""

    diverged: int
    mean: float
    number: int


@dataclass(frozen=True)
class Plan:
    """What a benchmark compares: its parameters, the settings (a workload each) and the methods' names."""

    name: str
    params: StudyParams
    benchmark: BenchmarkParams
    settings: Mapping[str, Setting]
    labels: Mapping[str, str]

    @property
    def contenders(self) -> list[str]:
        """The base, and the methods that are compared with it, family by family."""
        return [self.benchmark.base, *chain(*self.benchmark.families.values())]

    @cached_property
    def protocol(self) -> str:
        """The hash of all that decides which runs there are and what is compared; not of words, controls."""
        decisive = self.params.model_dump(mode="json", exclude={"title", "report"}, exclude_defaults=True)
        decisive |= self.params.report.model_dump(mode="json", include=COMPARED, exclude_defaults=True)
        return digest(decisive)[:12]

    @property
    def controls(self) -> Mapping[str, Mapping[str, Any]]:
        """What each control changes in the runs of the base; no control decides what is in ``protocol``."""
        return self.params.report.controls

    @cached_property
    def cells(self) -> list[Cell]:
        """Each method with each setting in which it runs."""
        omit, settings = self.benchmark.omit, self.settings.items()
        omitted = {key: omit.get(setting.dataset, ()) for key, setting in settings}
        return [(name, key) for name in self.labels for key in omitted if name not in omitted[key]]

    @cached_property
    def rows(self) -> dict[str, str]:
        """What rows of each method's trials begin with; trials of another protocol have another one."""
        shared = self.params.model_dump(mode="json", include=SHARED, exclude_defaults=True)
        shared |= self.benchmark.model_dump(mode="json", include={"late"}, exclude_defaults=True)
        entries: dict[str, Any] = self.params.model_dump(mode="json", include={"algorithms"})["algorithms"]
        controls = self.params.report.model_dump(mode="json")["controls"]
        entries |= {key: [entries[self.benchmark.base], changes] for key, changes in controls.items()}
        return {key: f"{key}-{digest([shared, entries[key]])[:4]}" for key in self.labels}

    @cached_property
    def tried(self) -> dict[Cell, tuple[Tried, list[Choice]]]:
        """What is searched of each method in each setting, and its trials by number."""
        searched = {}
        for method, setting in self.cells:
            dataset, control = self.settings[setting].dataset, self.controls.get(method, {})
            values = tried(self.params, self.benchmark.base if control else method, dataset)
            trials = candidates(self.params.tune, values, f"{dataset}{control.get(DRAW, '')}")
            searched[method, setting] = values, trials
        return searched

    def query(self, method: str, setting: str, number: int, seeds: tuple[int, ...] | None = None) -> Query:
        """Return the runs of a trial: at the study's seeds on test rows, at others on those to choose by."""
        declared, control = self.settings[setting], self.controls.get(method, {})
        trial = self.tried[method, setting][1][number]
        method = self.benchmark.base if control else method
        measured = () if seeds is None else held_out(self.params)
        changes = (*declared.changes, *measured, *trial.items())
        query = Query(declared.regime, declared.dataset, declared.split, method, changes, seeds, declared.key)
        more = ((key, _applied(change, key, self.params, query)) for key, change in control.items())
        return replace(query, changes=(*changes, *(pair for pair in more if pair[0] != DRAW)))

    def dataset(self, setting: str) -> str:
        """Return the data set of a setting, the unit of inference."""
        return data_set(self.params, self.settings[setting])

    def measured(self, stage: str) -> dict[Cell, tuple[Trial, ...]]:
        """Return each cell's trials that have all of their runs.

        They are read from a stage's csv, the kept one and that of here; of two lines the latter counts. Lines
        of other seeds don't count.
        """
        further = self.benchmark.seeds if stage == AGAIN else ()
        seeds = {*map(str, (self.benchmark.seed, *further))}
        lines: dict[Cell, tuple[int, float]] = {}
        for path in (folder / self.name / f"{stage}.csv" for folder in (REFERENCE, REPORTS)):
            text = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
            try:
                lines |= {
                    (row["row"], row["column"]): (int(row["diverged"]), float(row["mean"]))
                    for row in csv.DictReader(text)
                    if row["n"] == row["seeds"]
                    and {pair.rpartition("/seed")[2] for pair in parse_samples(row["values"])} == seeds
                }
            except (KeyError, ValueError) as error:
                raise SpecError(f"{path}: no table of trials ({reason(error)}); build it again") from None
        methods = {row: method for method, row in self.rows.items()}
        cells: dict[Cell, tuple[Trial, ...]] = defaultdict(tuple)
        for (row, setting), line in lines.items():
            begin, _, number = row.rpartition("-")
            if begin in methods:
                cells[methods[begin], setting] += (Trial(*line, int(number)),)
        return cells

    @cached_property
    def best(self) -> dict[Cell, list[int]]:
        """The trials that run again, the best first, of each cell that has all of its trials."""
        ranked, count = self.ranked(TRIALS), self.params.tune.trials
        return {c: ranked[c][: self.benchmark.best] for c in self.cells if len(ranked.get(c, ())) == count}

    @cached_property
    def winners(self) -> dict[Cell, int]:
        """The trial that is chosen, of each cell whose best ones have run again."""
        again = self.ranked(AGAIN)
        lines = {c: [n for n in again.get(c, ()) if n in top] for c, top in self.best.items()}
        return {c: numbers[0] for c, numbers in lines.items() if len(numbers) == len(self.best[c])}

    def ranked(self, stage: str) -> dict[Cell, list[int]]:
        """Return each cell's measured trials, the best first, diverged ones last; then the earlier."""
        return {
            cell: [t.number for t in sorted(trials, key=lambda t: (t.diverged, -t.mean, t.number))]
            for cell, trials in self.measured(stage).items()
        }


def _applied(change: Any, key: str, params: StudyParams, query: Query) -> Any:
    if not isinstance(change, TimesParams):
        return change
    spec: Any = specification(params, query)
    value = reduce(lambda inner, part: inner.get(part, {}), key.split("."), spec)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpecError(f"report.controls: {key}: got a multiple, expected it of a number that runs get")
    return max(1, round(value * change.times)) if isinstance(value, int) else value * change.times


@dataclass(frozen=True, kw_only=True)
class Stage(Table):
    """A table of the cells that there are, in which not every method has every trial."""

    def build(self, sources: Sources, outputs: Mapping[str, Path]) -> None:
        """Write the cells of which a run was made, and the columns that have one."""
        root = sources.root
        cells = {c: runs for c, runs in sources.cells.items() if any(is_made(run, root) for run in runs)}
        columns = tuple(c for c in self.columns(sources.params) if any(c.key == key for _, key in cells))
        shown = replace(self, columns=lambda params: columns)
        Table.build(shown, replace(sources, cells=cells), outputs)


def stage(plan: Plan, title: str, heading: str, names: Mapping[str, str], cells: Asked) -> Stage:
    """Return a table of scores: a row for each of these names, a column for each setting."""
    compared = {*plan.contenders, *(plan.rows[name] for name in plan.contenders)}
    some = len(plan.contenders) < len(plan.labels)
    alone = "Only the base and methods of families compete." if some else ""
    return Stage(
        title=title,
        published=title.partition(":")[0],
        columns=lambda params: tuple(Column(key, col.label, col.group) for key, col in plan.settings.items()),
        rows=lambda params: names,
        queries=lambda params: cells,
        measure=lambda facts, column: late_mean(curve(facts), plan.benchmark.late),
        dataset=lambda row, column: plan.dataset(column),
        when=f"mean over the last {plan.benchmark.late:.0%} of the rounds",
        test="none",
        heading=heading,
        note=f"Protocol {plan.protocol}. {alone}".strip(),
        untrained=True,
        apart=lambda row: compared.isdisjoint((row, row.rpartition("-")[0])),
    )


def trials(plan: Plan, title: str, numbers: Mapping[Cell, list[int]], seeds: tuple[int, ...]) -> Stage:
    """Return a table of these trials of each cell, at these seeds, on the rows to choose by."""
    queries, names = {}, {}
    for (method, setting), cell_numbers in numbers.items():
        for number in cell_numbers:
            row = f"{plan.rows[method]}-{number:02d}"
            names[row] = f"{plan.labels[method]}, trial {number}"
            queries[row, setting] = plan.query(method, setting, number, seeds)
    return stage(plan, f"{title}: accuracy on the rows to choose by", "Trial", names, queries)


def curve(facts: RunFacts) -> Series[float]:
    """Return the test accuracy, in per cent, by round; of a diverged run as if it had stayed untrained."""
    if facts.diverged:
        return pd.Series([100 * float(facts.untrained["test_accuracy"])])
    return 100 * facts.series("test_accuracy")


def late_mean(measured: Series[float], share: float, until: float = 1.0) -> float:
    """Return the mean over the last ``share`` of the rounds, of the first ``until`` of all; both up to 1."""
    rounds, values = measured.index.to_numpy(), measured.to_numpy()
    end = until * rounds[-1] + ROUNDING
    before = values[rounds <= end]
    last = before[rounds[: len(before)] > (1 - share) * end]
    return float(pd.Series(last if len(last) else before[-1:]).mean())
