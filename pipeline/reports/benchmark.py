"""The reports of a benchmark, as far as its stages have come.

Stages follow from the files that are there: ``trials.csv`` says what runs again, ``again.csv`` what runs at
the study's seeds. A cell whose trials are all there goes on without waiting for the others.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from fedcore.base.errors import SpecError
from pipeline.catalogue.grids import Setting, data_set, method_label
from pipeline.catalogue.params import require_known
from pipeline.catalogue.schema import BenchmarkParams, StudyParams
from pipeline.catalogue.targets import Target
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
    named = params.report.labels
    labels = {key: method_label(params, key) for key in params.algorithms}
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
        reports |= standing_figures(plan, shown, finals) | sensitivity(plan, finals) | spending(plan, finals)
    reports |= decisions(plan, finals)
    before = {TRIALS: (), AGAIN: (TRIALS,)}
    return {key: replace(one, follows=before.get(key, (TRIALS, AGAIN))) for key, one in reports.items()}


def _check(params: StudyParams, benchmark: BenchmarkParams, settings: Mapping[str, Setting]) -> None:
    report = params.report
    methods: dict[str, tuple[str, ...]] = {"benchmark.base": (benchmark.base,)}
    methods |= {f"benchmark.families.{key}": family for key, family in benchmark.families.items()}
    methods |= {f"benchmark.omit.{key}": omitted for key, omitted in benchmark.omit.items()}
    methods |= {f"report.headlines.{key}": (it.method, *it.above) for key, it in report.headlines.items()}
    methods |= {
        f"report.contrasts.{key}": (*to, *chain(*to.values())) for key, to in report.contrasts.items()
    }
    methods |= {f"report.factorial.{key}": (*cells.values(),) for key, cells in report.factorial.items()}
    sets = {"benchmark.omit": (*benchmark.omit,)}
    sets |= {f"benchmark.kinds.{key}": names for key, names in benchmark.kinds.items()}
    without = {f"report.without.{key}": names for key, names in report.without.items()}
    rivals = [benchmark.base, *chain(*benchmark.families.values())]
    always = {"report.always": (report.always or benchmark.base,)}
    data = {data_set(params, setting) for setting in settings.values()}
    of_known = ((params.algorithms, methods), (params.datasets, sets), (data, without), (rivals, always))
    for known, named in of_known:
        for where, names in named.items():
            for name in names:
                require_known(where, name, dict.fromkeys(known))
    for key, changes in report.controls.items():
        if key in params.algorithms or not changes:
            raise SpecError(f"report.controls.{key}: expected changes, under a name that no method has")
    if again := {name for name in rivals if rivals.count(name) > 1}:
        raise SpecError(f"benchmark.families: got '{min(again)}' twice or as base, expected it in one family")
    if params.tune.how != "sobol" or params.tune.trials is None or params.tune.held_out != "selection":
        raise SpecError("tune: a benchmark expects 'how: sobol', 'trials' and 'held_out: selection'")
    if params.tune.trials < benchmark.best:
        most = params.tune.trials
        raise SpecError(f"benchmark.best: got {benchmark.best}, expected at most the {most} trials")
