"""Figs. 3 and 4: validation curves over rounds of local training, smoothed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedcore.base.lazy import pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import PlannedRun, Query
from pipeline.catalogue.trainings import worth
from pipeline.papers.radfed.settings import METRICS, SETTINGS, folds, metric_of
from pipeline.reports.curves import Curves, Panel, measured

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


def panels(best: Mapping[str, str]) -> tuple[Panel, ...]:
    """Return a panel for each data set: the benchmarks, RADFed and one variant of it."""
    found = []
    for key, variant in best.items():
        one = SETTINGS[key]
        label = f"{one.label} ({METRICS[one.metric]})"
        found.append(Panel(key, label, "", one.dataset, one.split, (*COMPARED, variant)))
    return tuple(found)


def asked(params: PaperParams, panel: Panel, algorithm: str) -> tuple[Query, ...]:
    """Return the runs of a curve: all folds of the panel's data set."""
    return folds(params, SETTINGS[panel.key].query(algorithm))


def scores(run: PlannedRun, root: Path) -> pd.Series[float]:
    """Return a run's scores on validation clients in per cent, by round of local training.

    Raises:
        DataError: the run is missing, or measured no validation clients.
    """
    found = 100 * measured(run, f"validation_{metric_of(run)}", root)
    return found.set_axis(found.index * float(worth(run.spec)))


def width(run: PlannedRun) -> int:
    """Return the interval that a curve is smoothed over, in rounds of local training."""
    total = int(run.spec["training"]["rounds"]) * worth(run.spec)
    return max(1, min(INTERVALS[run.dataset], round(total) // POINTS))


def smoothed(run: PlannedRun, root: Path) -> pd.Series[float]:
    """Return the means of a run's scores over intervals that follow the start, by their last round."""
    found, wide = scores(run, root), width(run)
    ends = (np.ceil(found.index.to_numpy(float) / wide - 1e-9) * wide).astype(int)
    return found.groupby(ends).mean()


def curves(name: str, published: str, intervals: str, across: int) -> Curves:
    """Return a figure of validation curves."""
    return Curves(
        title="Scores on validation clients",
        published=published,
        panels=panels(SHOWN[name]),
        queries=asked,
        series=smoothed,
        axis="validation score (%)",
        horizontal="round of local training",
        across=across,
        shared=False,
        note=NOTE.format(intervals=intervals),
    )


CURVES: Mapping[str, Curves] = {
    "fig3": curves("fig3", "Fig. 3", "100 (Covertype) or 5 (MNIST)", 3),
    "fig4": curves("fig4", "Fig. 4", "1 (CIFAR-10), 2 (Shakespeare) or 50 (eICU)", 3),
}
