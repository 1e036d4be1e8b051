"""Rank summaries of tables with many data sets: mean ranks, Friedman's test, Nemenyi's critical difference.

Demsar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, 2006.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from fedcore.base.lazy import Axes, DataFrame, Series, pd, scipy
from pipeline.reports import figures, style
from pipeline.reports.captions import extent
from pipeline.reports.drawings import Drawing, Inputs, Picture
from pipeline.reports.significance import ALPHA, DIGITS, FEWEST
from pipeline.reports.tables import Table, tidy

FEW_SETS = 10
MEAN, RANK = "mean_rank", "rank"
SIDE = 0.28
DEPENDENT = "settings of one data set are not independent"


@dataclass(frozen=True)
class Ranking:
    """Methods compared over data sets.

    Attributes:
        ranks: the rank of each method (row) on each data set (column), 1 being the best; ties share a mean.
        statistic: Friedman's chi-squared, NaN where no test could run.
        p: its p-value by the F distribution of Iman and Davenport (1980).
        difference: Nemenyi's critical difference of two mean ranks at 5%, NaN where no test could run.
        why: why no test could run; empty where one did.
    """

    ranks: DataFrame
    statistic: float = math.nan
    p: float = math.nan
    difference: float = math.nan
    why: str = ""

    @property
    def means(self) -> Series[float]:
        """Mean rank of each method, the best first."""
        return self.ranks.mean(axis=1).sort_values(kind="stable")

    def groups(self) -> list[tuple[str, ...]]:
        """Return the largest sets of neighbours that the critical difference does not tell apart."""
        means = self.means
        if math.isnan(self.difference):
            return []
        spans: list[tuple[int, int]] = []
        for first, low in enumerate(means):
            last = max(index for index, high in enumerate(means) if high - low < self.difference)
            if last > first and not any(last <= end for _, end in spans):
                spans.append((first, last))
        return [tuple(means.index[first : last + 1]) for first, last in spans]


def ranking(
    scores: DataFrame, largest: bool = True, runs: float = FEWEST, dataset: Mapping[str, str] | None = None
) -> Ranking:
    """Rank methods on each data set and test whether they differ.

    Args:
        scores: a number for each method (row) and data set (column); data sets with a gap are left out.
        largest: whether large numbers are good.
        runs: the fewest runs of a number; the ranks of means over a few are too uncertain for a test.
        dataset: the data set of each column, where a column is no data set of its own.
    """
    complete = scores.dropna(axis=1)
    ranks = complete.round(DIGITS).rank(ascending=not largest)
    methods, sets = ranks.shape
    distinct = sets if dataset is None else len({dataset[str(column)] for column in complete})
    why = _untestable(methods, distinct, runs) or (DEPENDENT if distinct < sets else "")
    if why:
        return Ranking(ranks, why=why)
    if (ranks.nunique() == 1).all():
        return Ranking(ranks, why="all methods are equal on every data set")
    statistic = float(scipy.stats.friedmanchisquare(*ranks.to_numpy()).statistic)
    most = sets * (methods - 1)
    f = math.inf if math.isclose(statistic, most) else (sets - 1) * statistic / (most - statistic)
    p = float(scipy.stats.f.sf(f, methods - 1, (methods - 1) * (sets - 1)))
    return Ranking(ranks, statistic, p, critical_difference(methods, sets))


def critical_difference(methods: int, sets: int) -> float:
    """Return Nemenyi's critical difference of mean ranks: q sqrt(k (k + 1) / 6 N), q being the studentised
    range's quantile over sqrt(2).
    """
    q = float(scipy.stats.studentized_range.ppf(1 - ALPHA, methods, math.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * sets))


def summary(
    table: Table, without: Collection[str] = (), title: str = "", dataset: Mapping[str, str] | None = None
) -> Drawing:
    """Declare the rank summary of a table: one line in a paper's file.

    Methods are ranked by their means over runs on each column, but on those ``without``, such as an average.
    ``dataset`` is that of each column, where a column is a setting of one.
    """
    return Drawing(
        title=title or f"Mean ranks of the methods of {table.published} over data sets, 1 being the best",
        published=table.published,
        queries=lambda params: {cell: q for cell, q in table.cells(params).items() if cell[1] not in without},
        draw=partial(_draw, table, dataset),
        rows=table.rows,
    )


def scores_of(frame: DataFrame) -> DataFrame:
    """Return the means by method and data set, in the table's order; missing where a cell lacks runs."""
    complete = frame["mean"].where((frame["n"] == frame["seeds"]) & (frame["n"] > 0))
    wide = frame.assign(mean=complete).pivot(index="row", columns="column", values="mean")
    return wide.loc[list(dict.fromkeys(frame["row"])), list(dict.fromkeys(frame["column"]))]


def _untestable(methods: int, sets: int, runs: float) -> str:
    if sets < FEWEST:
        counted = f"{sets or 'no'} data set{'' if sets == 1 else 's'}"
        return f"{counted} with all runs of all methods, fewer than five"
    if runs < FEWEST:
        return "fewer than five runs per cell"
    return f"{methods} methods, Friedman's test needs three" if methods < 3 else ""


def _lines(ranked: Ranking, frame: DataFrame) -> DataFrame:
    sets, means = ranked.ranks.shape[1], ranked.means
    spread = ranked.ranks.std(axis=1)
    test = {"friedman": ranked.statistic, "p": ranked.p, "critical_difference": ranked.difference}
    lines = [
        {"row": name, "column": MEAN, "mean": means[name], "std": spread[name], "n": sets, **test}
        for name in means.index
    ]
    runs = frame.set_index(["row", "column"])["n"]
    lines += [
        {"row": name, "column": f"{RANK}-{column}", "mean": rank, "n": runs[name, column]}
        for name in means.index
        for column, rank in ranked.ranks.loc[name].items()
    ]
    return pd.DataFrame(lines)


def _draw(table: Table, dataset: Mapping[str, str] | None, inputs: Inputs) -> Picture:
    frame = tidy("", "", replace(table, finish=None), inputs.cells, None)  # as it was measured
    scores = scores_of(frame)
    runs = frame["n"].where(frame["n"] == frame["seeds"]).min()
    ranked = ranking(scores, table.best != "smallest", runs, dataset)
    labels = table.row_labels(inputs.params)
    figure = figures.framed(1.7 + 0.2 * math.ceil(len(ranked.means) / 2))
    diagram(figure.subplots(), ranked, labels, inputs.marked)
    kind = "data set" if dataset is None else "setting"
    return Picture(_lines(ranked, frame), figure, _sentences(frame, ranked, scores.shape[1], kind))


def _sentences(frame: DataFrame, ranked: Ranking, columns: int, kind: str) -> list[str]:
    methods, sets = ranked.ranks.shape
    if not sets:
        return [f"No test of significance: {ranked.why}."]
    runs = sorted(set(frame.loc[frame["column"].isin(ranked.ranks.columns), "n"]))
    sentences = [
        f"{methods} method{'' if methods == 1 else 's'} on {sets} {kind}{'' if sets == 1 else 's'}, "
        f"by means over {extent(runs)} run{'' if runs == [1] else 's'} per cell."
    ]
    if columns > sets:
        sentences.append(f"{columns - sets} more left out, as a method lacks runs there.")
    if ranked.why:
        return [*sentences, f"No test of significance: {ranked.why}."]
    sentences.append(
        f"Friedman's test: chi-squared {ranked.statistic:.2f}, p = {ranked.p:.2g} (Iman and Davenport). "
        f"CD: Nemenyi's critical difference at {ALPHA:.0%}; a bar joins methods that it does not tell apart."
    )
    level = "The methods as a whole do not differ significantly, so no pair can be distinguished."
    few = f"With {sets} data sets the tests are approximate and find large differences only."
    return [*sentences, *([level] if ranked.p >= ALPHA else []), *([few] if sets <= FEW_SETS else [])]


def diagram(axes: Axes, ranked: Ranking, labels: Mapping[str, str], marked: Collection[str] = ()) -> None:
    """Draw an axis of mean ranks, the best at the left, with a leader to each method's name, and the bars.

    ``labels`` are the names in print of methods that are no algorithms of the papers.
    """
    means = ranked.means
    axes.set_axis_off()
    if means.isna().any():
        axes.text(0.5, 0.5, "no data set has all runs of all methods", ha="center", transform=axes.transAxes)
        return
    most = len(means)
    half = math.ceil(most / 2)
    room = SIDE * max(most - 1, 1)
    axes.set_xlim(1 - room, most + room)
    axes.hlines(0, 1, most, color="black", linewidth=0.8)
    for rank in range(1, most + 1):
        axes.vlines(rank, 0, 0.18, color="black", linewidth=0.8)
        axes.text(rank, 0.25, str(rank), ha="center", va="bottom")
    bars = ranked.groups()
    top = -0.35 - 0.22 * len(bars)
    for index, group in enumerate(bars):
        first, last = means[group[0]] - 0.04, means[group[-1]] + 0.04
        axes.hlines(-0.28 - 0.22 * index, first, last, color="black", linewidth=2.5)
    looks = style.marked(style.looks(map(str, means.index)), marked)
    for index, (name, look) in enumerate(looks.items()):
        mean, left = means[name], index < half
        y = top - 0.45 * ((index if left else most - 1 - index) + 0.5)
        edge = 1 - 0.04 * most if left else most + 0.04 * most
        axes.plot([mean, mean, edge], [0, y, y], color=look.colour, linewidth=0.8, linestyle=look.line)
        axes.plot(mean, 0, look.marker, color=look.colour, clip_on=False, zorder=3)
        text = labels.get(name) or look.label
        words, side = (f"{text}  {mean:.2f}", "right") if left else (f"{mean:.2f}  {text}", "left")
        axes.text(edge + (-0.03 if left else 0.03) * most, y, words, ha=side, va="center")
    high = 0.75
    if not math.isnan(ranked.difference):
        high = 1.45
        end = 1 + min(ranked.difference, most - 1)
        axes.hlines(1.0, 1, end, color="black", linewidth=1.2)
        axes.vlines([1, end], 0.9, 1.1, color="black", linewidth=1.2)
        beyond = " (wider than the axis)" if ranked.difference > most - 1 else ""
        axes.text((1 + end) / 2, 1.12, f"CD = {ranked.difference:.2f}{beyond}", ha="center", va="bottom")
    axes.set_ylim(top - 0.45 * (half + 0.2), high)
