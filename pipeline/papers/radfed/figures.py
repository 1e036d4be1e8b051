"""Fig. 2: test scores over seeds on one fold. Figs. 3 and 4: validation curves, smoothed.

Fig. 5: scores on less and on more heterogeneous clients. Figs. 6 and 7: divergences DC and DL of models.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedcore.base.lazy import Axes, DataFrame, Series, pd, seaborn
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.specification import worth
from pipeline.catalogue.targets import Cell, Query, Variation
from pipeline.papers.radfed.settings import METRICS, SETTINGS, every_fold, folds, metric_of
from pipeline.papers.radfed.tables import data_of_column, score_of, varied
from pipeline.reports import figures
from pipeline.reports.drawings import Curves, Inputs, Picture, by_round, drawing, line, over_seeds
from pipeline.reports.results import RunFacts
from pipeline.reports.style import Look
from pipeline.reports.variations import IID, variations

COMPARED = ("fedavg", "fedprox", "fedasync", "fedadapt", "radfed")
MOMENTUM = ("covfeat_l", "covcls_g", "covcls_l", "mnist_1", "mnist_01")
BEST = {
    "fig3": {"covfeat_g": "radfed_p", **dict.fromkeys(MOMENTUM, "radfed_m")},
    "fig4": {"cifar10": "radfed_i", "shakespeare": "radfed_i", "eicu": "radfed_a"},
}
INTERVALS = {"covertype_g": 100, "covertype_l": 100, "mnist": 5, "cifar10": 1, "shakespeare": 2, "eicu": 50}
POINTS = 20
NOTE = (
    "Of RADFed+ the variant is shown that the paper found best. Rounds of local training are RADFed's inner "
    "rounds; one of FedAsync is as many updates as others have clients in a round. A point is the mean "
    "over an interval of {intervals} rounds, or of a twentieth of all rounds where that is less."
)
AVERAGED = ("fedavg", "radfed")
MEASURED = ("shakespeare", "covfeat_l")
OBSERVED = (("evaluation.divergence", True),)
LONGEST = 100


def smoothed(facts: RunFacts) -> Series[float]:
    """Return the means of a run's scores over intervals that follow the start, by their last round.

    Scores are those on validation clients in per cent, intervals are in rounds of local training.
    """
    run, values = facts.run, 100 * facts.series(f"validation_{metric_of(facts.run)}")
    places = values.index.to_numpy(float) * float(worth(run.spec))
    total = int(run.spec["training"]["rounds"]) * worth(run.spec)
    width = max(1, min(INTERVALS[run.dataset], round(total) // POINTS))
    ends = (np.ceil(places / width - 1e-9) * width).astype(int)
    return values.groupby(ends).mean()


def curves(published: str, best: Mapping[str, str], intervals: str) -> Curves:
    """Return a figure of validation curves, a panel for each data set.

    ``best`` is the variant of RADFed+ that is shown beside RADFed and the benchmarks, by setting; curves are
    smoothed over ``intervals``, in words.
    """
    return Curves(
        title="Scores on validation clients",
        published=published,
        panels={key: f"{SETTINGS[key].label} ({METRICS[SETTINGS[key].metric]})" for key in best},
        queries=lambda params: {
            (name, key): folds(params, SETTINGS[key].query(name))
            for key, variant in best.items()
            for name in (*COMPARED, variant)
        },
        series=smoothed,
        axis="validation score (%)",
        horizontal="round of local training",
        across=3,
        shared=False,
        note=NOTE.format(intervals=intervals),
    )


CURVES: Mapping[str, Curves] = {
    "fig3": curves("Fig. 3", BEST["fig3"], "100 (Covertype) or 5 (MNIST)"),
    "fig4": curves("Fig. 4", BEST["fig4"], "1 (CIFAR-10), 2 (Shakespeare) or 50 (eICU)"),
}


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return runs of the first fold that also train a centralised model and compare models."""
    return {(name, key): varied(params, name, key, OBSERVED) for key in MEASURED for name in AVERAGED}


def measured(facts: RunFacts) -> DataFrame:
    """Return a run's divergences: lines with ``local``, ``centralised`` and ``inner``, by inner round."""
    frame = facts.table("divergence.csv")
    delay = facts.run.spec["algorithm"].get("redistributions", 1)
    return frame.assign(at=(frame["round"] - 1) * delay + frame["inner"]).set_index("at")


def around_merging(inputs: Inputs) -> DataFrame:
    """Return the mean DL of a run's inner rounds right after an aggregation, and right before the next."""
    lines = []
    for (name, key), runs in inputs.cells.items():
        by_inner = [
            measured(facts).groupby("inner")["local"].mean() if facts.final else None for facts in runs
        ]
        for when, at in (("after", 0), ("before", -1)):
            means = [None if mean is None else float(mean.iloc[at]) for mean in by_inner]
            lines.append(line(name, f"{key}-{when}", means))
    return pd.DataFrame(lines)


@drawing("Divergence of the global model from centralised training", "Fig. 6", queries)
def centralised(inputs: Inputs) -> Picture:
    """Draw DC over inner rounds, at each aggregation."""
    frame = by_round(inputs.cells, lambda facts, key: measured(facts)["centralised"])
    meaning = (
        "DC is the distance of the global model from a centralised one that starts alike and trains on the "
        "same rows, pooled, relative to the latter's norm; it is known where local models are averaged."
    )
    return _picture(inputs, frame, frame, "DC", meaning)


@drawing("Divergence between local models", "Fig. 7", queries)
def local(inputs: Inputs) -> Picture:
    """Draw DL over inner rounds, the last hundred at most."""
    frame = by_round(inputs.cells, lambda facts, key: measured(facts)["local"])
    shown = frame[frame["round"] > frame.groupby("column")["round"].transform("max") - LONGEST]
    meaning = (
        "DL is the mean over pairs of clients of one minus the cosine of the models that they return; "
        "one client alone has none."
    )
    last = f" The last {LONGEST} rounds." if len(shown) < len(frame) else ""
    numbers = pd.concat([frame, around_merging(inputs)], ignore_index=True)
    return _picture(inputs, numbers, shown, "DL", meaning + last)


DISTANCES = variations(
    "Divergence DC by the clients' skew",
    "Section V-B",
    {
        "fedavg": Variation("class alpha .1", "fedavg"),
        "fedavg_1": Variation("class alpha 1", "fedavg", (("partition.class_alpha", 1.0),)),
        "fedavg_iid": Variation("IID", "fedavg", (("partition.class_alpha", IID),)),
    },
    {"covcls_g": SETTINGS["covcls_g"].label},
    lambda params, method, column, changes: varied(params, method, column, (*OBSERVED, *changes)),
    data=lambda column: SETTINGS[column].dataset,
    measure=lambda facts, key: 100 * float(measured(facts)["centralised"].iloc[-1]) if facts.final else None,
    dataset=data_of_column,
    heading="Clients",
    unit="percent of the centralised model's norm",
    when="",
)


def _picture(inputs: Inputs, numbers: DataFrame, frame: DataFrame, axis: str, meaning: str) -> Picture:
    titles = {key: SETTINGS[key].label for key in MEASURED if key in {*frame["column"]}}
    labels, options = ("round of local training", axis), {"marks": 2 * figures.MARKS}
    looks, across = inputs.looks(AVERAGED), len(titles)
    figure, _ = figures.lines(frame, titles, looks, 2.9, across, labels, options=options)
    count = int(frame["n"].max())
    band = f"Line and band: mean and ± one sample standard deviation over {count} seeds, first fold."
    return Picture(
        numbers, figure, (meaning, band if count > 1 else "One seed, so no spread is given; first fold.")
    )


SHOWN = ("covfeat_g", "covfeat_l", "covcls_g", "covcls_l", "shakespeare")
ASIDE = 0.2
PAIRS = (("mnist_1", "mnist_01"), ("covcls_g", "covfeat_g"), ("covcls_l", "covfeat_l"))


def by_fold(runs: Sequence[RunFacts]) -> Series[float]:
    """Return the test scores of the runs by the index of their fold, NaN for one that diverged."""
    folds = [facts.run.spec["partition"]["fold"]["index"] for facts in runs]
    return pd.Series([score_of(facts, "") for facts in runs], folds, dtype=float)


def representative(ours: Series[float], base: Series[float]) -> int:
    """Return the fold whose gap between the means of two methods is closest to the mean gap of all folds.

    The first of them in a tie; folds in which one of the methods has no run don't count, unless none counts.
    """
    means, base_means = (scores.groupby(level=0).mean() for scores in (ours, base))
    gaps = (means - base_means).dropna()
    fold: Any = (gaps - gaps.mean()).abs().round(9).idxmin() if len(gaps) else ours.index.min()
    return int(fold)


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
    for (name, key), by_run in scores.items():
        fold = representative(scores["radfed", key], scores["fedavg", key])
        text = " ".join(f"{value:.6g}" for value in by_run[[fold]].dropna())
        lines.append(line(name, key, [*by_run[[fold]]], fold=fold, scores=text))
    frame = pd.DataFrame(lines)
    fold_of = frame.set_index("column")["fold"].to_dict()
    titles = {key: f"{SETTINGS[key].label}, fold {fold_of[key]}" for key in SHOWN}
    figure, panels = figures.panels(titles, 5.2, across=3)
    for key, axes in panels.items():
        part = frame[frame["column"] == key]
        _boxes(axes, part, inputs.looks(part["row"]))
        axes.set_ylabel(f"test {METRICS[SETTINGS[key].metric]} (%)")
    count = int(frame["seeds"].max())
    sentence = (
        f"A mark is a run, a box spans the quartiles of a method's {count} seed{'s' * (count > 1)}, its "
        "line is the median, and whiskers end at the extremes. The fold is the one whose gap between "
        "RADFed and FedAvg is closest to the mean gap of all folds that ran."
    )
    return Picture(frame, figure, (sentence,))


def _boxes(axes: Axes, frame: DataFrame, looks: Mapping[str, Look]) -> None:
    if not frame["n"].any():
        axes.text(0.5, 0.5, "diverged", ha="center", transform=axes.transAxes)
        return
    split = frame.assign(score=frame["scores"].str.split())
    scores = split.explode("score", ignore_index=True).astype({"score": float})
    colours = {row: look.colour for row, look in looks.items()}
    same: Any = {"x": "row", "y": "score", "hue": "row", "order": list(looks), "palette": colours, "ax": axes}
    seaborn.boxplot(scores, **same, whis=(0, 100), showfliers=False, width=0.6, fill=False, legend=False)
    for row, look in looks.items():
        dots = scores[scores["row"] == row]
        seaborn.stripplot(dots, **same, marker=look.marker, size=3.5, jitter=False, alpha=0.8, legend=False)
    axes.set_xlabel("")
    figures.methods(axes, looks, rotation=90)


@drawing(
    title="Test scores on clients of different heterogeneity",
    published="Fig. 5",
    queries=lambda params: every_fold(params, (key for pair in PAIRS for key in pair)),
)
def heterogeneity(inputs: Inputs) -> Picture:
    """Draw two marks per method, open where clients are less heterogeneous, and what lies between."""
    frame = over_seeds(inputs.cells, lambda facts: score_of(facts, ""))
    scores, looks = frame.set_index(["column", "row"]), inputs.looks(frame["row"])
    titles = {a: f"open: {SETTINGS[a].label}\nfilled: {SETTINGS[b].label}" for a, b in PAIRS}
    figure, panels = figures.panels(titles, 3.4, across=len(PAIRS))
    for pair, axes in zip(PAIRS, panels.values(), strict=True):
        for index, (name, look) in enumerate(looks.items()):
            means: list[Any] = [scores.loc[(key, name), "mean"] for key in pair]
            axes.plot([index - ASIDE, index + ASIDE], means, color=look.colour, linewidth=0.8)
            for offset, key, face in zip((-ASIDE, ASIDE), pair, ("white", look.colour), strict=True):
                mean, std = scores.loc[(key, name), ["mean", "std"]].to_numpy(float)
                shape: Any = {"marker": look.marker, "markersize": 5, "color": look.colour, "zorder": 3}
                whisker = {"yerr": np.nan_to_num(std), "elinewidth": 0.5, "capsize": 2}
                axes.errorbar(index + offset, mean, **whisker, **shape, markerfacecolor=face)
        axes.set_ylabel(f"test {METRICS[SETTINGS[pair[0]].metric]} (%)")
        figures.methods(axes, looks, rotation=90)
    count = int(frame["n"].max())
    deviation = f"Mean and ± one sample standard deviation over {count} runs."
    sentences = (
        "Open: less heterogeneous clients, filled: more (smaller lambda; skewed features too).",
        deviation if count > 1 else "One run per mark, so no spread is given.",
    )
    return Picture(frame, figure, sentences)
