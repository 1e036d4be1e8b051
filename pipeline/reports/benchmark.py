"""The reports of a benchmark, as far as its stages have come.

Stages follow from the files that are there: ``trials.csv`` says what runs again, ``again.csv`` what runs at
the study's seeds. A cell whose trials are all there goes on without waiting for the others.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from fedcore.base.errors import SpecError
from pipeline.catalogue.grids import Setting, data_set
from pipeline.catalogue.params import require_known
from pipeline.catalogue.schema import BenchmarkParams, StudyParams
from pipeline.catalogue.targets import Target
from pipeline.reports import style
from pipeline.reports.decisions import decisions
from pipeline.reports.sensitivity import sensitivity
from pipeline.reports.spending import spending
from pipeline.reports.standing_figures import standing_figures
from pipeline.reports.standings import standings
from pipeline.reports.trials import AGAIN, FINALS, TRIALS, Plan, stage, trials


def benchmark_targets(name: str, params: StudyParams, settings: Mapping[str, Setting]) -> dict[str, Target]:
    """Return a benchmark's reports, or raise SpecError if a method or data set that it names isn't there."""
    benchmark = params.benchmark
    assert benchmark is not None
    _check(params, benchmark, settings)
    named, methods = params.report.labels, params.algorithms.items()
    labels = {key: named.get(key) or style.label(method.name or key) for key, method in methods}
    labels |= {key: named.get(key, f"{labels[benchmark.base]}: {key}") for key in params.report.controls}
    plan = Plan(name, params, benchmark, settings, labels)
    count, seeds = params.tune.trials or 0, (benchmark.seed, *benchmark.seeds)
    numbers = {cell: [*range(count)] for cell in plan.cells}
    reports: dict[str, Target] = {TRIALS: trials(plan, "Trials", numbers, seeds[:1])}
    if plan.best:
        reports[AGAIN] = trials(plan, "The best trials at further seeds", plan.best, seeds)
    finals = {cell: plan.query(*cell, number) for cell, number in plan.winners.items()}
    if finals:
        shown = {key: label for key, label in labels.items() if any(row == key for row, _ in finals)}
        title = "Matrix: accuracy of each method in each setting, with its chosen values"
        reports |= {FINALS: stage(plan, title, "Method", shown, finals), **standings(plan, finals)}
        reports |= standing_figures(plan, shown, finals)
        reports |= {**sensitivity(plan, finals), **spending(plan, finals)}
    return {
        name: replace(report, follows={TRIALS: (), AGAIN: (TRIALS,)}.get(name, (TRIALS, AGAIN)))
        for name, report in {**reports, **decisions(plan, finals)}.items()
    }


def _check(params: StudyParams, benchmark: BenchmarkParams, settings: Mapping[str, Setting]) -> None:
    methods: dict[str, tuple[str, ...]] = {"benchmark.base": (benchmark.base,)}
    methods |= {f"benchmark.families.{key}": family for key, family in benchmark.families.items()}
    methods |= {f"benchmark.omit.{key}": omitted for key, omitted in benchmark.omit.items()}
    heads = params.report.headlines.items()
    methods |= {f"report.headlines.{key}": (head.method, *head.above) for key, head in heads}
    contrasts = params.report.contrasts.items()
    methods |= {f"report.contrasts.{key}": (*pairs, *chain(*pairs.values())) for key, pairs in contrasts}
    grid = params.report.factorial.items()
    methods |= {f"report.factorial.{key}": tuple(cells.values()) for key, cells in grid}
    sets = {"benchmark.omit": (*benchmark.omit,)}
    sets |= {f"benchmark.kinds.{key}": names for key, names in benchmark.kinds.items()}
    data = {data_set(params, setting): setting for setting in settings.values()}
    without = {f"report.without.{key}": names for key, names in params.report.without.items()}
    for known, named in ((params.algorithms, methods), (params.datasets, sets), (data, without)):
        for where, names in named.items():
            for name in names:
                require_known(where, name, known)
    for key, changes in params.report.controls.items():
        if key in params.algorithms or not changes:
            raise SpecError(f"report.controls.{key}: expected changes, under a name that no method has")
    members = [name for family in benchmark.families.values() for name in family]
    require_known(
        "report.always", params.report.always or benchmark.base, dict.fromkeys([benchmark.base, *members])
    )
    if again := {name for name in members if members.count(name) > 1 or name == benchmark.base}:
        raise SpecError(f"benchmark.families: got '{min(again)}' twice or as base, expected it in one family")
    if params.tune.how != "sobol" or params.tune.trials is None or params.tune.held_out != "selection":
        raise SpecError("tune: a benchmark expects 'how: sobol', 'trials' and 'held_out: selection'")
    if params.tune.trials < benchmark.best:
        most = params.tune.trials
        raise SpecError(f"benchmark.best: got {benchmark.best}, expected at most the {most} trials")
