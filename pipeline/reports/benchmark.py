"""The reports of a benchmark: trials, the best of them again, and the effects of methods over data sets.

Its stages follow from the files that are there: ``trials.csv`` says what runs again, and ``again.csv`` what
runs at the study's seeds. A cell whose trials are all there goes on without waiting for the others.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedcore.base.errors import SpecError
from fedcore.base.files import digest, write_text
from fedcore.base.lazy import pd
from pipeline.catalogue.grids import Setting
from pipeline.catalogue.params import require_known
from pipeline.catalogue.schema import BenchmarkParams, PaperParams, StudyParams
from pipeline.catalogue.targets import Cell, Column, Query, Sources, Target
from pipeline.reports import captions, effects, figures, render, style
from pipeline.reports.drawings import Drawing, Inputs, Picture
from pipeline.reports.effects import Effect
from pipeline.reports.grid import Grid, PrintedCell
from pipeline.reports.results import RunFacts, each_once, read, refuse_changed
from pipeline.reports.search import Choice, candidates, held_out, tried
from pipeline.reports.tables import Table

REPORTS = Path("reports")
TRIALS, AGAIN = "trials", "again"
RATIOS = tuple(np.linspace(1.0, 2.0, 101).round(2).tolist())
FORWARD = 1 / 3  # what a row costs that only passes the model, of one whose gradient is computed
COSTLY, FEW = ("bytes", "rows"), 4
STATISTICS = {
    "effect": "Effect",
    "interval": "95% interval",
    "verdict": "Verdict",
    "p": "p (Holm)",
    "sets": "Data sets",
    "wins": "P(better)",
    "rank": "Mean rank",
    "few": "E(4)",
    "all": "E(all)",
    "bytes": "Bytes",
    "rows": "Rows",
    "diverged": "Diverged",
    "missing": "Missing",
}
COSTS = (
    "E(n): expected accuracy of the best of n trials, on rows to choose by. Bytes, rows: against the base, "
    "a row without a gradient counting a third. Diverged: share of runs. Missing: settings that lack runs."
)
Asked = Mapping[Cell, tuple[Query, ...]]


@dataclass(frozen=True)
class Plan:
    """What a benchmark compares: its parameters, the settings (a workload each) and the methods' names."""

    params: StudyParams
    about: BenchmarkParams
    places: Mapping[str, Setting]
    labels: Mapping[str, str]

    def trial(self, method: str, place: str, number: int) -> Choice:
        """Return the values of one of a method's trials in a setting."""
        setting = self.places[place]
        values = tried(self.params, method, setting.dataset)
        return candidates(self.params.tune, values, setting.dataset)[number]

    def query(self, method: str, place: str, number: int, seeds: tuple[int, ...] | None = None) -> Query:
        """Return the runs of a trial: at the study's seeds on test rows, at others on those to choose by."""
        setting = self.places[place]
        measured = () if seeds is None else held_out(self.params)
        changes = (*setting.changes, *measured, *self.trial(method, place, number).items())
        return Query(setting.regime, setting.dataset, setting.split, method, changes, seeds, setting.key)

    def dataset(self, place: str) -> str:
        """Return the data set of a setting, the unit of inference."""
        return self.params.datasets[self.places[place].dataset].data.name

    def meets(self, method: str, place: str) -> bool:
        """Whether a method runs in a setting."""
        return method not in self.about.omit.get(self.places[place].dataset, ())


@dataclass(frozen=True, kw_only=True)
class Stage(Table):
    """A table of trials, in which not every method has every trial."""

    asked: Callable[[PaperParams], Asked]

    def cells(self, params: PaperParams) -> Asked:
        """Return the queries of each cell that there is."""
        return self.asked(params)


@dataclass(frozen=True, kw_only=True)
class Summary(Target):
    """A table of what all runs together say: a row a method, and texts of several kinds."""

    kind = "table"
    kept = ("csv", "md")
    asked: Asked
    columns: tuple[Column, ...]
    lines: Callable[[Mapping[Cell, tuple[RunFacts, ...]]], pd.DataFrame]
    plan: Plan
    note: str = ""

    def cells(self, params: PaperParams) -> Asked:
        """Return the runs of each method in each setting."""
        return self.asked

    def build(self, sources: Sources, outputs: Mapping[str, Path]) -> None:
        """Write the table in all its forms."""
        refuse_changed(sources.runs, sources.root)
        found = read(sources.cells, sources.root)
        frame = self.lines(found)
        about = sources.about
        made = sum(own.summary is not None for own in each_once(found))
        missing = "" if made == len(sources.runs) else f"{made} of {len(sources.runs)} runs are here."
        origin = captions.origin_of(each_once(found))
        caption = captions.compose(
            (f"{self.title}.", self.note, missing), self.published, about, origin=origin
        )
        rows = tuple(
            (
                self.plan.labels[str(line["row"])],
                tuple(PrintedCell(_printed(line.get(one.key))) for one in self.columns),
            )
            for line in frame.to_dict("records")
        )
        stated = frame.assign(paper=sources.paper, target=sources.name, scale=sources.scale)
        write_text(outputs["csv"], render.csv(stated))
        grid = Grid(f"{sources.paper}-{sources.name}", self.columns, rows, caption)
        render.write_grid(grid, outputs, sources.layout)


def _printed(value: object) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.3g}" if abs(value) < 0.01 else f"{value:.2f}"
    return "" if value is None else str(value)


def declared(name: str, params: StudyParams, places: Mapping[str, Setting]) -> dict[str, Target]:
    """Return a benchmark's reports, as far as its stages have come.

    Raises:
        SpecError: a method or a data set that it names isn't the study's.
    """
    about = params.benchmark
    assert about is not None
    _check(params, about)
    labels = {
        key: params.report.labels.get(key) or style.label(own.name or key)
        for key, own in params.algorithms.items()
    }
    plan = Plan(params, about, places, labels)
    cells = [(key, place) for key in labels for place in places if plan.meets(key, place)]
    rows = {key: _identity(params, key) for key in labels}
    ranked = _ranked(REPORTS / name / f"{TRIALS}.csv", rows)
    best = {cell: ranked[cell][: about.best] for cell in cells if cell in ranked}
    again = _ranked(REPORTS / name / f"{AGAIN}.csv", rows)
    winners = {cell: again[cell][0] for cell, own in best.items() if {*own} == {*again.get(cell, ())}}
    every = {cell: list(range(params.tune.trials or 0)) for cell in cells}
    seeds = (about.seed, *about.seeds)
    return {
        TRIALS: _stage(plan, "Trials", every, rows, seeds[:1]),
        **({AGAIN: _stage(plan, "The best trials at further seeds", best, rows, seeds)} if best else {}),
        **(_finals(name, plan, winners) if winners else {}),
    }


def _check(params: StudyParams, about: BenchmarkParams) -> None:
    methods = {"base": (about.base,), **{f"families.{key}": own for key, own in about.families.items()}}
    methods |= {f"omit.{key}": own for key, own in about.omit.items()}
    for where, names in methods.items():
        for one in names:
            require_known(f"benchmark.{where}", one, params.algorithms)
    sets = {"omit": [*about.omit], **{f"kinds.{key}": own for key, own in about.kinds.items()}}
    for where, places in sets.items():
        for one in places:
            require_known(f"benchmark.{where}", one, params.datasets)
    twice = [one for own in about.families.values() for one in own]
    if again := {one for one in twice if twice.count(one) > 1 or one == about.base}:
        raise SpecError(f"benchmark.families: got '{min(again)}' twice or as base, expected it in one family")
    if params.tune.how != "sobol" or params.tune.trials is None or params.tune.held_out != "selection":
        raise SpecError("tune: a benchmark expects 'how: sobol', 'trials' and 'held_out: selection'")
    if params.tune.trials < about.best:
        raise SpecError(f"benchmark.best: got {about.best}, expected at most the {params.tune.trials} trials")


def _identity(params: StudyParams, method: str) -> str:
    """Return what rows of a method's trials begin with; trials of other values have another one."""
    sets = params.model_dump(mode="json", include={"datasets": {"__all__": {"tune"}}})
    tune = params.tune.model_dump(mode="json", include={"trials", "columns", "over"})
    own = params.algorithms[method].model_dump(mode="json", include={"tune"})
    return f"{method}-{digest([sets, tune, own])[:4]}"


def _ranked(path: Path, rows: Mapping[str, str]) -> dict[Cell, list[int]]:
    """Return the trials of each complete cell of a stage's csv, the best first, diverged ones last.

    ``rows`` says what a method's rows begin with.
    """
    found: dict[Cell, list[tuple[int, float, int]]] = defaultdict(list)
    known, incomplete = {row: method for method, row in rows.items()}, set()
    lines = csv.DictReader(path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()
    for line in lines:
        row, _, number = line["row"].rpartition("-")
        cell = known.get(row, ""), line["column"]
        if line["n"] != line["seeds"]:
            incomplete.add(cell)
        else:
            found[cell].append((int(line["diverged"]), -float(line["mean"]), int(number)))
    return {
        cell: [trial for *_, trial in sorted(own)] for cell, own in found.items() if cell not in incomplete
    }


def _stage(
    plan: Plan,
    title: str,
    numbers: Mapping[Cell, list[int]],
    rows: Mapping[str, str],
    seeds: tuple[int, ...],
) -> Stage:
    asked, named = {}, {}
    for (method, place), own in numbers.items():
        for number in own:
            row = f"{rows[method]}-{number:02d}"
            named[row] = f"{plan.labels[method]}, trial {number}"
            asked[row, place] = (plan.query(method, place, number, seeds),)
    return Stage(
        title=f"{title}: accuracy on the rows to choose by",
        published=title,
        columns=lambda params: tuple(Column(key, own.label, own.group) for key, own in plan.places.items()),
        rows=lambda params: named,
        asked=lambda params: asked,
        measure=lambda facts, column: late_mean(facts, plan.about.late),
        dataset=lambda row, column: plan.dataset(column),
        when=f"mean over the last {plan.about.late:.0%} of the rounds",
        test="none",
        heading="Trial",
        untrained=True,
    )


def late_mean(facts: RunFacts, share: float) -> float:
    """Return the mean test accuracy, in per cent, over the last rounds; untrained if it diverged."""
    if facts.diverged:
        return 100 * float(facts.untrained["test_accuracy"])
    series = facts.series("test_accuracy")
    return 100 * float(series[series.index > (1 - share) * series.index[-1] + 1e-9].mean())


def scores(plan: Plan, cells: Mapping[Cell, tuple[RunFacts, ...]]) -> pd.DataFrame:
    """Return a line for each run: method, workload, data set, seed, score, traffic, work and divergence."""
    lines = [
        {
            "method": method,
            "workload": place,
            "dataset": plan.dataset(place),
            "seed": own.run.seed,
            "score": late_mean(own, plan.about.late),
            "bytes": own.summary["bytes_down"] + own.summary["bytes_up"],
            "rows": own.summary.get("rows_gradient", 0) + FORWARD * own.summary.get("rows_forward", 0),
            "diverged": own.diverged,
        }
        for (method, place), runs in cells.items()
        for own in runs
        if own.summary is not None
    ]
    return pd.DataFrame(
        lines, columns=["method", "workload", "dataset", "seed", "score", "bytes", "rows", "diverged"]
    )


def _finals(name: str, plan: Plan, winners: Mapping[Cell, int]) -> dict[str, Target]:
    about, places = plan.about, plan.places
    asked = {cell: (plan.query(*cell, number),) for cell, number in winners.items()}
    methods = {key: label for key, label in plan.labels.items() if any(row == key for row, _ in winners)}
    family = ", ".join(f"{key} ({len(own)})" for key, own in about.families.items())
    effect = (
        f"Effects: points against {plan.labels[about.base]}, means over data sets of means over settings and "
        "seeds."
    )
    against = (
        f"{effect} Intervals: 95%, hierarchical bootstrap. p: exact sign-flip test over data sets, corrected "
        f"by Holm within families of methods: {family}. Verdicts: at {about.margin:g} points."
    )
    kinds = tuple(Column(key, key.replace("_", " ")) for key in about.kinds)
    trials = REPORTS / name / f"{TRIALS}.csv"
    return {
        "board": Summary(
            title=f"{plan.params.title.rstrip('?.')}: methods by their effect",
            published="Board",
            asked=asked,
            columns=tuple(Column(key, label) for key, label in STATISTICS.items()),
            lines=lambda cells: board(plan, scores(plan, cells), trials),
            plan=plan,
            note=f"{against} {COSTS}",
        ),
        "matrix": Stage(
            title="Accuracy of each method in each setting, with its chosen values",
            published="Matrix",
            columns=lambda params: tuple(Column(key, own.label, own.group) for key, own in places.items()),
            rows=lambda params: methods,
            asked=lambda params: asked,
            measure=lambda facts, column: late_mean(facts, about.late),
            dataset=lambda row, column: plan.dataset(column),
            when=f"mean over the last {about.late:.0%} of the rounds",
            test="none",
            untrained=True,
        ),
        "kinds": Summary(
            title="Effects within each kind of skew, and the number of data sets",
            published="Kinds of skew",
            asked=asked,
            columns=kinds,
            lines=lambda cells: by_kind(plan, scores(plan, cells)),
            plan=plan,
            note=effect,
        ),
        "effects": _figure("Effects over data sets", asked, partial(_draw_effects, plan), methods),
        "profiles": _figure("Performance profiles", asked, partial(_draw_profiles, plan), methods),
        "budget": _figure("What trials are worth", asked, partial(_draw_budget, plan, trials), methods),
    }


def _figure(
    title: str, asked: Asked, draw: Callable[[Inputs], Picture], methods: Mapping[str, str]
) -> Drawing:
    return Drawing(
        title=title, published=title, queries=lambda params: asked, draw=draw, rows=lambda params: methods
    )


def complete(plan: Plan, found: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of methods in settings where all of the study's seeds are there."""
    runs = found.groupby(["method", "workload"])["seed"].transform("count")
    return found[runs == len(plan.params.seeds)]


def found_effects(plan: Plan, found: pd.DataFrame) -> dict[str, Effect]:
    """Return the effect of each method but the base, the largest first."""
    whole, base = complete(plan, found), plan.about.base
    effect = {name: effects.effect(whole, name, base) for name in plan.labels if name != base}
    known = {name: own for name, own in effect.items() if own is not None}
    return dict(sorted(known.items(), key=lambda item: -item[1].mean))


def board(plan: Plan, found: pd.DataFrame, trials: Path) -> pd.DataFrame:
    """Return a line a method: its effect, what is sure of it, its rank, and what it costs."""
    about, whole = plan.about, complete(plan, found)
    effect = found_effects(plan, found)
    p = effects.corrected(effect, about.families)
    ranked = [name for own in about.families.values() for name in own]
    ranks = effects.mean_ranks(whole[whole["method"].isin([about.base, *ranked])])
    worth = expected(plan, trials).to_dict("index")
    each = {key: whole.pivot_table(index="workload", columns="method", values=key) for key in COSTLY}
    lines = []
    for name in sorted(plan.labels, key=lambda one: -(effect[one].mean if one in effect else 0.0)):
        line: dict[str, Any] = {"row": name, "verdict": "base" if name == about.base else ""}
        asked = sum(plan.meets(name, place) for place in plan.places)
        line["missing"] = asked - whole[whole["method"] == name]["workload"].nunique()
        if own := effect.get(name):
            interval = f"{own.low:+.2f} to {own.high:+.2f}"
            line |= {"effect": own.mean, "interval": interval, "low": own.low, "high": own.high}
            line |= {"verdict": own.verdict(about.margin), "p": p.get(name), "sets": str(own.sets)}
            line |= {"wins": own.wins}
        if own or name == about.base:
            line |= {key: float((each[key][name] / each[key][about.base]).mean()) for key in COSTLY}
        if name in worth:
            best = list(worth[name].values())
            line |= {"few": best[:FEW][-1], "all": best[-1]}
        runs = found[found["method"] == name]["diverged"]
        line |= {"rank": ranks.get(name), "diverged": f"{runs.mean():.0%}" if len(runs) else ""}
        lines.append(line)
    return pd.DataFrame(lines, columns=["row", *STATISTICS, "low", "high"])


def by_kind(plan: Plan, found: pd.DataFrame) -> pd.DataFrame:
    """Return a line a method: its effect within each kind of skew, and the number of data sets."""
    lines: dict[str, dict[str, str]] = {
        name: {"row": name} for name in plan.labels if name != plan.about.base
    }
    for kind, names in plan.about.kinds.items():
        inside = [key for key, own in plan.places.items() if own.dataset in names]
        for name, own in found_effects(plan, found[found["workload"].isin(inside)]).items():
            lines[name][kind] = f"{own.mean:+.2f} ({own.sets})"
    return pd.DataFrame(list(lines.values()), columns=["row", *plan.about.kinds])


def expected(plan: Plan, trials: Path) -> pd.DataFrame:
    """Return E(n) of each method (row) for each number of trials: means over data sets, of its workloads."""
    if not trials.exists():
        return pd.DataFrame()
    frame = pd.read_csv(trials, dtype={"row": str, "column": str})
    frame = frame.assign(method=frame["row"].str.split("-").str[0], dataset=frame["column"].map(plan.dataset))
    each = range(1, (plan.params.tune.trials or 1) + 1)
    lines = []
    for (method, dataset, _), own in frame.groupby(["method", "dataset", "column"]):
        values = own["mean"].dropna().tolist()
        if len(values) == len(each):
            best = [effects.expected_best(values, n) for n in each]
            lines.append((method, dataset, *best))
    found = pd.DataFrame(lines, columns=["method", "dataset", *each])
    return found.groupby(["method", "dataset"]).mean().groupby("method").mean()


def _draw_effects(plan: Plan, inputs: Inputs) -> Picture:
    effect = found_effects(plan, scores(plan, inputs.cells))
    figure = figures.framed(1.0 + 0.2 * len(effect))
    axes, margin = figure.subplots(), plan.about.margin
    axes.axvspan(-margin, margin, color="0.9")
    axes.axvline(0, color="0.5", linewidth=0.8)
    for at, (name, own) in enumerate(reversed(effect.items())):
        look = style.look(name)
        axes.errorbar(
            own.mean,
            at,
            xerr=[[own.mean - own.low], [own.high - own.mean]],
            color=look.colour,
            marker=look.marker,
        )
    axes.set_yticks(range(len(effect)), [plan.labels[name] for name in reversed(effect)])
    axes.set_xlabel(f"points of accuracy against {plan.labels[plan.about.base]}")
    lines = [
        {"row": name, "column": "effect", "mean": own.mean, "low": own.low, "high": own.high, "n": own.sets}
        for name, own in effect.items()
    ]
    said = f"Means over data sets with 95% intervals; grey: no difference that matters (±{margin:g} points)."
    return Picture(pd.DataFrame(lines), figure, [said])


def _draw_profiles(plan: Plan, inputs: Inputs) -> Picture:
    found = effects.profiles(complete(plan, scores(plan, inputs.cells)), RATIOS)
    said = "Share of the settings in which a method's error is at most so many times the least one."
    return _steps(found, "error, as a ratio to the least", "share of settings", said)


def _draw_budget(plan: Plan, trials: Path, inputs: Inputs) -> Picture:
    said = "Expected accuracy of the best of n trials on the rows to choose by, mean over data sets."
    return _steps(expected(plan, trials), "trials", "accuracy (%)", said)


def _steps(found: pd.DataFrame, across: str, up: str, said: str) -> Picture:
    figure = figures.framed(3.4)
    axes = figure.subplots()
    looks = style.looks(map(str, found.index))
    for name, look in looks.items():
        axes.plot(found.columns, found.loc[name], color=look.colour, linestyle=look.line)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    figures.legend(figure, looks)
    tidy = found.rename_axis("row").reset_index().melt("row", var_name="column", value_name="mean")
    return Picture(tidy, figure, [said])
