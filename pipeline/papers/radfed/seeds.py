"""Fig. 2: test scores over seeds on the fold that is most like the average of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from fedcore.base.lazy import Axes, pd, seaborn
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, PlannedRun, Query
from pipeline.papers.radfed.settings import METRICS, SETTINGS, folds
from pipeline.papers.radfed.tables import score_of
from pipeline.reports import figures, style
from pipeline.reports.drawings import Drawing, Found, Picture
from pipeline.reports.spread import line

SHOWN = ("covfeat_g", "covfeat_l", "covcls_g", "covcls_l", "shakespeare")
Values = Sequence[float | None]
BASE, OURS = "fedavg", "radfed"


def queries(params: PaperParams) -> dict[Cell, tuple[Query, ...]]:
    """Return all folds of each method and data set."""
    return {
        (name, key): folds(params, SETTINGS[key].query(name)) for key in SHOWN for name in params.algorithms
    }


def fold_of(run: PlannedRun) -> int:
    """Return the index of a run's fold."""
    return int(run.spec["partition"]["fold"]["index"])


def by_fold(runs: Sequence[PlannedRun], root: Path) -> dict[int, list[float | None]]:
    """Return the test scores of the runs by fold, None for one that diverged."""
    found: dict[int, list[float | None]] = {}
    for run in runs:
        found.setdefault(fold_of(run), []).append(score_of(run, root, ""))
    return found


def representative(ours: Mapping[int, Values], base: Mapping[int, Values]) -> int:
    """Return the fold whose gap between the means of two methods is closest to the mean gap of all folds.

    The first of them in a tie; folds in which one of the methods has no run don't count, unless none counts.
    """
    known = {
        fold: [[value for value in side.get(fold, ()) if value is not None] for side in (ours, base)]
        for fold in ours
    }
    gaps = {fold: fmean(mine) - fmean(theirs) for fold, (mine, theirs) in known.items() if mine and theirs}
    if not gaps:
        return min(ours)
    mean = fmean(gaps.values())
    return min(sorted(gaps), key=lambda fold: round(abs(gaps[fold] - mean), 9))


def numbers(found: Found) -> pd.DataFrame:
    """Return one line per method and data set: fold, mean and deviation over seeds, and each run's score."""
    scores = {cell: by_fold(runs, found.root) for cell, runs in found.cells.items()}
    lines = []
    for (name, key), own in scores.items():
        fold = representative(scores[OURS, key], scores[BASE, key])
        values = own[fold]
        told = " ".join(f"{value:.6g}" for value in values if value is not None)
        lines.append(line(name, key, values, fold=fold, scores=told))
    return pd.DataFrame(lines)


def draw(found: Found) -> Picture:
    """Draw a box and the single runs for each method, one panel per data set."""
    frame = numbers(found)
    figure = figures.framed(5.2)
    panels = figure.subplots(2, 3)
    for axes, key in zip(panels.flat, SHOWN, strict=False):
        own, setting = frame[frame["column"] == key], SETTINGS[key]
        _boxes(axes, own)
        axes.set_title(f"{setting.label}, fold {own['fold'].iloc[0]}")
        axes.set_ylabel(f"test {METRICS[setting.metric]} (%)")
    for axes in panels.flat[len(SHOWN) :]:
        axes.set_visible(False)
    runs = int(frame["seeds"].max())
    sentence = (
        f"A mark is a run, a box spans the quartiles of a method's {runs} seed{'s' * (runs > 1)}, its "
        "line is the median, and whiskers end at the extremes. The fold is the one whose gap between "
        "RADFed and FedAvg is closest to the mean gap of all folds that ran."
    )
    return Picture(frame, figure, (sentence,))


def _boxes(axes: Axes, own: pd.DataFrame) -> None:
    known = style.looks(own["row"])
    scores = own.assign(score=own["scores"].str.split()).explode("score", ignore_index=True)
    scores = scores.astype({"score": float})
    colours = {row: one.colour for row, one in known.items()}
    same: Any = {"x": "row", "y": "score", "hue": "row", "order": list(known), "palette": colours, "ax": axes}
    seaborn.boxplot(scores, **same, whis=(0, 100), showfliers=False, width=0.6, fill=False, legend=False)
    for row, one in known.items():
        dots = scores[scores["row"] == row]
        seaborn.stripplot(dots, **same, marker=one.marker, size=3.5, jitter=False, alpha=0.8, legend=False)
    axes.set_xticks(range(len(known)), [one.label for one in known.values()], rotation=90)
    axes.set_xlabel("")
    axes.grid(visible=False, axis="x")


SEEDS = Drawing(
    title="Test scores over seeds on the most representative fold",
    published="Fig. 2",
    queries=queries,
    draw=draw,
)
