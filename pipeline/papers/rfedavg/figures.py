"""Fig. 9: what lambda, N, E and the sample ratio do, CIFAR-10. Fig. 12: noise on mean features, MNIST.

Fig. 11: the accuracy of each client, the worst ones marked.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

import numpy as np

from fedcore.base.lazy import DataFrame, Series, pd, seaborn
from fedcore.execution.integrity import CLIENTS
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.specification import specification
from pipeline.catalogue.targets import Cell, Changes, Query
from pipeline.papers.rfedavg.tables import IMAGES
from pipeline.reports import figures, style
from pipeline.reports.drawings import Inputs, Picture, by_round, drawing, each, line, over_seeds
from pipeline.reports.results import RunFacts
from pipeline.reports.style import Look

METHODS = ("fedavg", "rfedavg", "rfedavg_plus")
LAMBDA = (0.01, 0.1, 1.0, 10.0, 100.0)
SHARES = (0.1, 0.2, 0.4, 1.0)
STEPS = (1, 5, 10, 20)
RATIOS = (0.05, 0.1, 0.2, 0.5)
SIGMAS = (0, 1, 5, 10, 50)
COLOURS = (style.VERMILION, style.ORANGE, style.GREEN, style.BLUE, style.BLACK)
NOISED = {
    f"rfedavg_plus_sigma{sigma}" if sigma else "rfedavg_plus": Look(f"σ = {sigma}", colour, marker)
    for sigma, colour, marker in zip(SIGMAS, COLOURS, "Pos^v", strict=True)
}
COMPARED = ("fedavg", "rfedavg_plus")
PANELS = {
    "lambda": "regulariser's weight λ",
    "clients": "clients N",
    "steps": "local steps E",
    "ratio": "sample ratio SR",
}


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return the runs of each method and value: one parameter varies, the others are the paper's.

    lambda takes multiples of the declared one, N fractions of the declared number of clients.
    """
    plain = {name: Query("cross_device", "cifar10", "sim0", name) for name in METHODS}
    declared = {name: specification(params, plain[name])["algorithm"].get("lambda") for name in METHODS}
    clients = params.regimes["cross_device"].clients
    sizes = dict.fromkeys(max(2, round(clients * share)) for share in SHARES)
    cells: dict[Cell, Query] = {}
    for name, weight in declared.items():
        shown = declared["rfedavg_plus"] or 0.0 if weight is None else weight
        weights = [float(f"{shown * factor:.6g}") for factor in LAMBDA]  # free of rounding errors
        changes: dict[str, Changes] = {
            **{f"lambda_{v:g}": () if weight is None else (("algorithm.lambda", v),) for v in weights},
            **{f"clients_{n}": (("partition.clients", n),) for n in sizes},
            **{f"steps_{e}": (("training.local_steps", e),) for e in STEPS},
            **{f"ratio_{r:g}": (("participation.fraction", r),) for r in RATIOS},
        }
        cells |= {(name, column): replace(plain[name], changes=change) for column, change in changes.items()}
    return cells


@drawing("Parameter study on CIFAR-10, similarity 0%, cross-device", "Fig. 9", queries)
def study(inputs: Inputs) -> Picture:
    """Draw accuracy over each parameter."""
    frame = over_seeds(inputs.cells, lambda facts: facts.score("test_accuracy"))
    parts = frame["column"].str.rsplit("_", n=1, expand=True)
    points = frame.assign(column=parts[0], value=parts[1].astype(float))
    options = {"x": "value", "whiskers": True, "log": "x"}
    titles = dict.fromkeys(PANELS, "")
    figure, panels = figures.lines(points, titles, inputs.looks(METHODS), 5.0, 2, options=options)
    for panel, axes in panels.items():
        values = sorted(points[points["column"] == panel]["value"].unique())
        axes.set_xticks(values, map(_short, values))
        axes.minorticks_off()
        axes.set(xlabel=PANELS[panel], ylabel="test accuracy (%)")
    spread = inputs.spread(frame, "Mean and ± one sample standard deviation")
    return Picture(frame, figure, ("After the last round.", spread))


def _short(value: float) -> str:
    return f"{value:.0e}".replace("e-0", "e-") if value < 0.01 else f"{value:g}"


@drawing(
    title="rFedAvg+ with Gaussian noise on delta, MNIST, similarity 0%, cross-silo",
    published="Fig. 12",
    queries=lambda params: {
        (name, "mnist"): Query(
            "cross_silo",
            "mnist",
            "sim0",
            "rfedavg_plus",
            (("algorithm.noise_sigma", float(sigma)),) if sigma else (),
        )
        for name, sigma in zip(NOISED, SIGMAS, strict=True)
    },
    rows=lambda params: {name: look.label for name, look in NOISED.items()},
)
def privacy(inputs: Inputs) -> Picture:
    """Draw accuracy over rounds, a curve for each strength."""
    frame = by_round(inputs.cells, lambda facts, column: facts.series("test_accuracy") * 100.0)
    labels = ("communication round", "test accuracy (%)")
    looks = style.marked(NOISED, inputs.marked)
    figure, _ = figures.lines(frame, {"mnist": ""}, looks, 3.5, labels=labels, width=style.COLUMN)
    return Picture(frame, figure, (inputs.spread(frame),))


def clients_of(runs: Iterable[RunFacts]) -> DataFrame:
    """Return clients' accuracies in per cent [clients, runs], without the columns of runs that diverged.

    A client none of whose labels is in the test rows has no accuracy (NaN), and counts in no mean.
    """
    tables = {index: facts.table(CLIENTS) for index, facts in enumerate(runs) if facts.final}
    return pd.DataFrame({k: 100 * table.set_index("client")["test_accuracy"] for k, table in tables.items()})


def worst(accuracy: Series[float]) -> Series[float]:
    """Return the lowest tenth of the clients, at least one."""
    return accuracy.nsmallest(max(1, round(0.1 * accuracy.count())))


@drawing(
    title="Accuracy of each client, similarity 0%, cross-silo",
    published="Fig. 11",
    queries=each(
        COMPARED, {key: ("cross_silo", key, "sim0") for key in IMAGES}, ("evaluation.clients", True)
    ),
)
def fairness(inputs: Inputs) -> Picture:
    """Draw one dot per client, of the first seed, and a ring around the worst.

    Tidy lines: a method's mean over clients of a data set, over the worst ones, and each client.
    """
    measured = {cell: clients_of(runs) for cell, runs in inputs.cells.items()}
    figure, panels = figures.panels(IMAGES, 2.9, across=2)
    looks = inputs.looks(COMPARED)
    for data, axes in panels.items():
        for index, (name, look) in enumerate(looks.items()):
            accuracy = measured[name, data].get(0)
            if accuracy is None:
                axes.text(index, 0.5, "diverged", ha="center", transform=axes.get_xaxis_transform())
                continue
            x = pd.Series(np.linspace(index - 0.3, index + 0.3, len(accuracy)), accuracy.index)
            low = worst(accuracy).index
            dots = {"color": look.colour, "marker": look.marker, "s": 12, "linewidth": 0}
            seaborn.scatterplot(x=x, y=accuracy, ax=axes, **dots)
            axes.plot(x[low], accuracy[low], "o", markersize=9, markerfacecolor="none", color="#C00000")
            axes.hlines(accuracy.mean(), index - 0.35, index + 0.35, color=look.colour, linewidth=0.8)
        axes.set(xlabel="", ylabel="test accuracy of a client (%)")
        figures.methods(axes, looks)
    seed = inputs.cells["fedavg", "mnist"][0].run.seed
    count = max(chain(*(clients.isna().sum() for clients in measured.values())), default=0)
    sentences = (
        f"A dot is a client under the final global model, seed {seed}; a line is the mean over clients, "
        "a red ring marks the worst tenth. A client is tested on all test rows, weighted to its labels.",
        f"Up to {count} clients of a run have no label that a test row has, so no score." if count else "",
    )
    lines = []
    for (row, data), clients in measured.items():
        accuracies = clients.reindex(columns=range(len(inputs.cells[row, data])))
        lines += [
            line(row, f"{data}-mean", [*accuracies.mean()]),
            line(row, f"{data}-worst", [worst(accuracies[run]).mean() for run in accuracies]),
            *(line(row, f"{data}-client{client}", [*values]) for client, values in accuracies.iterrows()),
        ]
    return Picture(pd.DataFrame(lines), figure, sentences)
