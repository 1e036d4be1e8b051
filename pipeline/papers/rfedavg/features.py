"""Fig. 1: last-layer features of three clients of FedAvg, with IID and non-IID data."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fedcore.base.lazy import pd, sklearn
from pipeline.reports import figures, style
from pipeline.reports.drawings import Inputs, Picture, drawing, each, line
from pipeline.reports.results import RunFacts
from pipeline.reports.style import Look

METHOD = "fedavg"
SPLITS = {"sim100": "IID (similarity 100%)", "sim0": "non-IID (similarity 0%)"}
LABELS = {0: ("airplane", "o"), 1: ("automobile", "^"), 2: ("bird", "s")}
COLOURS = (style.BLUE, style.VERMILION, style.GREEN)
BELOW: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "columnspacing": 0.8, "handlelength": 1}
ROWS = 200
PERPLEXITY = 30.0


class Points(NamedTuple):
    """Rows of some clients: ``client`` [n], ``label`` [n] and ``features`` [n, d]."""

    client: NDArray[np.int64]
    label: NDArray[np.int64]
    features: NDArray[np.floating]


def points_of(facts: RunFacts) -> Points | None:
    """Return the rows of the three classes that a run kept of three clients; None if the run diverged.

    Client by client, the three are those with most rows of class 0, 1 and 2, each client once.
    """
    arrays = facts.arrays("features.npz")
    if arrays is None:
        return None
    client, label = arrays["client"], arrays["label"]
    chosen = np.isin(client, clients_of(client, label)) & np.isin(label, list(LABELS))
    return Points(client[chosen], label[chosen], arrays["features"][chosen])


def clients_of(client: NDArray[np.int64], label: NDArray[np.int64]) -> list[int]:
    """Return the clients with most rows of each class, the lowest id among equals, none twice."""
    chosen: list[int] = []
    for class_index in LABELS:
        left = np.setdiff1d(client, chosen)  # sorted
        if left.size:
            rows = (client == left[:, None]) & (label == class_index)
            chosen.append(int(left[rows.sum(axis=1).argmax()]))
    return chosen


def between(points: Points) -> float:
    """Return how much of the features' variance lies between the clients' means, in per cent.

    The sum over features of the variance of the clients' means over the variance of all rows, a client
    weighted by its rows.
    """
    features = pd.DataFrame(points.features, dtype=np.float64)
    centred = features - features.mean()
    apart = centred.groupby(points.client).transform("mean")
    total, explained = (float((part**2).to_numpy().sum()) for part in (centred, apart))
    return 100 * explained / total if total else 0.0


def flat(features: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the t-SNE of features [n, d] in two dimensions [n, 2], the same every time."""
    perplexity = min(PERPLEXITY, (len(features) - 1) / 3)
    method = sklearn.manifold.TSNE(init="pca", perplexity=perplexity, random_state=0, n_jobs=1)
    with threadpool_limits(limits=1):
        flattened: NDArray[np.floating] = method.fit_transform(features)
    return flattened


@drawing(
    title="Last-layer features of three clients of FedAvg, CIFAR-10, cross-silo",
    published="Fig. 1",
    queries=each(
        (METHOD,),
        {split: ("cross_silo", "cifar10", split) for split in SPLITS},
        ("evaluation.observe.features.rows", ROWS),
    ),
)
def visualised(inputs: Inputs) -> Picture:
    """Draw the t-SNE of the first seed's features: one colour per client, one marker per class.

    A tidy line has the share of variance between clients with a kind of data, over seeds.
    """
    kept = {split: [points_of(facts) for facts in runs] for (_, split), runs in inputs.cells.items()}
    shares = {split: [points and between(points) for points in of_runs] for split, of_runs in kept.items()}
    figure, panels = figures.panels(SPLITS, 3.6, across=2)
    for split, axes in panels.items():
        points = kept[split][0]
        axes.set(xticks=[], yticks=[])
        if points is None:
            axes.text(0.5, 0.5, "diverged", ha="center", transform=axes.transAxes)
            continue
        x, y = flat(points.features).T
        clients = clients_of(points.client, points.label)
        for colour, client in zip(COLOURS, clients, strict=False):
            for label, (_, marker) in LABELS.items():
                mask = (points.client == client) & (points.label == label)
                look: Any = {"facecolors": "none", "edgecolors": colour, "linewidths": 0.7, "marker": marker}
                axes.scatter(x[mask], y[mask], s=11, **look)
        dots = {f"client {client}": Look("", c, "o", "") for c, client in zip(COLOURS, clients, strict=False)}
        figures.legend(axes, dots, across=3, **BELOW, fontsize=figures.SMALL)
    classes = {name: Look("", "0.3", marker, "") for name, marker in LABELS.values()}
    figures.legend(figure, classes, across=3, filled=False)
    sentences = (
        f"t-SNE (perplexity {PERPLEXITY:g}, started from PCA) of up to {ROWS} training rows of a client, "
        "those of classes 0 to 2, each under the client's own model after the last round's local steps, "
        f"seed {inputs.cells[METHOD, 'sim0'][0].run.seed}; colours are clients, markers are classes.",
        "The three clients are those with most rows of class 0, 1 and 2, so with non-IID data they "
        "differ in their classes too. Each panel has its own axes. The paper has a panel for each client, "
        "with lines of possible classifiers.",
    )
    frame = pd.DataFrame([line(METHOD, split, values) for split, values in shares.items()])
    return Picture(frame, figure, sentences)
