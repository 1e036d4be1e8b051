"""Fig. 2: test scores over seeds on the fold that is most like the average of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from fedcore.lazy import Axes, Figure, matplotlib, pd
from pipeline.papers.radfed.settings import METRICS, SETTINGS, folds
from pipeline.papers.radfed.tables import score_of
from pipeline.report import plots, style
from pipeline.report.build_drawing import Drawing, Found
from pipeline.report.spread import line
from pipeline.schema import PaperParams
from pipeline.targets import Cell, PlannedRun, Query

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
    """Return a line a method and data set: its fold, mean and spread over seeds, and each run's score."""
    scores = {cell: by_fold(runs, found.root) for cell, runs in found.cells.items()}
    lines = []
    for (name, key), own in scores.items():
        fold = representative(scores[OURS, key], scores[BASE, key])
        values = own[fold]
        told = " ".join(f"{value:.6g}" for value in values if value is not None)
        lines.append(line(name, key, values, fold=fold, scores=told))
    return pd.DataFrame(lines)


def draw(found: Found) -> tuple[pd.DataFrame, Figure]:
    """Draw a box and the single runs for each method, a panel a data set."""
    frame = numbers(found)
    with matplotlib.rc_context(plots.SETTINGS):
        made = matplotlib.figure.Figure(figsize=(6.7, 5.2), layout="constrained")
        panels = made.subplots(2, 3)
        for axes, key in zip(panels.flat, SHOWN, strict=False):
            own = frame[frame["column"] == key]
            _boxes(axes, own)
            one = SETTINGS[key]
            axes.set_title(f"{one.label}, fold {own['fold'].iloc[0]}")
            axes.set_ylabel(f"test {METRICS[one.metric]} (%)")
        for axes in panels.flat[len(SHOWN) :]:
            axes.set_visible(False)
        runs = int(frame["seeds"].max())
        caption = found.caption(
            f"A mark is a run, a box spans the quartiles of a method's {runs} seed{'s' * (runs > 1)}, its "
            "line is the median, and whiskers end at the extremes. The fold is the one whose gap between "
            "RADFed and FedAvg is closest to the mean gap of all folds that ran."
        )
        made.supxlabel(plots.wrapped(caption), fontsize=6, color="0.35")
    return frame, made


def _boxes(axes: Axes, own: pd.DataFrame) -> None:
    names = list(own["row"])
    for place, (name, text) in enumerate(zip(names, own["scores"], strict=True)):
        values, look = [float(value) for value in text.split()], style.look(name, names)
        if not values:
            continue
        axes.boxplot(
            [values],
            positions=[place],
            widths=0.6,
            whis=(0, 100),
            showfliers=False,
            patch_artist=True,
            boxprops={"facecolor": look.colour, "alpha": 0.25, "edgecolor": look.colour},
            medianprops={"color": look.colour},
            whiskerprops={"color": look.colour},
            capprops={"color": look.colour},
        )
        axes.plot([place] * len(values), values, look.marker, color=look.colour, linestyle="", alpha=0.8)
    axes.set_xticks(range(len(names)), [style.label(name) for name in names], rotation=90)
    axes.grid(alpha=0.25, linewidth=0.5, axis="y")


SEEDS = Drawing(
    title="Test scores over seeds on the most representative fold",
    published="Fig. 2",
    queries=queries,
    draw=draw,
)
