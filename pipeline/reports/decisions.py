"""What a benchmark decides, in words: which method where, and papers' headlines on the ground of others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fedcore.base.lazy import pd
from pipeline.catalogue.targets import Asked, Target
from pipeline.reports import effects
from pipeline.reports.effects import FEWEST
from pipeline.reports.grid import PrintedCell
from pipeline.reports.standings import Board, Said, complete
from pipeline.reports.trials import Plan

UNRUN, STATELESS = "no workload yet", "clients keep no state"
LISTED = 6  # methods with one verdict; the csv has all
VERDICTS = {own: own.capitalize() for own in ("better", "equivalent", "worse", "undecided")}
HEADS = {"then": "Then", **VERDICTS, "n": "Data sets", "at": "Evidence"}
COLUMNS = ["row", "column", "mean", "low", "high", "n", "verdict"]
HEADLINE = {"better": "holds", "equivalent": "fails, no difference that matters", "worse": "fails"}
GROUNDS = {"own": "On its own data sets", "others": "On the others'"}
Line = dict[str, Any]


def decisions(plan: Plan, asked: Asked) -> dict[str, Target]:
    """Return the reports in words of final runs, whose cells are ``asked``; they are there before any run."""
    title, headlines = plan.params.title.rstrip("?."), plan.params.report.headlines
    named = {plan.about.base, *_ranked(plan)}
    named |= {name for own in headlines.values() for name in (own.method, *own.above)}
    shared: dict[str, Any] = {
        "queries": lambda params: {cell: own for cell, own in asked.items() if cell[0] in named},
        "plan": plan,
        "words": True,
    }
    about = {"decisions": (": what is decided", "Decisions", _decided, "When")}
    if headlines:
        words = ": the papers' headlines, each method tuned"
        about["headlines"] = (words, "Headlines", _headlines, "Headline")
    return {
        name: Board(title=title + words, published=published, say=say, heading=heading, **shared)
        for name, (words, published, say, heading) in about.items()
    }


def _ranked(plan: Plan) -> list[str]:
    return [name for own in plan.about.families.values() for name in own]


def _judged(plan: Plan, whole: pd.DataFrame, places: Collection[str], method: str, base: str) -> Line:
    """Return a tidy line on a method against another one in these settings."""
    own = effects.effect(whole[whole["workload"].isin(places)], method, base)
    if own is None:
        return {"verdict": UNRUN}
    ends = {"mean": own.mean, "low": own.low, "high": own.high}
    return {**ends, "n": own.sets, "verdict": own.verdict(plan.about.margin)}


def _measured(line: Line) -> str:
    return "{mean:+.2f} ({low:+.2f} to {high:+.2f})".format_map(line)


def _groups(plan: Plan) -> Mapping[str, tuple[list[str], str]]:
    """Return the settings of each case that a reader may be in, and the report that has its numbers."""
    params, every = plan.params, plan.places.items()
    shares = {
        place: params.datasets[own.dataset].fraction or params.regimes[own.regime].fraction
        for place, own in every
    }
    kinds = {
        f"skew: {kind.replace('_', ' ')}": [place for place, own in every if own.dataset in names]
        for kind, names in plan.about.kinds.items()
    }
    found = {
        "in general": ([*shares], "board"),
        **{case: (places, "kinds.svg") for case, places in kinds.items()},
        "all clients in each round": ([place for place, share in shares.items() if share == 1], "matrix"),
        "some clients in each round": ([place for place, share in shares.items() if share < 1], "matrix"),
        STATELESS: ([*shares], "board"),
    }
    return {case: own for case, own in found.items() if own[0]}


def _decided(plan: Plan, found: pd.DataFrame) -> Said:
    whole, base, lines, rows = complete(plan, found), plan.about.base, [], []
    state = dict.fromkeys(found.loc[found["keeps"].astype(bool), "method"], ", keeps state")
    for case, (places, evidence) in _groups(plan).items():
        tried = (name for name in _ranked(plan) if case != STATELESS or name not in state)
        judged = [{"row": case, "column": name, **_judged(plan, whole, places, name, base)} for name in tried]
        known = sorted((one for one in judged if "mean" in one), key=lambda one: -one["mean"])
        lines += [*known, *(one for one in judged if "mean" not in one)]
        said = {own: [one for one in known if one["verdict"] == own] for own in VERDICTS}
        sets = max((one["n"] for one in known), default=0)
        texts = [_advice(plan, said, sets)]
        for own in said.values():
            names = ((one["column"], _measured(one)) for one in own)
            told = [f"{plan.labels[name]} {by}{state.get(name, '')}" for name, by in names]
            more = [f"{len(told) - LISTED} more"] if len(told) > LISTED else []
            texts.append("; ".join([*told[:LISTED], *more]) or "–")
        link = PrintedCell(evidence.partition(".")[0], link=evidence) if known else PrintedCell("–")
        rows.append((case, (*map(PrintedCell, [*texts, str(sets)]), link)))
    note = (
        f"Points against {plan.labels[base]} with 95% intervals; better and worse: by more than "
        f"{plan.about.margin:g} points, surely; of fewer than {FEWEST} data sets nothing is decided. "
        f"Cases aren't corrected for how many there are. {_left_out(plan, whole)}"
    )
    return Said(pd.DataFrame(lines, columns=COLUMNS), HEADS, rows, note.strip())


def _advice(plan: Plan, said: Mapping[str, list[Line]], sets: int) -> str:
    base = plan.labels[plan.about.base]
    if not sets:
        return UNRUN
    if said["better"]:
        return f"take {' or '.join(plan.labels[one['column']] for one in said['better'])}"
    if sets < FEWEST:
        return f"undecided: {sets} of at least {FEWEST} data sets"
    return (
        f"undecided: none is surely ahead of {base}"
        if said["undecided"]
        else f"take {base}: none is ahead of it"
    )


def _left_out(plan: Plan, whole: pd.DataFrame) -> str:
    """Say what the method that leads on the other data sets gains on one that is left out."""
    base, keys = plan.about.base, ["dataset", "workload", "seed"]
    ours = whole[whole["method"].isin([base, *_ranked(plan)])]
    wide = ours.pivot_table(index=keys, columns="method", values="score")
    if base not in wide or wide.index.get_level_values("dataset").nunique() < FEWEST:
        return ""
    ahead = wide.sub(wide[base], axis=0).groupby(keys[:2]).mean().groupby("dataset").mean()
    gains = []
    for name in ahead.index:
        here = ahead.loc[name].dropna()
        leader = ahead.drop(index=name)[[*here.index]].mean().idxmax()
        gains.append(float(here[str(leader)]))
    gain, label = sum(gains) / len(gains), plan.labels[base]
    proof = "" if gain > 0 else f", which is no reason to leave {label}"
    return (
        f"Each data set left out in turn, what leads on the others is {gain:+.2f} points ahead of {label} on "
        f"it{proof}."
    )


def _headlines(plan: Plan, found: pd.DataFrame) -> Said:
    whole = complete(plan, found)
    lines, rows = [], []
    for paper, own in plan.params.report.headlines.items():
        grounds = {
            ground: [p for p in plan.places if (plan.dataset(p) in own.ground) == (ground == "own")]
            for ground in GROUNDS
        }
        for base in own.above:
            judged = [
                {"row": f"{paper}-{base}", "column": ground, **_judged(plan, whole, places, own.method, base)}
                for ground, places in grounds.items()
            ]
            lines += judged
            label = f"{paper}: {plan.labels[own.method]} ahead of {plan.labels[base]}"
            rows.append((label, tuple(PrintedCell(_tested(one)) for one in judged)))
    note = (
        f"Holds: surely more than {plan.about.margin:g} points ahead; fails: surely not; undecided: neither, "
        f"or of fewer than {FEWEST} data sets. Points with 95% intervals, on workloads of this benchmark."
    )
    return Said(pd.DataFrame(lines, columns=COLUMNS), GROUNDS, rows, note)


def _tested(line: Line) -> str:
    verdict: str = HEADLINE.get(line["verdict"]) or line["verdict"]
    if "mean" not in line:
        return verdict
    return f"{verdict}: {_measured(line)}, {line['n']} data set{'s' if line['n'] > 1 else ''}"
