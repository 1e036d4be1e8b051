"""What the final runs of a benchmark say together: the board, and boards of other things."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedcore.base.lazy import DataFrame, pd
from pipeline.catalogue.schema import Range, TimesParams
from pipeline.catalogue.targets import Asked, Cell, Column, Sources, Target
from pipeline.reports import captions, effects
from pipeline.reports.grid import Grid, PrintedCell
from pipeline.reports.render import write_grid
from pipeline.reports.results import RunFacts, each_once, is_made, read, refuse_changed
from pipeline.reports.significance import DIGITS, FEWEST
from pipeline.reports.trials import TRIALS, Plan, curve, late_mean

FORWARD = 1 / 3  # what a row costs that only passes the model, of one whose gradient is computed
COSTLY, FEW_TRIALS = ("traffic", "work"), 4
EDGE, NARROW = 1 / 16, 0.25  # of a range; of a method's chosen values that may lie so near an end of theirs
STATISTICS = {
    "effect": "Effect",
    "interval": "95% interval",
    "verdict": "Verdict",
    "p": "p",
    "sets": "Data sets",
    "wins": "P(better)",
    "rank": "Mean rank",
    "few": "E(4)",
    "all": "E(all)",
    "traffic": "Bytes",
    "work": "Rows",
    "edge": "At an end",
    "gone": "Diverged",
    "missing": "Missing",
}
SCORES = ("method", "workload", "dataset", "seed", "score", "curve", *COSTLY, "diverged", "keeps")


def standings(plan: Plan, cells: Asked) -> dict[str, Target]:
    """Return the board of final runs, with the queries of their ``cells``."""
    return boards(plan, cells, {"board": ("methods by their effect", _said, "Method")}, words=False)


class BoardContent(NamedTuple):
    """What a board says: its tidy lines, its columns, its printed rows, and a note."""

    frame: DataFrame
    columns: Mapping[str, str]
    rows: Sequence[tuple[str, tuple[PrintedCell, ...]]]
    note: str


Say = Callable[[Plan, DataFrame], BoardContent]
Measure = Callable[[Plan, Mapping[Cell, tuple[RunFacts, ...]]], DataFrame]


@dataclass(frozen=True, kw_only=True)
class Board(Target):
    """A table of what all final runs together say, given the line of each that ``measure`` returns.

    ``heading`` stands over the rows' labels; ``words``: whether cells are texts.
    """

    kind = "table"
    kept = ("csv", "md")
    plan: Plan
    say: Say
    heading: str
    words: bool
    measure: Measure

    def build(self, sources: Sources, outputs: Mapping[str, Path]) -> None:
        """Write the table in all its forms."""
        refuse_changed(sources.runs, sources.root)
        cells = read(sources.cells, sources.root)
        content = self.say(self.plan, self.measure(self.plan, cells))
        stated = content.frame.assign(paper=sources.paper, target=sources.name, scale=sources.scale)
        columns = tuple(Column(key, label) for key, label in content.columns.items())
        count, planned = sum(is_made(run, sources.root) for run in sources.runs), len(sources.runs)
        missing = "" if count == planned else f"{count} of {planned} runs are here."
        sentences = (f"{self.title}.", f"{content.note} Protocol {self.plan.protocol}.", missing)
        origin, name = captions.origin_of(each_once(cells)), f"{sources.paper}-{sources.name}"
        caption = captions.compose(sentences, self.published, sources.declared, origin=origin)
        grid = Grid(name, columns, tuple(content.rows), caption, self.heading, self.words)
        write_grid(grid, stated, outputs, sources.layout)


def boards(
    plan: Plan,
    cells: Asked,
    parts: Mapping[str, tuple[str, Say, str]],
    words: bool = True,
    measure: Measure | None = None,
) -> dict[str, Target]:
    """Return boards, of words or numbers, by name: each of runs' scores unless they are measured otherwise.

    ``parts`` has the title's end, what is said, and the rows' heading.
    """
    title = plan.params.title.rstrip("?.")
    shared: dict[str, Any] = {"queries": lambda params: cells, "plan": plan, "words": words}
    shared["measure"] = measure or scores
    return {
        name: Board(title=f"{title}: {end}", published=name.capitalize(), say=say, heading=heading, **shared)
        for name, (end, say, heading) in parts.items()
    }


def _said(plan: Plan, run_scores: DataFrame) -> BoardContent:
    frame = board(plan, run_scores)
    rows = [
        (plan.labels[line["row"]], tuple(PrintedCell(_printed(line[key], key)) for key in STATISTICS))
        for line in frame.to_dict("records")
    ]
    base, margin = plan.labels[plan.benchmark.base], plan.benchmark.margin
    ranked = len(effects.shared(contending(plan, run_scores)).columns)
    counts = ((key, len(methods)) for key, methods in plan.benchmark.families.items())
    family = ", ".join(f"{key} ({n}{', uncorrected' if n == 1 else ''})" for key, n in counts)
    note = (
        f"Effects: points against {base}, means over data sets of means over settings and "
        "seeds. Intervals: 95%, hierarchical bootstrap. p: exact sign-flip test over data sets, corrected "
        f"by Holm within families of methods: {family}. Verdicts: at {margin:g} points, from {FEWEST} "
        f"data sets on. {effects.UNCORRECTED} E(n): expected points of the best of n trials against the "
        f"base's best of all, on rows to choose by. Mean rank: over the {ranked} settings that all ranked "
        "methods have. Bytes, rows: against the base, a row without a gradient counting a third. At an "
        f"end: share of the chosen values in an outer sixteenth of their range, marked beyond {NARROW:.0%}. "
        "Diverged: share of trials, and of final runs. Missing: settings that lack runs. Empty: the base, or "
        "in no family."
    )
    return BoardContent(frame, STATISTICS, rows, f"{note}{too_narrow(plan)}{_saturated(plan, run_scores)}")


def edges(plan: Plan) -> DataFrame:
    """Return a line a value chosen of a range: ``method``, ``key``, and ``end``, the one nearby, if any."""
    lines = []
    for (method, setting), number in plan.winners.items():
        values, trials = plan.tried[method, setting]
        for key, domain in values.items():
            if isinstance(domain, Range):
                points = (domain.low, domain.high, trials[number][key])
                low, high, value = (log(point) if domain.log else point for point in points)
                share = (value - low) / (high - low)
                end = "smallest" if share < EDGE else "largest" if share > 1 - EDGE else None
                lines.append((method, key, end))
    return pd.DataFrame(lines, columns=["method", "key", "end"])


def too_narrow(plan: Plan) -> str:
    """Say which values chosen for the base lie at an end of their range, if too many do."""
    base, chosen = plan.labels[plan.benchmark.base], edges(plan)
    chosen = chosen[chosen["method"] == plan.benchmark.base]
    at_end = chosen.dropna()
    if len(at_end) <= NARROW * len(chosen):
        return ""
    counts = Counter(zip(at_end["key"], at_end["end"], strict=True)).most_common()
    where = ", ".join(
        f"{key} the {end} {'once' if count == 1 else f'{count} times'}" for (key, end), count in counts
    )
    much = f"{len(at_end)} of {len(chosen)} values chosen for {base} lie at an end"
    return f" Range too narrow: {much} ({where}), so a wider one may lower gains."


def _saturated(plan: Plan, run_scores: DataFrame) -> str:
    """Say in which settings having less of something, such as rounds, costs a control nothing."""
    mean = complete(plan, run_scores).pivot_table(index="workload", columns="method", values="score")
    text, base = "", plan.benchmark.base
    for name, changes in plan.controls.items():
        less = any(isinstance(change, TimesParams) and change.times < 1 for change in changes.values())
        if less and {name, base} <= {*mean}:
            gaps = (mean[name] - mean[base]).dropna().round(DIGITS)
            where = [str(setting) for setting in gaps.index[gaps >= 0]]
            count = f"{len(where)} of {len(gaps)}: {', '.join(where)}"
            text += f" {plan.labels[name]} is not below the base in {count}." if where else ""
    return text


def _printed(value: object, key: str) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.2g}" if key == "p" and value < 0.01 else f"{value:z.2f}"
    return "" if value is None else str(value)


def scores(plan: Plan, cells: Mapping[Cell, tuple[RunFacts, ...]]) -> DataFrame:
    """Return a line for each run: what it is, its score, traffic, work, and whether clients keep state."""
    lines = [
        {
            "method": method,
            "workload": setting,
            "dataset": plan.dataset(setting),
            "seed": facts.run.seed,
            "score": late_mean(measured := curve(facts), plan.benchmark.late),
            "curve": measured,
            "traffic": float(facts.history["bytes_down"].sum() + facts.history["bytes_up"].sum()),
            "work": facts.summary.get("rows_gradient", 0) + FORWARD * facts.summary.get("rows_forward", 0),
            "diverged": facts.diverged,
            "keeps": facts.run.recipe.work(0).held > 0,
        }
        for (method, setting), runs in cells.items()
        for facts in runs
        if facts.summary is not None
    ]
    return pd.DataFrame(lines, columns=[*SCORES])


def complete(plan: Plan, run_scores: DataFrame) -> DataFrame:
    """Return the lines of methods in settings where all of the study's seeds are there."""
    runs = run_scores.groupby(["method", "workload"])["seed"].transform("count")
    return run_scores[runs == len(plan.params.seeds)]


def contending(plan: Plan, run_scores: DataFrame) -> DataFrame:
    """Return the complete lines of the base and of the methods that are compared with it in families."""
    return complete(plan, run_scores[run_scores["method"].isin(plan.contenders)])


def found_effects(plan: Plan, run_scores: DataFrame) -> dict[str, effects.Effect]:
    """Return the effect of each method but the base, the largest first."""
    complete_runs, base = complete(plan, run_scores), plan.benchmark.base
    gains = {name: effects.effect(complete_runs, name, base) for name in plan.labels if name != base}
    known = {name: effect for name, effect in gains.items() if effect is not None}
    return dict(sorted(known.items(), key=lambda item: -item[1].mean))


def board(plan: Plan, run_scores: DataFrame) -> DataFrame:
    """Return a line a method: its effect, what is sure of it, its rank, and what it costs."""
    benchmark, complete_runs = plan.benchmark, complete(plan, run_scores)
    gains = found_effects(plan, run_scores)
    p = effects.corrected(gains, benchmark.families)
    ranks = effects.mean_ranks(contending(plan, run_scores))
    worth = expected(plan).to_dict("index")
    costs = relative_costs(complete_runs, benchmark.base)
    at_ends = edges(plan).set_index("method")["end"].notna().groupby("method").mean()
    ended = [
        (cell[0], trial.diverged > 0)
        for cell, trials in plan.measured(TRIALS).items()
        if len(trials) == (plan.params.tune.trials or len(trials))
        for trial in trials
    ]
    trial_scores = pd.DataFrame(ended, columns=["method", "diverged"])
    diverged = [frame.groupby("method")["diverged"].mean() for frame in (trial_scores, run_scores)]
    planned = Counter(method for method, _ in plan.cells)
    whole = complete_runs.groupby("method")["workload"].nunique()
    ran, lines = {*run_scores["method"]}, []
    shown = [name for name in plan.labels if name in ran or name not in plan.controls]
    shown.sort(key=lambda name: (name in plan.controls, -(gains[name].mean if name in gains else 0.0)))
    for name in shown:
        line: dict[str, Any] = {"row": name, "verdict": "base" if name == benchmark.base else ""}
        line |= {"missing": planned[name] - whole.get(name, 0), "rank": ranks.get(name)}
        if effect := gains.get(name):
            interval = f"{effect.low:+.2f} to {effect.high:+.2f}" if effect.sets > 1 else ""
            line |= {"effect": effect.mean, "interval": interval, "low": effect.low, "high": effect.high}
            line |= {"verdict": effect.verdict(benchmark.margin), "p": p.get(name), "wins": effect.wins}
            line["sets"] = str(effect.sets)
        if effect or (name == benchmark.base and name in whole):
            line |= {key: costs.loc[name, key] for key in COSTLY}
        if name in worth:
            best = [*worth[name].values()]
            line |= {"few": best[FEW_TRIALS - 1] if len(best) >= FEW_TRIALS else None, "all": best[-1]}
        if name in at_ends:
            line["edge"] = f"{at_ends[name]:.0%}{', too narrow' if at_ends[name] > NARROW else ''}"
        line["gone"] = ", ".join(f"{share[name]:.0%}" for share in diverged if name in share)
        lines.append(line)
    return pd.DataFrame(lines, columns=["row", *STATISTICS, "low", "high"])


def relative_costs(complete_runs: DataFrame, base: str) -> DataFrame:
    """Return each method's traffic and work against the base's, a mean over settings."""
    wide = {key: complete_runs.pivot_table(index="workload", columns="method", values=key) for key in COSTLY}
    return pd.DataFrame({key: cost.div(cost.get(base, np.nan), axis=0).mean() for key, cost in wide.items()})


def expected(plan: Plan) -> DataFrame:
    """Return E(n) of each method (row) for each number n of trials.

    In points against the base's best of all trials on the same workload: a mean over data sets, of means over
    those of their workloads on which all methods have all of their trials. Controls are not among them, since
    theirs may be measured on other rows.
    """
    numbers = range(1, (plan.params.tune.trials or 1) + 1)
    competing = [cell for cell in plan.cells if cell[0] not in plan.controls]
    measured = plan.measured(TRIALS)
    whole = {cell: measured[cell] for cell in competing if len(measured.get(cell, ())) == len(numbers)}
    lacking = {setting for method, setting in competing if (method, setting) not in whole}
    lines = [
        (method, plan.dataset(setting), setting, *(effects.expected_best(means, n) for n in numbers))
        for (method, setting), trials in whole.items()
        if setting not in lacking and (means := [trial.mean for trial in trials])
    ]
    keys = ["method", "dataset", "workload"]
    best = pd.DataFrame(lines, columns=[*keys, *numbers]).set_index(keys)
    tuned = best[best.index.get_level_values("method") == plan.benchmark.base][numbers[-1]]
    gains = best.sub(tuned.droplevel(["method", "dataset"]), axis=0, level="workload")
    return gains.groupby(keys[:2]).mean().groupby("method").mean()
