"""Fig. 11: the accuracy of each client, the worst ones marked."""

import numpy as np

from fedcore.base.lazy import DataFrame, Series, pd, seaborn
from fedcore.execution.integrity import CLIENTS
from pipeline.papers.rfedavg.tables import IMAGES
from pipeline.reports import figures
from pipeline.reports.drawings import Inputs, Picture, Values, drawing, each, line
from pipeline.reports.results import RunFacts

METHODS = ("fedavg", "rfedavg_plus")


def clients_of(facts: RunFacts) -> Series[float] | None:
    """Return the accuracy of each client in per cent, by client; None if the run diverged.

    A client none of whose labels is in the test rows has no accuracy (NaN), and counts in no mean.
    """
    accuracy: Series[float] = 100 * facts.table(CLIENTS).set_index("client")["test_accuracy"]
    return accuracy if facts.final else None


def worst(accuracy: Series[float]) -> Series[float]:
    """Return the lowest tenth of the clients, at least one."""
    return accuracy.nsmallest(max(1, round(0.1 * accuracy.count())))


def numbers(inputs: Inputs) -> DataFrame:
    """Return, of each method and data set, the mean over clients, over the worst ones, and each client's."""
    lines = []
    for (row, data), runs in inputs.cells.items():
        measured = [accuracy for facts in runs if (accuracy := clients_of(facts)) is not None]
        clients = sorted({int(client) for accuracy in measured for client in accuracy.index})
        columns: dict[str, Values] = {
            "mean": [accuracy.mean() for accuracy in measured],
            "worst": [worst(accuracy).mean() for accuracy in measured],
        }
        columns |= {f"client{client}": [accuracy.get(client) for accuracy in measured] for client in clients}
        diverged = [None] * (len(runs) - len(measured))
        lines += [line(row, f"{data}-{key}", [*values, *diverged]) for key, values in columns.items()]
    return pd.DataFrame(lines)


@drawing(
    title="Accuracy of each client, similarity 0%, cross-silo",
    published="Fig. 11",
    queries=each(METHODS, {key: ("cross_silo", key, "sim0") for key in IMAGES}, ("evaluation.clients", True)),
)
def fairness(inputs: Inputs) -> Picture:
    """Draw one dot per client, of the first seed, and a ring around the worst."""
    figure, panels = figures.panels(IMAGES, 2.9, across=2)
    looks = inputs.looks(METHODS)
    for data, axes in panels.items():
        for index, (name, look) in enumerate(looks.items()):
            accuracy = clients_of(inputs.cells[name, data][0])
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
    accuracies = [clients_of(facts) for runs in inputs.cells.values() for facts in runs]
    count = max((int(accuracy.isna().sum()) for accuracy in accuracies if accuracy is not None), default=0)
    sentences = (
        f"A dot is a client under the final global model, seed {seed}; a line is the mean over clients, "
        "a red ring marks the worst tenth. A client is tested on all test rows, weighted to its labels.",
        f"Up to {count} clients of a run have no label that a test row has, so no score." if count else "",
    )
    return Picture(numbers(inputs), figure, sentences)
