"""Inequalities of theorems as measurements: both sides, their ratio, and how often they hold.

The tidy lines of an inequality (``row``) in a setting (``column``): one for each place ``round`` along what
varies (rounds, rows, clients), and one for all places, whose ``mean`` is the largest ratio. ``holds`` is the
share of the draws in which the left side is at most the right one. A law in O() has no constant: its ratio is
the smallest constant that does there, and ``<column>_slope`` says how both sides grow on log-log axes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcore.base.lazy import DataFrame, Figure, scipy
from pipeline.reports import figures
from pipeline.reports.drawings import Picture
from pipeline.reports.style import GREEN, VERMILION

Floats = NDArray[np.float64]
# Left and right by inequality: a number, or one for each draw.
Sides = Mapping[str, tuple[ArrayLike, ArrayLike]]
SLOPE = "_slope"
GROUPS = 10  # of draws, or populations: a slope's interval is over them
NEAR = 1e-9, 1e-12  # rounding: a share of the right side, and at all
VACUOUS = 1e-3
HOLDS, FAILS, OPEN = GREEN, VERMILION, "0.6"


def lines(
    column: str, along: Sequence[float], places: Sequence[Sequence[Sides]], laws: Collection[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the tidy lines of a setting, given what groups of draws found at each place along what varies.

    ``laws`` are the inequalities in O(), which are about means over draws.
    """
    for row in places[0][0]:
        left, right = (_side(row, places, index) for index in (0, 1))
        common: dict[str, Any] = {"row": row, "column": column, "n": left.shape[1], "seeds": left.shape[1]}
        if row in laws:
            yield common | _slopes(column, along, left, right)
            left, right = left.mean(axis=1, keepdims=True), right.mean(axis=1, keepdims=True)
        holds = left <= right + NEAR[0] * np.abs(right) + NEAR[1]
        ratio = np.where(holds, 0.0, np.inf)
        np.divide(left, right, out=ratio, where=np.abs(right) > NEAR[1])
        held = np.where(row in laws, np.nan, holds.mean(axis=1))
        ends = {"low": ratio.min(), "high": ratio.max(), "holds": held.mean()}
        yield common | {"mean": ratio.max()} | ends
        for k, at in enumerate(along):
            ends = {"low": ratio[k].min(), "high": ratio[k].max(), "holds": held[k]}
            sides = {"left": left[k].mean(), "right": right[k].mean()}
            yield common | {"round": at, "mean": ratio[k].mean()} | sides | ends


def _side(row: str, places: Sequence[Sequence[Sides]], index: int) -> Floats:
    """Return the left (0) or right (1) side of an inequality in each draw [places, draws]."""
    both = [[np.broadcast_arrays(*map(np.atleast_1d, sides[row])) for sides in place] for place in places]
    return np.array([np.concatenate([pair[index] for pair in place]) for place in both], float)


def _slopes(column: str, along: Sequence[float], left: Floats, right: Floats) -> dict[str, Any]:
    """Return the left side's slope with its 95% interval; a law holds unless that lies above its slope."""
    groups = np.array_split(left, min(GROUPS, left.shape[1]), axis=1)
    slopes = [slope(along, group.mean(axis=1)) for group in groups]
    mean, law = float(np.mean(slopes)), slope(along, right.mean(axis=1))
    wide = np.nan
    if len(slopes) > 1:
        wide = float(scipy.stats.t.ppf(0.975, len(slopes) - 1) * scipy.stats.sem(slopes))
    holds = np.nan if np.isnan(wide) else float(mean - wide <= law + NEAR[0])
    ends = {"left": mean, "right": law, "low": mean - wide, "high": mean + wide, "holds": holds}
    return {"column": column + SLOPE, "mean": mean, **ends}


def slope(along: Sequence[float], values: Floats) -> float:
    """Return the least-squares slope of log values over log places; nan where a value is not positive."""
    return float(np.polyfit(np.log(along), np.log(values), 1)[0]) if (values > 0).all() else np.nan


def picture(
    frame: DataFrame, titles: Mapping[str, str], *notes: str, labels: Mapping[str, str] = {}
) -> Picture:
    """Draw the ratios, and say what fails, what is too loose to say anything, and how laws grow.

    ``titles`` are the settings in words, by column, and ``labels`` what rows are called in print, where that
    isn't what the lines call them. The caption's notes begin with ``notes``.
    """
    shown = frame.replace({"row": dict(labels)})
    lawful = shown["column"].str.endswith(SLOPE)
    named = shown.assign(column=shown["column"].str.removesuffix(SLOPE).map(titles))
    laws, judged = named[lawful], named[~lawful & named["round"].isna() & named["holds"].notna()]
    not_always = judged[judged["holds"] < 1].to_dict("records")
    failing = ["{row}: {column} ({holds:.0%})".format_map(line) for line in not_always]
    largest = judged.groupby("row", sort=False)["mean"].max()
    loose = [f"{row} (at most {most:.1g})" for row, most in largest.items() if 0 < most < VACUOUS]
    text = "{row}: {column} {mean:.2f} ({low:.2f} to {high:.2f}; {right:.2f})"
    slopes = [text.format_map(line) for line in laws.to_dict("records")]
    sentences = (
        "Dots: left side over right side, one for each place from top to bottom; whiskers: the smallest and "
        "largest draw; green: holds in all draws, orange triangles: not in all, grey: a law without a "
        "constant; open, at the left edge: 0 or less.",
        *notes,
        f"{len(judged) - len(failing)} of {len(judged)} hold in all draws"
        + (f"; not so: {'; '.join(failing)}." if failing else "."),
        f"Vacuous, the right side being over 1,000 times the left: {'; '.join(loose)}." if loose else "",
        f"Slopes on log-log axes (95% interval; the law's): {'; '.join(slopes)}." if slopes else "",
    )
    return Picture(frame, figure_of(shown, titles), sentences)


def figure_of(frame: DataFrame, titles: Mapping[str, str]) -> Figure:
    """Draw the ratios, a panel for each setting and a band for each inequality, with a line at 1."""
    drawn = frame[frame["round"].notna()]
    rows = dict.fromkeys(drawn["row"])
    ratios = drawn[["mean", "low"]].to_numpy()
    edge = ratios[ratios > 0].min(initial=1.0) / 2
    height = min(figures.HIGHEST, 0.5 + (0.35 + 0.14 * len(rows)) * ceil(len(titles) / 2))
    figure, panels = figures.panels(titles, height, 2, sharex=True, sharey=True)
    for index, (column, axes) in enumerate(panels.items()):
        axes.axvline(1, color="0.4", linewidth=0.8)
        for y, row in enumerate(rows):
            dots = drawn[(drawn["row"] == row) & (drawn["column"] == column)]
            dots = dots.assign(level=y + np.linspace(-0.3, 0.3, len(dots)))
            held = dots["holds"]
            kinds = ((held.isna(), OPEN, "o"), (held == 1, HOLDS, "o"), (held < 1, FAILS, "^"))
            for which, look, marker in kinds:
                part = dots[which]
                low, mean, high = (part[key].clip(lower=edge) for key in ("low", "mean", "high"))
                axes.hlines(part["level"], low, high, look, linewidth=0.6)
                faces = np.where(part["mean"] > 0, look, "none")
                shape: Any = {"s": 7, "marker": marker, "linewidths": 0.6, "clip_on": False}
                axes.scatter(mean, part["level"], facecolors=faces, edgecolors=look, **shape)
        axes.set(xscale="log", ylim=(len(rows) - 0.5, -0.5), xlim=(edge, None))
        axes.set_yticks(range(len(rows)), [*rows], fontsize=figures.SMALL)
        last = index >= len(panels) - 2
        axes.set_xlabel("left side / right side" if last else "")
        axes.tick_params(labelbottom=last, labelleft=index % 2 == 0)
    return figure
