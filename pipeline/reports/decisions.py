"""What a benchmark decides, in words: which method where, and papers' headlines on the ground of others."""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from fedcore.base.lazy import DataFrame, pd
from pipeline.catalogue.targets import Asked, Cell, Target
from pipeline.reports import effects
from pipeline.reports.captions import extent
from pipeline.reports.grid import PrintedCell
from pipeline.reports.significance import DIGITS, FEWEST
from pipeline.reports.standings import BoardContent, boards, complete, too_narrow
from pipeline.reports.trials import Plan

UNRUN, STATELESS = "no workload yet", "clients keep no state"
LISTED, SHORT = 6, 4  # methods with one verdict, the csv has all; methods beside the one to take
VERDICTS = {verdict: verdict.capitalize() for verdict in ("better", "equivalent", "worse", "undecided")}
HEADS = {"then": "Then", "left_out": "Left out", **VERDICTS, "n": "Data sets", "at": "Evidence"}
COLUMNS = ["row", "column", "mean", "low", "high", "n", "verdict"]
HEADLINE = {"better": "holds", "equivalent": "fails, no difference that matters"}
REPORTS = ["board", "kinds.svg", "matrix"]  # the last has the numbers of the most special cases
GROUNDS = {"own": "On its own data sets", "others": "On the others'", "all": "On all"}
Line = dict[str, Any]


def decisions(plan: Plan, cells: Asked) -> dict[str, Target]:
    """Return the reports in words of final runs, with queries by cell; they are there before any run."""
    named = {*plan.contenders, *(name for *_, method, base in _claims(plan) for name in (method, base))}
    parts = {"decisions": ("what is decided", _decided, "When")}
    if plan.params.report.headlines:
        parts["headlines"] = ("the papers' headlines, each method tuned", _headlines, "Headline")
    return boards(plan, {cell: query for cell, query in cells.items() if cell[0] in named}, parts)


def _judged(cell: Cell, plan: Plan, runs: DataFrame, method: str, base: str) -> Line:
    effect = effects.effect(runs, method, base)
    if effect is None:
        return {"row": cell[0], "column": cell[1], "verdict": UNRUN}
    return effect.line(*cell) | {"verdict": effect.verdict(plan.benchmark.margin)}


def _groups(plan: Plan, runs: DataFrame) -> Mapping[str, tuple[list[str], str]]:
    """Return the settings of each case that a reader may be in, and the report that has its numbers.

    Cases of several conditions have data sets enough for a verdict, and fewer runs than with one left out.
    """
    params, settings = plan.params, plan.settings.items()
    shares = {
        key: dict(setting.changes).get("participation.fraction")
        or params.datasets[setting.dataset].fraction
        or params.regimes[setting.regime].fraction
        for key, setting in settings
    }
    conditions = {
        f"skew: {kind.replace('_', ' ')}": {key for key, setting in settings if setting.dataset in names}
        for kind, names in plan.benchmark.kinds.items()
    }
    evidence = dict.fromkeys(conditions, "kinds.svg") | {STATELESS: "board"}
    conditions["all clients in each round"] = {key for key, share in shares.items() if share == 1}
    conditions["some clients in each round"] = {key for key, share in shares.items() if share < 1}
    conditions[STATELESS] = {*shares}
    cases = {"in general": ([*shares], "board")}
    ran = {*runs["workload"]}
    several = [*conditions] if runs["keeps"].any() else [name for name in conditions if name != STATELESS]

    def of_all(names: Iterable[str]) -> set[str]:
        return set.intersection({*shares}, *(conditions[name] for name in names))

    for names in (*((name,) for name in conditions), *combinations(several, 2), *combinations(several, 3)):
        keys = of_all(names)
        datasets = runs.loc[runs["workload"].isin(keys), "dataset"].nunique()
        fewer = [of_all({*names} - {name}) & ran for name in names if name != STATELESS]
        if keys and (len(names) == 1 or (datasets >= FEWEST and keys & ran not in fewer)):
            reports = [evidence.get(name, "matrix") for name in names]
            cases[", ".join(names)] = ([*keys], max(reports, key=REPORTS.index))
    return cases


def _decided(plan: Plan, scores: DataFrame) -> BoardContent:
    runs, base, lines, rows = complete(plan, scores), plan.benchmark.base, [], []
    state = dict.fromkeys(scores.loc[scores["keeps"].astype(bool), "method"], ", keeps state")
    for case, (keys, evidence) in _groups(plan, runs).items():
        tried = [name for name in plan.contenders[1:] if STATELESS not in case or name not in state]
        case_runs = runs[runs["workload"].isin(keys) & runs["method"].isin([base, *tried])]
        judged = [_judged((case, name), plan, case_runs, name, base) for name in tried]
        tested = sorted((line for line in judged if "mean" in line), key=lambda line: -line["mean"])
        lines += [*tested, *(line for line in judged if "mean" not in line)]
        verdicts = {verdict: [line for line in tested if line["verdict"] == verdict] for verdict in VERDICTS}
        left_out, rival = _left_out(plan, case_runs)
        texts = [_advice(plan, tested, case_runs, rival), left_out]
        for group in verdicts.values():
            pairs = ((line["column"], effects.with_interval(line)) for line in group)
            entries = [f"{plan.labels[name]} {by}{state.get(name, '')}" for name, by in pairs]
            texts.append("; ".join(_first(entries, LISTED)) or "–")
        link = PrintedCell(evidence.partition(".")[0], link=evidence) if tested else PrintedCell("–")
        rows.append((case, (*map(PrintedCell, [*texts, extent(line["n"] for line in tested)]), link)))
    always = f" and above {plan.labels[name]} always" if (name := plan.params.report.always) else ""
    note = (
        f"Points against {plan.labels[base]} with 95% intervals (of two data sets or more); better and "
        f"worse: the whole interval lies beyond {plan.benchmark.margin:g} points; of fewer than {FEWEST} "
        f"data sets nothing is decided. {effects.UNCORRECTED}{too_narrow(plan)} Left out: with each data set "
        f"left out in turn, how far the method that leads on the others is ahead on it; a leader is advised "
        f"only where that is above 0{always}."
    )
    return BoardContent(pd.DataFrame(lines, columns=COLUMNS), HEADS, rows, note)


def _first(entries: list[str], most: int) -> list[str]:
    return [*entries[:most], f"{len(entries) - most} more"] if len(entries) > most else entries


def _advice(plan: Plan, tested: list[Line], runs: DataFrame, rival: str) -> str:
    base, verdicts = plan.labels[plan.benchmark.base], [line["verdict"] for line in tested]
    ahead = f"{plan.benchmark.margin:g} points ahead of"
    if not tested:
        return UNRUN
    if "better" in verdicts:
        leader = tested[verdicts.index("better")]["column"]
        lines = (_judged(("", line["column"]), plan, runs, line["column"], leader) for line in tested)
        known = (line for line in lines if line.get("n", 0) >= FEWEST and line["verdict"] != "worse")
        near = [plan.labels[line["column"]] for line in known if line["column"] != leader]
        others = f"; not shown worse: {', '.join(_first(near, SHORT))}" if near else ""
        if rival in ("", leader):
            return f"take {plan.labels[leader]}{others}"
        return f"no advice that beats {plan.labels[rival]} always; {plan.labels[leader]} leads{others}"
    if (sets := max(line["n"] for line in tested)) < FEWEST:
        return f"undecided: {sets} of at least {FEWEST} data sets"
    if "undecided" in verdicts:
        return f"undecided: no whole interval is {ahead} {base}"
    return f"take {base}: none is {ahead} it"


def _left_out(plan: Plan, runs: DataFrame) -> tuple[str, str]:
    """Say what the leader on all other data sets gains on one, and name what always gains as much, if any."""
    base, always = plan.benchmark.base, plan.params.report.always or plan.benchmark.base
    ahead = effects.ahead(runs, base).dropna(how="all")
    if len(ahead) < FEWEST:
        return "–", ""
    gains = []
    for dataset in ahead.index:
        leads = ahead.loc[dataset].dropna()
        leader = ahead.drop(index=dataset)[[*leads.index]].mean().idxmax()
        gains.append(float(leads[str(leader)]))
    gain, means = sum(gains) / len(gains), ahead.mean()
    fixed = {name: float(means[name]) for name in (base, always) if name in means}
    best = max(fixed, key=lambda name: fixed[name])
    others = "".join(f"; {plan.labels[name]} always {at:+.2f}" for name, at in fixed.items() if name != base)
    return f"{gain:+.2f}{others}", best if round(gain - fixed[best], DIGITS) <= 0 else ""


def _claims(plan: Plan) -> list[tuple[str, str, str, str]]:
    """Return the heading, paper, method and base of the papers' headlines, then of further contrasts."""
    report = plan.params.report
    heads = [
        (paper, paper, head.method, base) for paper, head in report.headlines.items() for base in head.above
    ]
    return heads + [
        (f"{paper}, further", paper, method, base)
        for paper, contrasts in report.contrasts.items()
        for method, bases in contrasts.items()
        for base in bases
    ]


def _headlines(plan: Plan, scores: DataFrame) -> BoardContent:
    runs = complete(plan, scores)
    report, lines, rows, margin = plan.params.report, [], [], plan.benchmark.margin
    for heading, paper, method, base in _claims(plan):
        of_paper = runs["dataset"].isin(report.headlines[paper].ground)
        grounds = dict(zip(GROUNDS, (runs[of_paper], runs[~of_paper], runs), strict=True))
        row = f"{paper}-{method}-{base}"
        judged = [_judged((row, key), plan, on_ground, method, base) for key, on_ground in grounds.items()]
        lines += judged
        label = f"{heading}: {plan.labels[method]} ahead of {plan.labels[base]}"
        rows.append((label, tuple(PrintedCell(_tested(line, margin)) for line in judged)))
    note = (
        f"Holds: the whole interval lies above {margin:g} points; fails: below; undecided: neither, "
        f"or of fewer than {FEWEST} data sets. Points with 95% intervals (of two data sets or more), on "
        f"workloads of this benchmark. {effects.UNCORRECTED}"
    )
    return BoardContent(pd.DataFrame(lines, columns=COLUMNS), GROUNDS, rows, note)


def _tested(line: Line, margin: float) -> str:
    verdict: str = HEADLINE.get(line["verdict"]) or line["verdict"]
    if "mean" not in line:
        return verdict
    if line["n"] >= FEWEST and line["high"] <= margin and line["verdict"] != "equivalent":
        verdict = "fails"
    return f"{verdict}: {effects.with_interval(line)}, {line['n']} data set{'s' if line['n'] > 1 else ''}"
