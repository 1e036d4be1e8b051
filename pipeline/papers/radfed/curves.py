"""Figs. 3 and 4: validation curves, smoothed. Figs. 6 and 7: divergences DC and DL of models."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedcore.base.lazy import Figure, pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.specification import worth
from pipeline.catalogue.targets import Cell, Query
from pipeline.papers.radfed.settings import METRICS, SETTINGS, folds, metric_of
from pipeline.reports import figures, style
from pipeline.reports.drawings import Curves, Inputs, Panel, Picture, by_round, drawing, line
from pipeline.reports.results import RunFacts

COMPARED = ("fedavg", "fedprox", "fedasync", "fedadapt", "radfed")
BEST = {
    "fig3": {
        "covfeat_g": "radfed_p",
        "covfeat_l": "radfed_m",
        "covcls_g": "radfed_m",
        "covcls_l": "radfed_m",
        "mnist_1": "radfed_m",
        "mnist_01": "radfed_m",
    },
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
LONGEST = 100


def scores(facts: RunFacts) -> pd.Series[float]:
    """Return a run's scores on validation clients in per cent, by round of local training."""
    values = 100 * facts.series(f"validation_{metric_of(facts.run)}")
    return values.set_axis(values.index * float(worth(facts.run.spec)))


def smoothed(facts: RunFacts) -> pd.Series[float]:
    """Return the means of a run's scores over intervals that follow the start, by their last round.

    Intervals are in rounds of local training.
    """
    run, values = facts.run, scores(facts)
    total = int(run.spec["training"]["rounds"]) * worth(run.spec)
    width = max(1, min(INTERVALS[run.dataset], round(total) // POINTS))
    ends = (np.ceil(values.index.to_numpy(float) / width - 1e-9) * width).astype(int)
    return values.groupby(ends).mean()


def curves(published: str, best: Mapping[str, str], intervals: str) -> Curves:
    """Return a figure of validation curves, a panel for each data set.

    ``best`` is the variant of RADFed+ that is shown beside RADFed and the benchmarks, by setting; curves are
    smoothed over ``intervals``, in words.
    """
    shown = ((key, variant, SETTINGS[key]) for key, variant in best.items())
    panels = (
        Panel(key, f"{one.label} ({METRICS[one.metric]})", "", one.dataset, one.split, (*COMPARED, variant))
        for key, variant, one in shown
    )
    return Curves(
        title="Scores on validation clients",
        published=published,
        panels=tuple(panels),
        queries=lambda params, panel, algorithm: folds(params, SETTINGS[panel.key].query(algorithm)),
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
    observed = (("evaluation.divergence", True),)
    return {
        (name, key): folds(params, SETTINGS[key].query(name, observed))[0]
        for key in MEASURED
        for name in AVERAGED
    }


def measured(facts: RunFacts) -> pd.DataFrame:
    """Return a run's divergences: lines with ``local``, ``centralised`` and ``inner``, by inner round."""
    frame = facts.table("divergence.csv")
    delay = facts.run.spec["algorithm"].get("redistributions", 1)
    return frame.assign(at=(frame["round"] - 1) * delay + frame["inner"]).set_index("at")


def around_merging(inputs: Inputs) -> pd.DataFrame:
    """Return the mean DL of a run's inner rounds right after an aggregation, and right before the next."""
    lines = []
    for (name, key), runs in inputs.cells.items():
        every = [measured(facts) for facts in runs]
        first = [float(own.loc[own["inner"] == 1, "local"].mean()) for own in every]
        last = [float(own.loc[own["inner"] == own["inner"].max(), "local"].mean()) for own in every]
        lines += [line(name, f"{key}-after", first), line(name, f"{key}-before", last)]
    return pd.DataFrame(lines)


@drawing("Divergence of the global model from centralised training", "Fig. 6", queries)
def centralised(inputs: Inputs) -> Picture:
    """Draw DC over inner rounds, at each aggregation."""
    frame = by_round(inputs.cells, lambda facts, key: measured(facts)["centralised"])
    meaning = (
        "DC is the distance of the global model from a centralised one that starts alike and trains on the "
        "same rows, pooled, relative to the latter's norm; it is known where local models are averaged."
    )
    return Picture(frame, *_drawn(frame, "DC", meaning))


@drawing("Divergence between local models", "Fig. 7", queries)
def local(inputs: Inputs) -> Picture:
    """Draw DL over inner rounds, the last hundred at most."""
    frame = by_round(inputs.cells, lambda facts, key: measured(facts)["local"])
    shown = frame[frame["round"] > frame.groupby("column")["round"].transform("max") - LONGEST]
    meaning = "DL is the mean over pairs of clients of one minus the cosine of the models that they return."
    last = f" The last {LONGEST} rounds." if len(shown) < len(frame) else ""
    numbers = pd.concat([frame, around_merging(inputs)], ignore_index=True)
    return Picture(numbers, *_drawn(shown, "DL", meaning + last))


def _drawn(frame: pd.DataFrame, axis: str, meaning: str) -> tuple[Figure, tuple[str, ...]]:
    titles, labels = {key: SETTINGS[key].label for key in MEASURED}, ("round of local training", axis)
    options = {"marks": 2 * figures.MARKS}
    figure, _ = figures.lines(frame, titles, style.looks(AVERAGED), 2.9, 2, labels, options=options)
    seeds = int(frame["n"].max())
    band = f"Line and band: mean and ± one sample standard deviation over {seeds} seeds, first fold."
    alone = "One seed, so no spread is given; first fold."
    return figure, (meaning, band if seeds > 1 else alone)
