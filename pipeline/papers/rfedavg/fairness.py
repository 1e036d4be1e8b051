"""Fig. 11: the accuracy of each client, the worst ones marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedcore.base.errors import DataError
from fedcore.base.lazy import pd, seaborn
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, PlannedRun, Query
from pipeline.reports import figures, style
from pipeline.reports.drawings import Drawing, Found, Picture
from pipeline.reports.results import final_of, summary_of
from pipeline.reports.spread import line

METHODS = ("fedavg", "rfedavg_plus")
DATASETS = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
WORST = 0.1
MARK = "#C00000"


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return the runs of each method and data set, measured client by client."""
    each = (("evaluation.clients", True),)
    return {
        (name, data): Query("cross_silo", data, "sim0", name, each) for data in DATASETS for name in METHODS
    }


def clients_of(run: PlannedRun, root: Path) -> pd.Series[float] | None:
    """Return the accuracy of each client in per cent, by client; None if the run diverged.

    A client none of whose labels is in the test rows has no accuracy (NaN), and counts in no mean.

    Raises:
        DataError: the run has no measurements of its clients.
    """
    path = root / run.folder / "clients.csv"
    if summary_of(run, root) is None or not path.exists():
        raise DataError(f"{path}: missing, but a report needs it; delete the folder and build it again")
    measured: pd.Series[float] = 100 * pd.read_csv(path).set_index("client")["test_accuracy"]
    return measured if final_of(run, root) else None


def clients_without_score(run: PlannedRun, root: Path) -> int:
    """Return how many clients have no accuracy, though the run did not diverge."""
    measured = clients_of(run, root)
    return 0 if measured is None else int(measured.isna().sum())


def worst(measured: pd.Series[float]) -> pd.Series[float]:
    """Return the lowest tenth of the clients, at least one."""
    return measured.nsmallest(max(1, round(WORST * measured.count())))


def numbers(found: Found) -> pd.DataFrame:
    """Return, of each method and data set, the mean over clients, over the worst ones, and each client's."""
    lines = []
    for (row, data), runs in found.cells.items():
        each = [clients_of(run, found.root) for run in runs]
        lines.append(line(row, f"{data}-mean", [None if s is None else s.mean() for s in each]))
        lines.append(line(row, f"{data}-worst", [None if s is None else worst(s).mean() for s in each]))
        for client in sorted({int(k) for s in each if s is not None for k in s.index}):
            values = [None if s is None or client not in s.index else float(s[client]) for s in each]
            lines.append(line(row, f"{data}-client{client}", values))
    return pd.DataFrame(lines)


def draw(found: Found) -> Picture:
    """Draw one dot per client, of the first seed, and a ring around the worst."""
    figure = figures.framed(2.9)
    for axes, (data, label) in zip(figure.subplots(1, 2), DATASETS.items(), strict=True):
        for place, name in enumerate(METHODS):
            measured = clients_of(found.cells[name, data][0], found.root)
            if measured is None:
                words = {"ha": "center", "transform": axes.get_xaxis_transform()}
                axes.text(place, 0.5, "diverged", **words)
                continue
            colour, marker = style.look(name).colour, style.look(name).marker
            x = pd.Series(np.linspace(place - 0.3, place + 0.3, len(measured)), measured.index)
            low = worst(measured).index
            seaborn.scatterplot(x=x, y=measured, color=colour, marker=marker, s=12, linewidth=0, ax=axes)
            axes.plot(x[low], measured[low], "o", markersize=9, markerfacecolor="none", color=MARK)
            axes.hlines(measured.mean(), place - 0.35, place + 0.35, color=colour, linewidth=0.8)
        axes.set_xticks(range(len(METHODS)), [style.label(name) for name in METHODS])
        axes.set(title=label, xlabel="", ylabel="test accuracy of a client (%)")
        axes.grid(visible=False, axis="x")
    first = found.cells["fedavg", "mnist"][0].seed
    bare = max(clients_without_score(run, found.root) for runs in found.cells.values() for run in runs)
    sentences = (
        f"A dot is a client under the final global model, seed {first}; a line is the mean over clients, "
        "a red ring marks the worst tenth. A client is tested on all test rows, weighted to its labels.",
        f"Up to {bare} clients of a run have no label that a test row has, so no score." if bare else "",
    )
    return Picture(numbers(found), figure, sentences)


FAIRNESS = Drawing(
    title="Accuracy of each client, similarity 0%, cross-silo",
    published="Fig. 11",
    queries=queries,
    draw=draw,
)
