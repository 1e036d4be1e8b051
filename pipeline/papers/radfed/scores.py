"""Fig. 2: test scores over seeds on one fold. Fig. 5: on less and on more heterogeneous clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from fedcore.base.lazy import Axes, pd, seaborn
from pipeline.papers.radfed.settings import METRICS, SETTINGS, every_fold
from pipeline.papers.radfed.tables import score_of
from pipeline.reports import figures, style
from pipeline.reports.drawings import Inputs, Picture, Values, drawing, line, over_seeds
from pipeline.reports.results import RunFacts

SHOWN = ("covfeat_g", "covfeat_l", "covcls_g", "covcls_l", "shakespeare")
BASE, OURS = "fedavg", "radfed"
ASIDE = 0.2
PAIRS = (("mnist_1", "mnist_01"), ("covcls_g", "covfeat_g"), ("covcls_l", "covfeat_l"))


def by_fold(runs: Sequence[RunFacts]) -> dict[int, list[float | None]]:
    """Return the test scores of the runs by the index of their fold, None for one that diverged."""
    scores: dict[int, list[float | None]] = {}
    for facts in runs:
        fold = int(facts.run.spec["partition"]["fold"]["index"])
        scores.setdefault(fold, []).append(score_of(facts, ""))
    return scores


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


@drawing(
    title="Test scores over seeds on the most representative fold",
    published="Fig. 2",
    queries=lambda params: every_fold(params, SHOWN),
)
def seeds(inputs: Inputs) -> Picture:
    """Draw a box and the single runs for each method, one panel per data set.

    A tidy line has a method's fold, mean and deviation over seeds, and each run's score.
    """
    scores = {cell: by_fold(runs) for cell, runs in inputs.cells.items()}
    lines = []
    for (name, key), folds in scores.items():
        fold = representative(scores[OURS, key], scores[BASE, key])
        known = " ".join(f"{value:.6g}" for value in folds[fold] if value is not None)
        lines.append(line(name, key, folds[fold], fold=fold, scores=known))
    frame = pd.DataFrame(lines)
    fold_of = frame.set_index("column")["fold"].to_dict()
    titles = {key: f"{SETTINGS[key].label}, fold {fold_of[key]}" for key in SHOWN}
    figure, panels = figures.panels(titles, 5.2, across=3)
    for key, axes in panels.items():
        _boxes(axes, frame[frame["column"] == key])
        axes.set_ylabel(f"test {METRICS[SETTINGS[key].metric]} (%)")
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
    colours = {row: look.colour for row, look in known.items()}
    same: Any = {"x": "row", "y": "score", "hue": "row", "order": list(known), "palette": colours, "ax": axes}
    seaborn.boxplot(scores, **same, whis=(0, 100), showfliers=False, width=0.6, fill=False, legend=False)
    for row, look in known.items():
        dots = scores[scores["row"] == row]
        seaborn.stripplot(dots, **same, marker=look.marker, size=3.5, jitter=False, alpha=0.8, legend=False)
    axes.set_xlabel("")
    figures.methods(axes, known, rotation=90)


@drawing(
    title="Test scores on clients of different heterogeneity",
    published="Fig. 5",
    queries=lambda params: every_fold(params, (key for pair in PAIRS for key in pair)),
)
def heterogeneity(inputs: Inputs) -> Picture:
    """Draw two marks per method, open where clients are less heterogeneous, and what lies between."""
    frame = over_seeds(inputs.cells, lambda facts: score_of(facts, ""))
    scores, known = frame.set_index(["column", "row"]), style.looks(frame["row"])
    titles = {a: f"open: {SETTINGS[a].label}\nfilled: {SETTINGS[b].label}" for a, b in PAIRS}
    figure, panels = figures.panels(titles, 3.4, across=len(PAIRS))
    for pair, axes in zip(PAIRS, panels.values(), strict=True):
        for place, (name, look) in enumerate(known.items()):
            means: list[Any] = [scores.loc[(key, name), "mean"] for key in pair]
            axes.plot([place - ASIDE, place + ASIDE], means, color=look.colour, linewidth=0.8)
            for at, key, face in zip((-ASIDE, ASIDE), pair, ("white", look.colour), strict=True):
                mean, std = scores.loc[(key, name), ["mean", "std"]].to_numpy(float)
                shape: Any = {"marker": look.marker, "markersize": 5, "color": look.colour, "zorder": 3}
                whisker = {"yerr": np.nan_to_num(std), "elinewidth": 0.5, "capsize": 2}
                axes.errorbar(place + at, mean, **whisker, **shape, markerfacecolor=face)
        axes.set_ylabel(f"test {METRICS[SETTINGS[pair[0]].metric]} (%)")
        figures.methods(axes, known, rotation=90)
    runs = int(frame["n"].max())
    deviation = f"Mean and ± one sample standard deviation over {runs} runs."
    sentences = (
        "Open: less heterogeneous clients, filled: more (smaller lambda; skewed features too).",
        deviation if runs > 1 else "One run per mark, so no spread is given.",
    )
    return Picture(frame, figure, sentences)
