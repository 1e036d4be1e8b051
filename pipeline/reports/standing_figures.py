"""The figures of a benchmark: effects, also by skew and by cost, profiles, and what trials are worth."""

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from fedcore.base.lazy import Axes, DataFrame, matplotlib, pd, seaborn
from pipeline.catalogue.targets import Asked, Target
from pipeline.reports import captions, effects, figures, style
from pipeline.reports.drawings import Drawing, Inputs, Picture
from pipeline.reports.render import in_print
from pipeline.reports.significance import FEWEST
from pipeline.reports.standings import complete, contending, expected, found_effects, relative_costs, scores
from pipeline.reports.trials import Plan

RATIOS = tuple(np.linspace(1.0, 2.0, 101).round(2).tolist())
MOST_NAMED = 12
LETTERS = 10  # that fit above a column
POINTS = [-20, -5, -2, -1, 0, 1, 2, 5, 20]
LINEAR = 2  # points of accuracy up to which effects are drawn to scale where some are five times as large
DARKEST = 5  # points of accuracy
AXES = {"traffic": "bytes", "work": "rows, one without a gradient counting a third"}
TIMES = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5]
APART = 1.25  # times the base's cost, from which a method is named
ROOM = 0.07  # of an axis' height, for a name beside it


def standing_figures(plan: Plan, methods: Mapping[str, str], cells: Asked) -> dict[str, Target]:
    """Return the figures of final runs, with the queries of their ``cells``."""
    finals = {cell: query for cell, query in cells.items() if cell[0] not in plan.controls}
    cost = "Effects over data sets, by what a method sends and computes"
    drawings = {
        "effects": ("Effects", "Effects over data sets", _draw_effects),
        "kinds": ("Kinds of skew", "Effects by skew", _draw_kinds),
        "profiles": ("Profiles", "Performance profiles", _draw_profiles),
        "budget": ("Budget", "What trials are worth", _draw_budget),
        "tradeoff": ("Trade-off", cost, _draw_tradeoff),
    }
    return {
        name: Drawing(
            title=title,
            published=published,
            queries=lambda params: finals,
            draw=partial(draw, plan),
            rows=lambda params: methods,
            partial=True,
        )
        for name, (published, title, draw) in drawings.items()
        if name != "kinds" or plan.benchmark.kinds
    }


def _draw_effects(plan: Plan, inputs: Inputs) -> Picture:
    found = found_effects(plan, scores(plan, inputs.cells))
    order, margin = [*reversed(found)], plan.benchmark.margin
    far = any(max(-effect.low, effect.high) > 5 * LINEAR for effect in found.values())
    figure = figures.framed(1.0 + 0.17 * len(order))
    axes = figure.subplots()
    if far:
        axes.set_xscale("symlog", linthresh=LINEAR)
        axes.set_xticks(POINTS, [*map(in_print, POINTS)])
        axes.minorticks_off()
    axes.axvspan(-margin, margin, color="0.9")
    axes.axvline(0, color="0.5", linewidth=0.8)
    for name, effect in found.items():
        ends = [[effect.mean - effect.low], [effect.high - effect.mean]] if effect.sets > 1 else None
        marker: Any = {"marker": "o", "markerfacecolor": style.BLUE if effect.decides else "white"}
        axes.errorbar(effect.mean, order.index(name), xerr=ends, color=style.BLUE, **marker)
    axes.set_yticks(range(len(order)), [plan.labels[name] for name in order])
    axes.set_ylim(-0.5, len(order) - 0.5)
    axes.set_xlabel(_against(plan))
    numbers = _effect_lines({"all": found})
    notes = [
        f"Means over n = {captions.extent(numbers['n'])} data sets with 95% intervals, not corrected for the "
        f"number of methods; grey: no difference that matters (±{margin:g} points).",
        f"The axis is linear to ±{LINEAR}, logarithmic beyond." if far else "",
        "The interval of one data set is not drawn." if (numbers["n"] == 1).any() else "",
        f"Hollow: of fewer than {FEWEST} data sets, which decides nothing."
        if (numbers["n"] < FEWEST).any()
        else "",
    ]
    return Picture(numbers, figure, notes)


def _draw_kinds(plan: Plan, inputs: Inputs) -> Picture:
    run_scores, margin = scores(plan, inputs.cells), plan.benchmark.margin
    dataset = run_scores["workload"].map(lambda setting: plan.settings[setting].dataset)
    by_kind = {kind: run_scores[dataset.isin(names)] for kind, names in plan.benchmark.kinds.items()}
    by_name = {kind.replace("_", " "): found_effects(plan, lines) for kind, lines in by_kind.items()}
    found = {kind: of_kind for kind, of_kind in by_name.items() if of_kind}
    order, numbers = [*found_effects(plan, run_scores)], _effect_lines(found)
    means = numbers.pivot(index="row", columns="column", values="mean").reindex(index=order, columns=[*found])
    figure = figures.framed(1.1 + 0.17 * len(order))
    axes = figure.subplots()
    bar = {"extend": "both", "extendfrac": 0.03, "fraction": 0.04, "pad": 0.03}
    colours = {"cmap": "vlag_r", "vmin": -DARKEST, "vmax": DARKEST, "cbar_kws": bar}
    seaborn.heatmap(means, ax=axes, annot=True, fmt="+z.1f", annot_kws={"size": figures.SMALL}, **colours)
    for text, (row, kind) in zip(axes.texts, means.stack().dropna().index, strict=True):
        if found[kind][row].verdict(margin) in ("better", "worse"):
            text.set_fontweight("bold")
    counts = numbers.groupby("column")["n"].max()
    heads = [f"{textwrap.fill(kind, LETTERS)}\nn = {counts[kind]}" for kind in found]
    axes.set(xlabel=_against(plan), ylabel="")
    axes.set_xticks(np.arange(len(found)) + 0.5, heads, rotation=0, fontsize=figures.SMALL)
    axes.set_yticks(np.arange(len(order)) + 0.5, [plan.labels[name] for name in order], rotation=0)
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
    notes = [
        f"Means over at most n data sets; colours are darkest at {DARKEST} points.",
        f"Bold: the 95% interval, not corrected for how many there are, lies beyond ±{margin:g} points; from "
        f"{FEWEST} data sets on.",
    ]
    return Picture(numbers, figure, notes)


def _effect_lines(found: Mapping[str, Mapping[str, effects.Effect]]) -> DataFrame:
    """Return a line for each effect of each group."""
    lines = [effect.line(name, group) for group, each in found.items() for name, effect in each.items()]
    return pd.DataFrame(lines, columns=["row", "column", "mean", "low", "high", "n"])


def _against(plan: Plan) -> str:
    return f"points of accuracy against {plan.labels[plan.benchmark.base]}"


def _draw_profiles(plan: Plan, inputs: Inputs) -> Picture:
    compared = contending(plan, scores(plan, inputs.cells))
    profiles = effects.profiles(compared, RATIOS)
    counts = captions.extent(compared.groupby("method")["workload"].nunique())
    note = (
        f"Share of a method's {counts} settings in which its error is at most x times the lowest one of all "
        "that are drawn."
    )
    labels = ("error, as a ratio to the least", "share of settings")
    return _steps(plan, profiles, labels, note, drawstyle="steps-post")


def _draw_budget(plan: Plan, inputs: Inputs) -> Picture:
    base = plan.labels[plan.benchmark.base]
    note = (
        f"Expected best of n trials against {base}'s best of all, on rows to choose by; mean over the "
        "data sets that the method has, on settings where all methods have all trials."
    )
    drawn = _steps(plan, expected(plan), ("trials", f"points of accuracy\nagainst {base}'s best"), note)
    figures.whole_numbers(drawn.figure.axes[0].xaxis)
    return drawn


def _steps(plan: Plan, frame: DataFrame, labels: tuple[str, str], note: str, **look_of: Any) -> Picture:
    figure = figures.framed(3.4)
    axes = figure.subplots()
    named = [str(name) for name in frame.index]
    if len(named) > MOST_NAMED:
        first = {plan.benchmark.base, *next(iter(plan.benchmark.families.values()))}
        grey = frame.drop(index=[*first], errors="ignore")
        axes.plot(frame.columns, grey.T, color="0.85", linewidth=0.8, **look_of)
        named, note = [name for name in named if name in first], f"{note} Grey: {len(grey)} other methods."
    looks = style.distinct(style.looks(named))
    step = ceil(len(frame.columns) / figures.MARKS)
    for index, (name, look) in enumerate(looks.items()):
        (line,) = axes.plot(frame.columns, frame.loc[name], look.line, color=look.colour, **look_of)
        line.set(marker=look.marker, markevery=(index * step // len(looks), step))
    axes.set(xlabel=labels[0], ylabel=labels[1])
    if looks:
        figures.legend(figure, {plan.labels[name]: replace(look, label="") for name, look in looks.items()})
    return Picture(_tidy(frame), figure, [note])


def _tidy(frame: DataFrame) -> DataFrame:
    return frame.rename_axis("row").reset_index().melt("row", var_name="column", value_name="mean")


def _draw_tradeoff(plan: Plan, inputs: Inputs) -> Picture:
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
        axes.set(xlabel=f"times {plan.labels[base]}'s {AXES[key]}", ylabel=_against(plan))
        for axis, ticks in ((axes.xaxis, TIMES), (axes.yaxis, POINTS)):
            axis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
            axis.set_major_formatter(lambda value, at: in_print(value))
        axes.minorticks_off()
        _name(axes, shown[named].sort_values("effect")[[key, "effect"]], plan.labels)
    notes = [
        f"Effects: as on the board; the axis is linear to ±{LINEAR}, logarithmic beyond. Named: what costs "
        f"{APART:g} times more or less than {plan.labels[base]}, and what no other method reaches at as "
        "little cost. What sends nothing is not among those by bytes."
    ]
    return Picture(_tidy(frame), figure, notes)


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
