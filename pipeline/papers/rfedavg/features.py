"""Fig. 1: last-layer features of three clients of FedAvg, with IID and non-IID data."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fedcore.lazy import Figure, matplotlib, pd, sklearn
from pipeline.report import plots
from pipeline.report.build_drawing import Drawing, Found
from pipeline.report.collect import kept_of
from pipeline.report.spread import line
from pipeline.schema import PaperParams
from pipeline.targets import Cell, PlannedRun, Query

METHOD = "fedavg"
SPLITS = {"sim100": "IID (similarity 100%)", "sim0": "non-IID (similarity 0%)"}
LABELS = {0: ("airplane", "o"), 1: ("automobile", "^"), 2: ("bird", "s")}
COLOURS = ("#0072B2", "#D55E00", "#009E73")
ROWS = 200
PERPLEXITY = 30.0


class Points(NamedTuple):
    """Rows of some clients: ``client`` [n], ``label`` [n] and ``features`` [n, d]."""

    client: NDArray[np.int64]
    label: NDArray[np.int64]
    features: NDArray[np.floating]


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return FedAvg's runs with IID and non-IID data, with the features of some rows of each client."""
    kept = (("evaluation.observe.features.rows", ROWS),)
    return {(METHOD, split): Query("cross_silo", "cifar10", split, METHOD, kept) for split in SPLITS}


def points_of(run: PlannedRun, root: Path) -> Points | None:
    """Return the rows of the three classes that a run kept of three clients; None if the run diverged.

    Client by client, the three are those with most rows of class 0, 1 and 2, each client once.

    Raises:
        DataError: the run has no features.
    """
    path = kept_of(run, root, "features.npz")
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as stored:
        everything = Points(stored["client"], stored["label"], stored["features"])
    chosen = clients_of(everything.client, everything.label)
    kept = np.isin(everything.client, chosen) & np.isin(everything.label, list(LABELS))
    return Points(everything.client[kept], everything.label[kept], everything.features[kept])


def clients_of(client: NDArray[np.int64], label: NDArray[np.int64]) -> list[int]:
    """Return the clients with most rows of each class, the lowest id among equals, none twice."""
    found: list[int] = []
    for wanted in LABELS:
        left = sorted({int(k) for k in client} - set(found))
        if left:
            found.append(max(left, key=lambda k: (int(((client == k) & (label == wanted)).sum()), -k)))
    return found


def between(points: Points) -> float:
    """Return how much of the features' variance lies between the clients' means, in per cent.

    The sum over features of the variance of the clients' means over the variance of all rows, a client
    weighted by its rows.
    """
    features = points.features.astype(np.float64)
    mean = features.mean(axis=0)
    total = np.square(features - mean).sum()
    groups = [features[points.client == k] for k in np.unique(points.client)]
    apart = sum(len(rows) * np.square(rows.mean(axis=0) - mean).sum() for rows in groups)
    return float(100 * apart / total) if total else 0.0


def flat(features: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the t-SNE of features [n, d] in two dimensions [n, 2], the same every time."""
    perplexity = min(PERPLEXITY, (len(features) - 1) / 3)
    with threadpool_limits(limits=1):
        made: NDArray[np.floating] = sklearn.manifold.TSNE(
            init="pca", perplexity=perplexity, random_state=0, n_jobs=1
        ).fit_transform(features)
    return made


def numbers(found: Found) -> pd.DataFrame:
    """Return the share of variance between clients with each kind of data, over seeds."""
    kept = {cell: [points_of(run, found.root) for run in runs] for cell, runs in found.cells.items()}
    return pd.DataFrame(
        [
            line(row, split, [None if points is None else between(points) for points in own])
            for (row, split), own in kept.items()
        ]
    )


def draw(found: Found) -> tuple[pd.DataFrame, Figure]:
    """Draw the t-SNE of the first seed's features: a colour a client, a marker a class."""
    frame = numbers(found)
    with matplotlib.rc_context(plots.SETTINGS):
        made = matplotlib.figure.Figure(figsize=(6.7, 3.6), layout="constrained")
        for axes, (split, title) in zip(made.subplots(1, 2), SPLITS.items(), strict=True):
            run = found.cells[METHOD, split][0]
            points = points_of(run, found.root)
            axes.set_title(title)
            axes.set_xticks([])
            axes.set_yticks([])
            if points is None:
                axes.text(0.5, 0.5, "diverged", ha="center", transform=axes.transAxes)
                continue
            place = flat(points.features)
            clients = clients_of(points.client, points.label)
            for colour, client in zip(COLOURS, clients, strict=False):
                for label, (_, marker) in LABELS.items():
                    own = (points.client == client) & (points.label == label)
                    axes.scatter(
                        *place[own].T,
                        s=11,
                        marker=marker,
                        facecolors="none",
                        edgecolors=colour,
                        linewidths=0.7,
                    )
            axes.legend(
                [
                    matplotlib.lines.Line2D([], [], marker="o", linestyle="", color=c)
                    for c in COLOURS[: len(clients)]
                ],
                [f"client {client}" for client in clients],
                fontsize=6.5,
                loc="upper center",
                bbox_to_anchor=(0.5, 0.0),
                ncols=3,
                columnspacing=1.0,
                handletextpad=0.1,
            )
        grey = [
            matplotlib.lines.Line2D([], [], marker=m, linestyle="", color="0.3", fillstyle="none")
            for _, m in LABELS.values()
        ]
        made.legend(grey, [name for name, _ in LABELS.values()], loc="outside upper center", ncols=3)
        caption = found.caption(
            f"t-SNE (perplexity {PERPLEXITY:g}, started from PCA) of up to {ROWS} training rows of a client, "
            "those of classes 0 to 2, each under the client's own model after the last round's local steps, "
            f"seed {found.cells[METHOD, 'sim0'][0].seed}; colours are clients, markers are classes.",
            "The three clients are those with most rows of class 0, 1 and 2, so with non-IID data they "
            "differ in their classes too. Each panel has axes of its own.",
        )
        made.supxlabel(plots.wrapped(caption), fontsize=6, color="0.35")
    return frame, made


VISUALISED = Drawing(
    title="Last-layer features of three clients of FedAvg, CIFAR-10, cross-silo",
    published="Fig. 1",
    queries=queries,
    draw=draw,
)
