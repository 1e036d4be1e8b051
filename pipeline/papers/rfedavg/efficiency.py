"""Fig. 10: rounds to reach an accuracy, and the time of a round, cross-device with non-IID data."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcore.base.lazy import Axes, pd, seaborn
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, PlannedRun, Query
from pipeline.reports import figures, style
from pipeline.reports.drawings import Drawing, Found, Picture
from pipeline.reports.results import final_of, history_of, timing_of
from pipeline.reports.spread import line
from pipeline.reports.style import Look

DATASETS = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
SPLITS = {"sim0": "similarity 0%", "sim10": "similarity 10%"}
BASE = "fedavg"
LEVELS = (70, 80, 90)
COMPARED = "rfedavg"
NEVER = "FedAvg never rises above\nthe initial accuracy"
SMALL: Any = {"ha": "center", "rotation": 90, "fontsize": 5.5}
RATIO = {"sim0": "time_over_rfedavg", "sim10": "time_over_rfedavg-sim10"}


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return the runs of Table II with non-IID data."""
    return {
        (name, f"{data}-{split}"): Query("cross_device", data, split, name)
        for data in DATASETS
        for split in SPLITS
        for name in params.algorithms
    }


def level(found: Found, data: str, share: int) -> float:
    """Return an accuracy to reach, in per cent.

    It lies at a share of the way from the accuracy of the initial model to the best that FedAvg has in
    any round, each a mean over seeds; NaN where FedAvg never rises above the initial model, or diverges.
    """
    runs = [run for run in found.cells[BASE, f"{data}-sim0"] if final_of(run, found.root)]
    if not runs:
        return math.nan
    measured = [100 * history_of(run, found.root)["test_accuracy"] for run in runs]
    start = statistics.fmean(own.iloc[0] for own in measured)
    best = statistics.fmean(own.max() for own in measured)
    return start + share / 100 * (best - start) if best > start else math.nan


def rounds_to(run: PlannedRun, root: Path, accuracy: float) -> float | None:
    """Return the first round with this test accuracy in per cent; None without one or if it diverged."""
    if not final_of(run, root):
        return None
    history = history_of(run, root)
    reached = history["round"][100 * history["test_accuracy"] >= accuracy]
    return None if reached.empty else float(reached.iloc[0])


def seconds(run: PlannedRun, root: Path) -> float | None:
    """Return the median seconds of a run's rounds without measuring; None where they were not timed."""
    value = (timing_of(run, root) or {}).get("median_round_seconds")
    return None if value is None else float(value)


def numbers(found: Found) -> pd.DataFrame:
    """Return rounds to each level, seconds a round, and the ratio of rFedAvg's time, over seeds.

    ``accuracy``: the level in per cent, on lines of rounds. ``n`` counts the runs that reached it.
    """
    rows = list(dict.fromkeys(row for row, _ in found.cells))
    times = {cell: [seconds(run, found.root) for run in runs] for cell, runs in found.cells.items()}
    lines = []
    for data in DATASETS:
        for share in LEVELS:
            accuracy = level(found, data, share)
            for row in rows:
                reached = [rounds_to(run, found.root, accuracy) for run in found.cells[row, f"{data}-sim0"]]
                lines.append(line(row, f"rounds{share}-{data}", reached, accuracy=accuracy))
    lines += [line(row, f"seconds-{column}", values) for (row, column), values in times.items()]
    for split, column in RATIO.items():
        for row in rows:
            pairs = [
                list(zip(times[row, f"{data}-{split}"], times[COMPARED, f"{data}-{split}"], strict=True))
                for data in DATASETS
            ]
            lines.append(line(row, column, [ratio(seed) for seed in zip(*pairs, strict=True)]))
    return pd.DataFrame(lines)


def ratio(pairs: Collection[tuple[float | None, float | None]]) -> float | None:
    """Return the mean over data sets of own time over the other's; None where one was not timed."""
    known = [own / other for own, other in pairs if own is not None and other]
    return statistics.fmean(known) if len(known) == len(pairs) else None


def machines(found: Found) -> str:
    """Say on what the rounds were timed."""
    timings = [timing_of(run, found.root) or {} for runs in found.cells.values() for run in runs]
    kinds = sorted(
        {
            f"{own['machine']} with {own['processors']} processors, device {own['device']}, "
            f"{own['threads']} thread{'s' * (own['threads'] > 1)} a run"
            for own in timings
            if own.get("median_round_seconds") is not None
        }
    )
    return f"Timed on: {'; '.join(kinds)}." if kinds else "No round was timed."


def draw(found: Found) -> Picture:
    """Draw bars of rounds to each level above, and bars of a round's time below."""
    frame = numbers(found)
    known = style.looks(frame["row"].unique())
    figure = figures.framed(5.4)
    grid = figure.subplots(2, 2)
    for axes, (data, label) in zip(grid[0], DATASETS.items(), strict=True):
        done = int(history_of(found.cells[BASE, f"{data}-sim0"][0], found.root)["round"].max())
        columns = [f"rounds{share}-{data}" for share in LEVELS]
        own = frame[frame["column"].isin(columns)].groupby("column", sort=False)["accuracy"].max()
        axes.set_title(f"{label}, {SPLITS['sim0']}")
        if own.isna().any():
            axes.text(0.5, 0.5, NEVER, ha="center", transform=axes.transAxes)
            axes.set(xticks=[], yticks=[])
            continue
        bars(axes, frame, columns, [f"{own[column]:.1f}%" for column in columns], known, limit=done)
        axes.set_xlabel("test accuracy to reach")
    for axes, (data, label) in zip(grid[1], DATASETS.items(), strict=True):
        bars(axes, frame, [f"seconds-{data}-{split}" for split in SPLITS], list(SPLITS.values()), known)
        axes.set_title(label)
    grid[0, 0].set_ylabel("communication rounds")
    grid[1, 0].set_ylabel("seconds per round")
    figures.legend(figure, known)
    shares = ", ".join(map(str, LEVELS[:-1]))
    sentences = (
        f"Above: the first round that has come {shares} or {LEVELS[-1]}% of the way from the initial "
        "test accuracy to FedAvg's best (means over seeds). A dashed bar: no seed reached it in the "
        "rounds that ran; m of n: the bar is the mean of the m of n seeds that reached it.",
        "Below: the median time of a round without measuring, clients one after another.",
        "Bars and whiskers: mean and ± one sample standard deviation over seeds.",
        machines(found),
        "Runs may have shared the machine with others.",
    )
    return Picture(frame, figure, sentences)


def bars(
    axes: Axes,
    frame: pd.DataFrame,
    columns: Sequence[str],
    ticks: Sequence[str],
    known: Mapping[str, Look],
    limit: float = math.nan,
) -> None:
    """Draw one bar per algorithm in each column, an open one up to ``limit`` where no run has a number."""
    own = frame[frame["column"].isin(columns)]
    seaborn.barplot(
        own,
        x="column",
        y="mean",
        hue="row",
        order=columns,
        hue_order=list(known),
        palette={row: one.colour for row, one in known.items()},
        saturation=1,
        errorbar=None,
        legend=False,
        ax=axes,
    )
    width = 0.8 / len(known)
    for row, column, mean, std, n, seeds in own[["row", "column", "mean", "std", "n", "seeds"]].to_numpy():
        at = columns.index(column) + width * ([*known].index(row) - (len(known) - 1) / 2)
        whisker = 0.0 if math.isnan(std) else std
        if n:
            axes.errorbar(at, mean, whisker, color="0.45", elinewidth=0.8, capsize=1.5)
        elif not math.isnan(limit):
            axes.bar(at, limit, width, fill=False, edgecolor=known[row].colour, linestyle="--")
            axes.text(at, limit / 2, "not reached", **SMALL, va="center")
        if 0 < n < seeds:
            axes.text(at, mean + whisker, f" {n} of {seeds}", **SMALL, va="bottom")
    axes.set_xticks(range(len(columns)), list(ticks))
    axes.set(xlabel="", ylabel="")
    axes.grid(visible=False, axis="x")
    if math.isnan(limit):
        axes.set_ylim(bottom=0)
    else:
        axes.set_ylim(0, 1.2 * limit)
        figures.whole_numbers(axes.yaxis)


EFFICIENCY = Drawing(
    title="Rounds to reach an accuracy, and the time of a round, cross-device",
    published="Fig. 10",
    queries=queries,
    draw=draw,
)
