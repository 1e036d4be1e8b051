"""Fig. 10: rounds to reach an accuracy, and the time of a round, cross-device with non-IID data."""

import math
import statistics
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from fedcore.base.lazy import Axes, DataFrame, pd, seaborn
from pipeline.catalogue.targets import Column
from pipeline.papers.rfedavg.tables import IMAGES, SIMILARITY
from pipeline.reports import figures
from pipeline.reports.cost import rounds_to
from pipeline.reports.drawings import Inputs, Picture, drawing, each, line
from pipeline.reports.style import Look

REGIME, BASE = "cross_device", "fedavg"
LEVELS = (70, 80, 90)
SMALL: Any = {"ha": "center", "rotation": 90, "fontsize": figures.SMALL}
RATIO = {"sim0": "time_over_rfedavg", "sim10": "time_over_rfedavg-sim10"}
COLUMNS = tuple(
    Column(f"{data}-{split}", f"{name}, {similarity}")
    for (data, name), (split, similarity) in product(IMAGES.items(), SIMILARITY.items())
)


def level(inputs: Inputs, data: str, share: int) -> float:
    """Return an accuracy to reach, in per cent.

    It lies at a share of the way from the accuracy of the initial model to the best that FedAvg has in
    any round, each a mean over seeds; NaN where FedAvg never rises above the initial model, or diverges.
    """
    runs = [facts for facts in inputs.cells[BASE, f"{data}-sim0"] if facts.final]
    if not runs:
        return math.nan
    curves = [100 * facts.history["test_accuracy"] for facts in runs]
    start = statistics.fmean(curve.iloc[0] for curve in curves)
    best = statistics.fmean(curve.max() for curve in curves)
    return start + share / 100 * (best - start) if best > start else math.nan


def numbers(inputs: Inputs) -> DataFrame:
    """Return rounds to each level, median seconds of a round that measured nothing, and their ratio to
    rFedAvg's, a mean over data sets; all over seeds.

    ``accuracy``: the level in per cent, on lines of rounds. ``n`` counts the runs that reached it.
    """
    rows = list(dict.fromkeys(row for row, _ in inputs.cells))
    times = {
        cell: np.array([(facts.timing or {}).get("median_round_seconds") for facts in runs], dtype=float)
        for cell, runs in inputs.cells.items()
    }
    lines = []
    for data, share in product(IMAGES, LEVELS):
        accuracy = level(inputs, data, share)
        for row in rows:
            reached = [
                rounds_to(100 * facts.series("test_accuracy"), accuracy) if facts.final else None
                for facts in inputs.cells[row, f"{data}-sim0"]
            ]
            lines.append(line(row, f"rounds{share}-{data}", reached, accuracy=accuracy))
    lines += [line(row, f"seconds-{column}", [*values]) for (row, column), values in times.items()]
    for (split, column), row in product(RATIO.items(), rows):
        ratios = [times[row, f"{data}-{split}"] / times["rfedavg", f"{data}-{split}"] for data in IMAGES]
        lines.append(line(row, column, [*np.mean(ratios, axis=0)]))
    return pd.DataFrame(lines)


def machines(inputs: Inputs) -> str:
    """Say on what the rounds were timed."""
    timings = [facts.timing or {} for runs in inputs.cells.values() for facts in runs]
    kinds = {
        f"{timing['machine']} with {timing['processors']} processors, device {timing['device']}, "
        f"{timing['threads']} thread{'s' * (timing['threads'] > 1)} a run"
        for timing in timings
        if timing.get("median_round_seconds") is not None
    }
    return f"Timed on: {'; '.join(sorted(kinds))}." if kinds else "No round was timed."


@drawing(
    title="Rounds to reach an accuracy, and the time of a round, cross-device",
    published="Fig. 10",
    lacking=" in the upper panels",
    queries=each((), {f"{data}-{split}": (REGIME, data, split) for data in IMAGES for split in SIMILARITY}),
    columns=lambda params: COLUMNS,
)
def efficiency(inputs: Inputs) -> Picture:
    """Draw bars of rounds to each level above, and bars of a round's time below."""
    frame = numbers(inputs)
    known = inputs.looks(frame["row"])
    above = {f"rounds-{data}": f"{label}, {SIMILARITY['sim0']}" for data, label in IMAGES.items()}
    below = {f"seconds-{data}": label for data, label in IMAGES.items()}
    figure, panels = figures.panels(above | below, 5.4, across=2)
    for data in IMAGES:
        axes = panels[f"rounds-{data}"]
        columns = [f"rounds{share}-{data}" for share in LEVELS]
        levels = [frame[frame["column"] == column]["accuracy"].max() for column in columns]
        if any(map(math.isnan, levels)):
            never = "FedAvg never rises above\nthe initial accuracy"
            axes.text(0.5, 0.5, never, ha="center", transform=axes.transAxes)
            axes.set(xticks=[], yticks=[])
        else:
            rounds = inputs.cells[BASE, f"{data}-sim0"][0].run.spec["training"]["rounds"]
            labels = dict(zip(columns, (f"{accuracy:.1f}%" for accuracy in levels), strict=True))
            bars(axes, frame, labels, known, rounds)
            axes.set_xlabel("test accuracy to reach")
        splits = {f"seconds-{data}-{split}": label for split, label in SIMILARITY.items()}
        bars(panels[f"seconds-{data}"], frame, splits, known)
    first = next(iter(IMAGES))
    panels[f"rounds-{first}"].set_ylabel("communication rounds")
    panels[f"seconds-{first}"].set_ylabel("seconds per round")
    figures.legend(figure, known)
    shares = ", ".join(map(str, LEVELS[:-1]))
    sentences = (
        f"Above: the first round that has come {shares} or {LEVELS[-1]}% of the way from the initial "
        "test accuracy to FedAvg's best (means over seeds). A dashed bar below –: no seed reached it in "
        "the rounds that ran; m of n: the bar is the mean of the m of n seeds that reached it.",
        "Below: the median time of a round without measuring, clients one after another.",
        inputs.spread(frame, "Bars and whiskers: mean and ± one sample standard deviation", "a bar"),
        machines(inputs),
        "Runs may have shared the machine with others.",
    )
    return Picture(frame, figure, sentences)


def bars(
    axes: Axes,
    frame: DataFrame,
    columns: Mapping[str, str],
    known: Mapping[str, Look],
    limit: float = math.nan,
) -> None:
    """Draw one bar per algorithm in each column, an open one up to ``limit`` where no run has a number.

    ``columns`` says what stands below each; ``limit`` is the largest number that a run can have.
    """
    shown = frame[frame["column"].isin(columns)]
    colours = {row: look.colour for row, look in known.items()}
    same: Any = {"x": "column", "y": "mean", "hue": "row", "order": [*columns], "hue_order": [*known]}
    seaborn.barplot(shown, **same, palette=colours, saturation=1, errorbar=None, legend=False, ax=axes)
    width = 0.8 / len(known)
    for row, column, mean, std, n, seeds in shown[["row", "column", "mean", "std", "n", "seeds"]].to_numpy():
        at = [*columns].index(column) + width * ([*known].index(row) - (len(known) - 1) / 2)
        whisker = 0.0 if math.isnan(std) else std
        if n and whisker:
            axes.errorbar(at, mean, whisker, color="0.45", elinewidth=0.8, capsize=1.5)
        elif not (n or math.isnan(limit)):
            axes.bar(at, limit, width, fill=False, edgecolor=known[row].colour, linestyle="--")
            axes.text(at, limit, "–", ha="center", fontsize=figures.SMALL)
        if 0 < n < seeds:
            axes.text(at, mean + whisker, f" {n} of {seeds}", **SMALL, va="bottom")
    axes.set_xticks(range(len(columns)), list(columns.values()))
    axes.set(xlabel="", ylabel="")
    axes.grid(visible=False, axis="x")
    if math.isnan(limit):
        axes.set_ylim(bottom=0)
    else:
        axes.set_ylim(0, 1.2 * limit)
        figures.whole_numbers(axes.yaxis)
