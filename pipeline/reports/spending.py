"""What a benchmark's methods cost: seconds of all runs, and effects by what a method sends and computes."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from fedcore.base.lazy import Axes, DataFrame, matplotlib, pd, seaborn
from pipeline.catalogue.targets import Asked, Cell, Target
from pipeline.reports import effects, figures, style
from pipeline.reports.drawings import Drawing, Inputs, Picture
from pipeline.reports.grid import PrintedCell
from pipeline.reports.render import in_print
from pipeline.reports.results import RunFacts
from pipeline.reports.standings import (
    LINEAR,
    TICKS,
    Board,
    BoardContent,
    against,
    complete,
    relative_costs,
    scores,
)
from pipeline.reports.trials import Plan

HOUR, APART, ROOM = 3600, 1.25, 0.07
PLACE = ["workload", "processor"]
COLUMNS = {"runs": "Runs", "hours": "Core hours", "ratio": "Seconds", "low": "Lower", "high": "Upper"}
AXES = {"traffic": "bytes", "work": "rows, one without a gradient counting a third"}
TIMES = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5]


def spending(plan: Plan, cells: Asked) -> dict[str, Target]:
    """Return the reports of what the methods of final runs cost, with the queries of their ``cells``."""
    finals = {cell: query for cell, query in cells.items() if cell[0] not in plan.controls}
    first, numbers = (plan.benchmark.seed,), range(plan.params.tune.trials or 0)
    stages = {
        cell: (
            *(plan.query(*cell, number, first) for number in numbers),
            *(plan.query(*cell, number, plan.benchmark.seeds) for number in plan.best[cell]),
            plan.query(*cell, plan.winners[cell]),
        )
        for cell in finals
    }
    return {
        "cost": Board(
            title=f"{plan.params.title.rstrip('?.')}: what its runs took",
            published="Cost",
            queries=lambda params: stages,
            plan=plan,
            say=_said,
            measure=times,
        ),
        "tradeoff": Drawing(
            title="Effects over data sets, by what a method sends and computes",
            published="Trade-off",
            queries=lambda params: finals,
            draw=partial(_draw, plan),
            rows=lambda params: plan.labels,
        ),
    }


def times(plan: Plan, cells: Mapping[Cell, tuple[RunFacts, ...]]) -> DataFrame:
    """Return a line for each run that was made: what it is, the kind of its processor, and its seconds."""
    lines = [
        (method, setting, timing.get("processor", ""), float(timing["seconds"]))
        for (method, setting), runs in cells.items()
        for facts in runs
        if facts.summary is not None and "seconds" in (timing := facts.timing or {})
    ]
    return pd.DataFrame(lines, columns=["method", *PLACE, "seconds"])


def _said(plan: Plan, run_times: DataFrame) -> BoardContent:
    base, by_cell = plan.benchmark.base, run_times.groupby([*PLACE, "method"])["seconds"]
    medians, counts = (
        each.unstack().reindex(columns=[*plan.labels]) for each in (by_cell.median(), by_cell.size())
    )
    quartiles = medians.div(medians[base], axis=0).quantile([0.5, 0.25, 0.75]).T
    columns = [counts.sum(), (counts * medians).sum() / HOUR, *(quartiles[at] for at in quartiles)]
    frame = pd.concat(columns, axis=1, keys=[*COLUMNS]).query("runs > 0").sort_values("ratio")
    rows = [
        (plan.labels[name], tuple(map(PrintedCell, (f"{runs:,.0f}", *(f"{value:.2f}" for value in rest)))))
        for name, runs, *rest in frame.itertuples()
    ]
    note = (
        f"{frame['runs'].sum():,.0f} runs of all stages, without those of controls, in "
        f"{frame['hours'].sum():.1f} core hours ({run_times['seconds'].sum() / HOUR:.1f} by the clock): a "
        "method's median seconds in a setting times its runs there, since a machine that sleeps during a run "
        f"makes that one long. Seconds: medians against {plan.labels[base]}'s in the same setting on the "
        "same kind of processor; median over settings, and quartiles. They depend on the machine and on what "
        "else runs there; bytes and rows, on the board, do not."
    )
    return BoardContent(frame.rename_axis("row").reset_index(), COLUMNS, rows, note)


def _draw(plan: Plan, inputs: Inputs) -> Picture:
    runs, base = complete(plan, scores(plan, inputs.cells)), plan.benchmark.base
    frame = relative_costs(runs, base).assign(effect=effects.ahead(runs, base).mean())
    figure, panels = figures.panels(dict.fromkeys(AXES, ""), 5.8, 1)
    for key, axes in panels.items():
        shown = frame[frame[key] > 0].round({key: 2}).sort_values([key, "effect"], ascending=[True, False])
        ahead = shown["effect"] > shown["effect"].cummax().shift(fill_value=-np.inf)
        named = ahead | (np.abs(np.log(shown[key])) > np.log(APART))
        look = {"hue": named, "palette": {True: style.BLUE, False: "0.6"}, "legend": False, "s": 16}
        axes.set_xscale("log")
        axes.set_yscale("symlog", linthresh=LINEAR)
        seaborn.scatterplot(shown, x=key, y="effect", ax=axes, zorder=3, **look)
        axes.set(xlabel=f"times {plan.labels[base]}'s {AXES[key]}", ylabel=against(plan))
        for axis, ticks in ((axes.xaxis, TIMES), (axes.yaxis, TICKS)):
            axis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
            axis.set_major_formatter(lambda value, at: in_print(value))
        axes.minorticks_off()
        _name(axes, shown[named].sort_values("effect")[[key, "effect"]], plan.labels)
    notes = [
        f"Effects: as on the board; the axis is linear to ±{LINEAR}, logarithmic beyond. Named: what costs "
        f"{APART:g} times more or less than {plan.labels[base]}, and what no other method reaches at as "
        "little cost. What sends nothing is not among those by bytes.",
    ]
    tidy = frame.rename_axis("row").reset_index().melt("row", var_name="column", value_name="mean")
    return Picture(tidy, figure, notes)


def _name(axes: Axes, points: DataFrame, labels: Mapping[str, str]) -> None:
    """Name points, the lowest first, at the right of the axes: at their height, as far as names have room."""
    steps = ROOM * np.arange(len(points))
    free = axes.transAxes.inverted().transform(axes.transData.transform(points))[:, 1] - steps
    up, down = np.maximum.accumulate(free), np.minimum.accumulate(free[::-1])[::-1]
    for (name, x, y), place in zip(points.itertuples(), steps + (up + down) / 2, strict=True):
        axes.annotate(
            labels[name].partition(" (")[0],
            (x, y),
            (1.04, place),
            textcoords="axes fraction",
            va="center",
            fontsize=figures.SMALL,
            arrowprops={"arrowstyle": "-", "color": "0.7", "linewidth": 0.5},
        )
