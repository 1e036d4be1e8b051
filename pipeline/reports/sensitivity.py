"""How much a board depends on the way of counting, and which half of a method makes the difference."""

import numpy as np

from fedcore.base.lazy import DataFrame, Series, pd, scipy
from pipeline.catalogue.targets import Asked, Cell, Target
from pipeline.reports import effects
from pipeline.reports.captions import extent
from pipeline.reports.effects import RUN, UNCORRECTED, with_interval
from pipeline.reports.grid import PrintedCell
from pipeline.reports.standings import COSTLY, BoardContent, boards, complete, contending, expected
from pipeline.reports.trials import TRIALS, Plan, late_mean

BEST, SURE, GAIN = 5, 0.9, 0.3
AGREEMENT = {"tau": "Kendall's tau", "best": f"Best {BEST}", "moved": "Moves most (places up)"}
COST = {"traffic": "bytes", "work": "rows"}
COLUMNS = ["row", "column", "mean", "low", "high", "n"]
Orders = dict[str, tuple[Series[float], Series[float]]]


def sensitivity(plan: Plan, cells: Asked) -> dict[str, Target]:
    """Return the reports of final runs, with the queries of their ``cells``."""
    parts = {"sensitivity": ("other ways of counting", _counted, "Counted")}
    if plan.params.report.factorial:
        parts["factorial"] = ("clients' sides and servers", _crossed, "Client's side")
    shown = {cell: query for cell, query in cells.items() if cell[0] not in plan.controls}
    return boards(plan, shown, parts)


def _counted(plan: Plan, run_scores: DataFrame) -> BoardContent:
    scores = contending(plan, run_scores)
    scores = scores[scores["workload"].isin(scores.loc[scores["method"] == plan.benchmark.base, "workload"])]
    if scores.empty:
        return BoardContent(
            pd.DataFrame(columns=COLUMNS), AGREEMENT, [], "No setting has all runs of the base."
        )
    lines, rows = [], []
    fewer = _fewer_trials(plan)
    for way, (before, after) in {**_ways(plan, scores), **fewer}.items():
        before, after = before.dropna().align(after.dropna(), join="inner")
        tau = _tau(before, after)
        up = after.rank() - before.rank()
        lines += [(way, "tau", tau, len(up)), *((way, name, value, None) for name, value in after.items())]
        best = "; ".join(plan.labels[str(name)] for name in after.nlargest(BEST).index)
        most = str(up.abs().idxmax())
        shift = f"{plan.labels[most]} ({up[most]:+g})" if up[most] else "–"
        rows.append((way, tuple(map(PrintedCell, (f"{tau:.2f}", best, shift)))))
    base = plan.labels[plan.benchmark.base]
    note = (
        f"Kendall's tau compares the order of {base} and the families' methods by their effects with that on "
        "the board; with fewer trials, their orders by the expected best of them, on rows to choose by. With "
        f"{base}'s bytes or rows, a method stops where it has spent what {base} does in all. "
        f"{_limited(fewer)}"
    )
    frame = pd.DataFrame(lines, columns=["row", "column", "mean", "methods"])
    return BoardContent(frame, AGREEMENT, rows, note.strip())


def _ways(plan: Plan, scores: DataFrame) -> Orders:
    base = plan.benchmark.base
    names = list(dict.fromkeys(scores["dataset"])) if scores["dataset"].nunique() > 1 else []
    together = plan.params.report.without.items()
    sets: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
    sets |= {key.replace("_", " "): part for key, part in together if set() < {*names} - {*part} < {*names}}
    frames = {
        "as on the board": scores,
        **{f"without {name}": scores[~scores["dataset"].isin(part)] for name, part in sets.items()},
        "each setting alike": scores.assign(dataset=scores["workload"]),
        "ratios of errors": scores.assign(score=-np.log((100 - scores["score"]).clip(lower=1e-2))),
        "after the last round": scores.assign(score=[curve.iloc[-1] for curve in scores["curve"]]),
        **{f"with {plan.labels[base]}'s {COST[key]}": _at_cost(plan, scores, key) for key in COSTLY},
    }
    board = effects.ahead(scores, base).mean()
    return {way: (board, effects.ahead(frame, base).mean()) for way, frame in frames.items()}


def _at_cost(plan: Plan, scores: DataFrame, key: str) -> DataFrame:
    """Return scores at the round at which a run has cost what the base's costs in all, if it costs more."""
    spent = scores[scores["method"] == plan.benchmark.base].set_index(["workload", "seed"])[key]
    runs = zip(scores["workload"], scores["seed"], scores[key], scores["curve"], strict=True)
    late = plan.benchmark.late
    at_cost = [
        late_mean(curve, late, min(1.0, spent[setting, seed] / cost) if cost else 1.0)
        for setting, seed, cost, curve in runs
    ]
    return scores.assign(score=at_cost)


def _fewer_trials(plan: Plan) -> Orders:
    worth = expected(plan).reindex(plan.contenders).dropna()
    few, many = len(worth.columns) // 2, len(worth.columns)
    return {f"{few} of {many} trials": (worth[many], worth[few])} if few and len(worth) else {}


def _limited(fewer: Orders) -> str:
    if not fewer:
        return ""
    ((trials, (many, few)),) = fewer.items()
    tau, gain = _tau(many, few), float((many - few).median())
    limited = "limited" if tau < SURE or gain >= GAIN else "not limited"
    return (
        f"The board is {limited} by tuning: against {trials}, all gain {gain:.2f} points (median), with a "
        f"tau of {tau:.2f} (limited: {GAIN:g} points or more, or a tau below {SURE:g})."
    )


def _tau(before: Series[float], after: Series[float]) -> float:
    return float(scipy.stats.kendalltau(before, after).statistic) if len(before) > 1 else 1.0


def _crossed(plan: Plan, run_scores: DataFrame) -> BoardContent:
    """Say what a client's side and a server do on average, and what a pair does beyond the two."""
    grid = plan.params.report.factorial
    first, servers = next(iter(grid.items()))
    lines, rows = [], []
    for stage, scores in (("tuned", complete(plan, run_scores)), ("any trial", _mean_trials(plan))):
        gains = _contrasts(grid, scores)
        for side in grid if gains else ():
            row = f"{side.replace('_', ' ')}, {stage}"
            part = {key: gains.get((side, key)) for key in servers}
            cells = (with_interval(e.line("", "")) if e else "–" for e in part.values())
            rows.append((row, tuple(map(PrintedCell, cells))))
            lines += [effect.line(row, key) for key, effect in part.items() if effect]
    alone = next(iter(servers))
    note = (
        f"Points with 95% intervals over data sets. Rows {first}: a server in place of {alone}, mean over "
        f"the clients' sides. Column {alone}: a client's side in place of {first}, mean over the servers. "
        "Elsewhere: what the pair gains beyond the two (interaction). Any trial: the mean of all trials, so "
        "without a choice, at one seed on the rows to choose by. "
        f"Of {extent(line['n'] for line in lines)} data sets. {UNCORRECTED}"
    )
    labels = {key: plan.params.report.labels.get(key, key) for key in servers}
    return BoardContent(pd.DataFrame(lines, columns=COLUMNS), labels, rows, note)


def _contrasts(grid: dict[str, dict[str, str]], scores: DataFrame) -> dict[Cell, effects.Effect | None]:
    methods = [method for by_server in grid.values() for method in by_server.values()]
    wide = scores.pivot_table(index=RUN, columns="method", values="score").reindex(columns=methods).dropna()
    if wide.empty:
        return {}
    renamed = ((side, wide[[*row.values()]].set_axis([*row], axis=1)) for side, row in grid.items())
    (first, plain), *others = renamed
    alone, *servers = plain.columns
    mean = sum((frame for _, frame in others), plain) / len(grid)
    gains = {(first, key): _contrast(mean[key], mean[alone]) for key in servers}
    for side, frame in others:
        gains[side, alone] = _contrast(frame.mean(axis=1), plain.mean(axis=1))
        for key in servers:
            gains[side, key] = _contrast(frame[key] + plain[alone], frame[alone] + plain[key])
    return gains


def _contrast(plus: Series[float], minus: Series[float]) -> effects.Effect | None:
    scores = pd.concat({"plus": plus, "minus": minus}, names=["method"]).rename("score").reset_index()
    return effects.effect(scores, "plus", "minus")


def _mean_trials(plan: Plan) -> DataFrame:
    lines = [
        (method, plan.dataset(setting), setting, plan.benchmark.seed, np.mean([t.mean for t in trials]))
        for (method, setting), trials in plan.measured(TRIALS).items()
        if len(trials) == plan.params.tune.trials
    ]
    return pd.DataFrame(lines, columns=["method", *RUN, "score"])
