"""Federated Learning for Non-IID Data: From Theory to Algorithm: FedAvgR."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, Paper, Query
from pipeline.papers.fedavgr.risk import excess_risk
from pipeline.papers.fedavgr.search import SEARCHES
from pipeline.papers.fedavgr.tables import DATASETS, TABLES
from pipeline.reports import figures, ranks, style
from pipeline.reports.drawings import Inputs, Picture, by_round, drawing
from pipeline.reports.results import RunFacts

METHOD = "fedavgr"
SHOWN = (0.0, 0.3, 0.6, 1.0)
COLUMN = "synthetic_one"
ROWS = 50


def rounds(params: PaperParams) -> tuple[int, ...]:
    """Return the rounds 0, 30, 60 and 100 of 100, or as many hundredths of fewer."""
    last = params.regimes["mmd"].training.rounds or 0
    return tuple(sorted({round(share * last) for share in SHOWN}))


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return FedAvgR's runs on synthetic(1, 1), with features of the four rounds."""
    kept = (
        ("evaluation.observe.mixture.rows", ROWS),
        ("evaluation.observe.mixture.rounds", rounds(params)),
    )
    return {(METHOD, COLUMN): Query("mmd", COLUMN, "natural", METHOD, kept)}


@drawing(
    title="Features of clients and mixture, and the MMD between them, synthetic(1, 1)",
    published="The figure on the MMD's impact",
    queries=queries,
)
def mmd(inputs: Inputs) -> Picture:
    """Draw the features at the four rounds, and the MMD over all; the tidy lines are the four rounds."""
    frame = by_round(inputs.cells, lambda facts, column: facts.series("mmd"))
    some = rounds(inputs.params)
    shown = frame[frame["round"].isin(some)]
    first = inputs.cells[METHOD, COLUMN][0]
    features = features_of(first)
    figure = figures.framed(4.4)
    grid = figure.add_gridspec(2, len(some), height_ratios=(1, 1.1))
    for place, done in enumerate(some):
        means = shown[shown["round"] == done]["mean"]
        title = f"round {done}" + (f": MMD {means.iloc[0]:.3f}" if len(means) else "")
        axes = figure.add_subplot(grid[0, place], title=title, xticks=[], yticks=[])
        if done in features:
            points, coloured = features[done]
            for own, size, colour in ((~coloured, 4, "0.7"), (coloured, 6, style.look(METHOD).colour)):
                axes.scatter(points[own, 0], points[own, 1], s=size, color=colour, linewidths=0)
    axes = figure.add_subplot(grid[1, :])
    figures.curves(axes, frame, style.looks([METHOD]), marked=frame["round"].isin(some))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("MMD to the mixture")
    sentences = (
        f"Above: features of up to {ROWS} training rows per client under the global model, seed "
        f"{first.run.seed}, on the first two principal components of their round; grey: all clients, colour: "
        "the client whose mean feature is farthest from the mean of all at the start. Below: the MMD, mean "
        "over clients weighted by their rows; Gaussian kernel with the median heuristic.",
        figures.BAND,
    )
    return Picture(shown.assign(column=shown["round"].astype(str)).drop(columns="round"), figure, sentences)


def features_of(facts: RunFacts) -> dict[int, tuple[NDArray[np.floating], NDArray[np.bool_]]]:
    """Return by round the kept features on two axes [n, 2], and which rows [n] are the farthest client's.

    Nothing where the run diverged.

    Raises:
        DataError: the run has no features.
    """
    kept = facts.arrays("mixture.npz")
    if kept is None:
        return {}
    features = kept["features"].astype(np.float64)
    coloured = kept["client"] == farthest(features[0], kept["client"])
    return {int(at): (principal(own), coloured) for at, own in zip(kept["round"], features, strict=True)}


def farthest(features: NDArray[np.floating], client: NDArray[np.int64]) -> int:
    """Return the client whose mean feature is farthest from the mean of all; the lowest id among equals."""
    mean = features.mean(axis=0)
    apart = {int(k): float(np.linalg.norm(features[client == k].mean(axis=0) - mean)) for k in client}
    return max(sorted(apart), key=apart.__getitem__)


def principal(features: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return features [n, d] on their first two principal components [n, 2].

    Each component points where its largest loading is positive, so that equal features give equal pictures.
    """
    centred = features - features.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    two = axes[:2]
    signs = np.sign(two[np.arange(len(two)), np.abs(two).argmax(axis=1)])
    components: NDArray[np.floating] = centred @ (two * signs[:, None]).T
    return components


PAPER = Paper(
    title="Federated Learning for Non-IID Data: From Theory to Algorithm",
    citation="B. Wei, J. Li, Y. Liu, W. Wang, PRICAI 2021",
    datasets=DATASETS,
    targets={
        **TABLES,
        "table2_ranks": ranks.summary(TABLES["table2"]),
        "fig_mmd": mmd,
        "excess_risk": excess_risk,
        **SEARCHES,
    },
)
