"""Aggregation Delayed Federated Learning: RADFed and RADFed+."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedcore.base.errors import DataError
from fedcore.base.lazy import pd, seaborn
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Paper, Query, Target
from pipeline.papers.radfed.divergence import DIVERGENCES
from pipeline.papers.radfed.heterogeneity import HETEROGENEITY
from pipeline.papers.radfed.hyperparameters import HYPERPARAMETERS
from pipeline.papers.radfed.search import SEARCHES
from pipeline.papers.radfed.seeds import SEEDS
from pipeline.papers.radfed.settings import DATASETS, SETTINGS, whole
from pipeline.papers.radfed.tables import AVERAGE, TABLES
from pipeline.papers.radfed.validation import CURVES
from pipeline.reports import figures, ranks
from pipeline.reports.drawings import Drawing, Found, Picture
from pipeline.reports.results import statistics_of

EXAMPLE = "mnist_01"
STAGES = {"before": "optimum of eq. (1)", "after": "after Algorithm 3"}
STILL = (("partition.burn_in", 0), ("partition.steps", 0))


def partition_queries(params: PaperParams) -> Mapping[tuple[str, str], Query]:
    """Return the same draw of sizes and targets without and with random moves."""
    after = replace(whole(SETTINGS[EXAMPLE].query("fedavg")), seeds=params.seeds[:1])
    before = replace(after, changes=(*after.changes, *STILL))
    return {("before", EXAMPLE): before, ("after", EXAMPLE): after}


def draw_partition(found: Found) -> Picture:
    """Draw the class ratios of all clients, largest client first, before and after, and what changed.

    Raises:
        DataError: a partition's statistics are missing, or don't list labels.
    """
    ratios, scores, frames = {}, {}, []
    for (stage, _), (run, *_) in found.cells.items():
        statistics = statistics_of(run, found.root)
        if statistics is None or not statistics.get("label_counts"):
            raise DataError(f"{run.partition}/stats.json: expected 'label_counts'; build the partition again")
        counts = np.array(statistics["label_counts"])
        counts = counts[np.argsort(-counts.sum(axis=1), kind="stable")]
        ratios[stage] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        scores[stage] = statistics["c_score"]
        clients, classes = np.indices(counts.shape).reshape(2, -1)
        cells = {"stage": stage, "client": clients, "class": classes, "rows": counts.ravel()}
        frames.append(pd.DataFrame(cells))
    figure = figures.framed(4.6)
    change = ratios["after"] - ratios["before"]
    bound = max(float(np.abs(change).max()), 1e-3)
    panels = {
        f"{label}: C-score {scores[stage]:.3f}": (ratios[stage], "cividis", 0, 1, "share of rows")
        for stage, label in STAGES.items()
    } | {"difference": (change, "PuOr", -bound, bound, "change")}
    grid = figure.subplots(3, 1, sharex=True)
    for axes, (title, (values, colours, low, high, bar)) in zip(grid, panels.items(), strict=True):
        own: Any = {"cmap": colours, "vmin": low, "vmax": high, "cbar_kws": {"label": bar}}
        seaborn.heatmap(values.T, ax=axes, **own, xticklabels="auto", yticklabels=3, rasterized=True)
        axes.set_title(title, loc="left")
        axes.set_ylabel("class")
    grid[-1].set_xlabel("client, largest first")
    return Picture(pd.concat(frames, ignore_index=True), figure, ("Same sizes and same targets in both.",))


FIGURES: Mapping[str, Target] = {
    "fig2": SEEDS,
    **CURVES,
    "fig5": HETEROGENEITY,
    **DIVERGENCES,
    "partition": Drawing(
        title="A partition of MNIST (lambda .1) before and after random moves",
        published="Algorithm 3",
        queries=partition_queries,
        draw=draw_partition,
        needs="partitions",
    ),
}

PAPER = Paper(
    title="Aggregation Delayed Federated Learning",
    citation="Y. Xue, D. Klabjan, Y. Luo",
    datasets=DATASETS,
    targets={
        **TABLES,
        "table3_ranks": ranks.summary(TABLES["table3"], without=(AVERAGE,)),
        "table2": HYPERPARAMETERS,
        **SEARCHES,
        **FIGURES,
    },
)
