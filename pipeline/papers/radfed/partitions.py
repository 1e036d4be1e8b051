"""Table I: partition statistics. Algorithm 3: a partition before and after random moves."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedcore.base.errors import DataError
from fedcore.base.lazy import pd, seaborn
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, Column, Query
from pipeline.papers.radfed.settings import DATASETS, PARTITIONS, SETTINGS, whole
from pipeline.reports import figures
from pipeline.reports.drawings import Inputs, Picture, by_label, drawing
from pipeline.reports.results import RunFacts
from pipeline.reports.search import ENOUGH
from pipeline.reports.tables import Table

DRAWS = 20
RELEASED: Mapping[str, Mapping[str, float]] = {
    "cifar10": {"legacy_seed": 2366, "xi": 0.0002},
    "covcls": {"legacy_seed": 1020, "xi": 0.0002},
    "mnist_1": {"legacy_seed": 10},
    "mnist_01": {"legacy_seed": 233},
}
SEARCH: Mapping[str, float] = {"min_size": 0.5, "burn_in": 500_000}
MARK = "_released"
STATISTICS = {"min": "min rows", "max": "max", "mean": "mean", "std": "sd", "c_score": "C-score"}
EXAMPLE = "mnist_01"
STAGES = {"before": "optimum of eq. (1)", "after": "after Algorithm 3"}
STILL = (("partition.burn_in", 0), ("partition.steps", 0))


def partition_rows(params: PaperParams) -> dict[str, str]:
    """Return a row for each partition, and with full data for the draws of the authors' code."""
    rows = {}
    for key, (label, setting) in PARTITIONS.items():
        if dataset := params.datasets.get(SETTINGS[setting].dataset):
            rows[key] = label
            if key in RELEASED and (dataset.data.model_extra or {}).get("edition") == "full":
                rows[key + MARK] = f"{label}, released seed"
    return rows


def partition_queries(params: PaperParams, row: str, column: str) -> tuple[Query, ...]:
    """Return 20 draws of a partition (fewer where few seeds are asked for), or the released code's one.

    Clients that the data name are not drawn, so there is one partition.
    """
    name = row.removesuffix(MARK)
    query = whole(SETTINGS[PARTITIONS[name][1]].query("fedavg"))
    if params.datasets[query.dataset].splits[query.split].name == "natural":
        return (replace(query, seeds=(0,)),)
    if row != name:
        changes = [(f"partition.{key}", value) for key, value in {**SEARCH, **RELEASED[name]}.items()]
        return (replace(query, changes=(*query.changes, *changes), seeds=(0,)),)
    few = len(params.seeds) < ENOUGH
    return (replace(query, seeds=params.seeds if few else tuple(range(DRAWS))),)


def statistic(facts: RunFacts, column: str) -> float | None:
    """Return a statistic of a partition: rows, or the C-score."""
    known = facts.statistics
    if known is None:
        return None
    return float(known["c_score"] if column == "c_score" else known["sizes"][column])


def stages(params: PaperParams) -> Mapping[Cell, Query]:
    """Return the same draw of sizes and targets without and with random moves."""
    after = replace(whole(SETTINGS[EXAMPLE].query("fedavg")), seeds=params.seeds[:1])
    before = replace(after, changes=(*after.changes, *STILL))
    return {("before", EXAMPLE): before, ("after", EXAMPLE): after}


@drawing(
    title="A partition of MNIST (lambda .1) before and after random moves",
    published="Algorithm 3",
    queries=stages,
    needs="partitions",
)
def example(inputs: Inputs) -> Picture:
    """Draw the class ratios of all clients, largest client first, before and after, and what changed."""
    ratios, scores, frames = {}, {}, []
    for (stage, _), (facts, *_) in inputs.cells.items():
        statistics, place = facts.statistics or {}, facts.run.partition
        if not statistics.get("label_counts"):
            raise DataError(f"{place}/stats.json: expected 'label_counts'; build the partition again")
        counts = np.array(statistics["label_counts"])
        counts = counts[np.argsort(-counts.sum(axis=1), kind="stable")]
        ratios[stage] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        scores[stage] = statistics["c_score"]
        frames.append(by_label(counts, stage=stage))
    figure = figures.framed(4.6)
    change = ratios["after"] - ratios["before"]
    bound = max(float(np.abs(change).max()), 1e-3)
    panels = {
        f"{label}: C-score {scores[stage]:.3f}": (ratios[stage], "cividis", 0, 1, "share of rows")
        for stage, label in STAGES.items()
    } | {"difference": (change, "PuOr", -bound, bound, "change")}
    grid = figure.subplots(3, 1, sharex=True)
    for axes, (title, (values, colours, low, high, bar)) in zip(grid, panels.items(), strict=True):
        colour: Any = {"cmap": colours, "vmin": low, "vmax": high, "cbar_kws": {"label": bar}}
        seaborn.heatmap(values.T, ax=axes, **colour, xticklabels="auto", yticklabels=3, rasterized=True)
        axes.set_title(title, loc="left")
        axes.set_ylabel("class")
    grid[-1].set_xlabel("client, largest first")
    return Picture(pd.concat(frames, ignore_index=True), figure, ("Same sizes and same targets in both.",))


STATISTICS_TABLE = Table(
    title="Partitions: rows of a client and class non-IID score",
    published="Table I",
    columns=lambda params: tuple(
        Column(key, label, "partition", 2 if key == "c_score" else 0) for key, label in STATISTICS.items()
    ),
    rows=partition_rows,
    queries=partition_queries,
    measure=statistic,
    beside_cell=lambda row, column: (row.removesuffix(MARK), column),
    relative=lambda frame: frame.assign(verdict=""),
    dataset=lambda row, column: DATASETS[SETTINGS[PARTITIONS[row.removesuffix(MARK)][1]].dataset],
    needs="partitions",
    unit="rows; C-score from 0 to 2",
    best="none",
    when="",
    heading="Data set",
)
