"""Figs. 3 and 4: validation curves over rounds of local training, smoothed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedcore.base.lazy import pd
from pipeline.catalogue.trainings import worth
from pipeline.papers.radfed.settings import METRICS, SETTINGS, folds, metric_of
from pipeline.reports.curves import Curves, Panel
from pipeline.reports.results import RunFacts

COMPARED = ("fedavg", "fedprox", "fedasync", "fedadapt", "radfed")
SHOWN = {
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


def scores(facts: RunFacts) -> pd.Series[float]:
    """Return a run's scores on validation clients in per cent, by round of local training.

    Raises:
        DataError: the run is missing, or measured no validation clients.
    """
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

    Args:
        published: its name in the paper.
        best: the variant of RADFed+ that is shown beside RADFed and the benchmarks, by setting.
        intervals: what curves are smoothed over, in words.
    """
    panels = (
        Panel(key, f"{one.label} ({METRICS[one.metric]})", "", one.dataset, one.split, (*COMPARED, variant))
        for key, variant, one in ((key, variant, SETTINGS[key]) for key, variant in best.items())
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
    "fig3": curves("Fig. 3", SHOWN["fig3"], "100 (Covertype) or 5 (MNIST)"),
    "fig4": curves("Fig. 4", SHOWN["fig4"], "1 (CIFAR-10), 2 (Shakespeare) or 50 (eICU)"),
}
