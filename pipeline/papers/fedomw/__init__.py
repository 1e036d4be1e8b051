"""Non-IID Distributed Learning with Optimal Mixture Weights: DL-opt and FedOMW.

Tables 2 to 5: test accuracy on six data sets, and ablations, some also in the authors' code's reading.
Figs. 1 and 2: training. The two clients of Theorem 2's proof are solved as optimisation problems.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.lazy import pd, scipy
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Changes, Column, Paper, Query, Target, Variation
from pipeline.papers.fedomw.theory import theorem1
from pipeline.reports import figures, ranks, style
from pipeline.reports.drawings import Curves, Inputs, Picture, drawing, each
from pipeline.reports.style import Look
from pipeline.reports.tables import Table, of_datasets
from pipeline.reports.variations import IID, variations

SPLIT = "skewed"
DATASETS = {name: name for name in ("usps", "pendigits", "satimage", "letter", "dna", "mnist")}
DISTRIBUTED = {"dl_u": "DL-u", "dl_opt": "DL-opt"}
FEDERATED = {"fedavg": "FedAvg", "fedprox": "FedProx", "fedomw": "FedOMW"}


def ablations(name: str, label: str) -> dict[str, str]:
    """Return the rows of an ablation: neither part, only the norm of w, only learned p, both."""
    return {f"{name}_{part}": f"{label}-{part}" for part in ("non", "w", "p")} | {name: label}


def accuracy(number: int, title: str, regime: str, rows: Mapping[str, str]) -> Table:
    """Return a table of accuracies."""
    return Table(
        title=title,
        published=f"Table {number}",
        columns=lambda params: tuple(
            Column(name, label) for name, label in DATASETS.items() if name in params.datasets
        ),
        query=lambda algorithm, column: Query(regime, column, SPLIT, algorithm),
        rows=lambda params: rows,
    )


def released(target: Target, **more: str) -> Target:
    """Return a target in the reading of the authors' code, which has its own split."""
    changes = (("variant", "released"),)
    words = ", as the authors' code reads it"
    return target.read_as(words, lambda query: replace(query, split="released", changes=changes), **more)


ACCURACIES = {
    "table2": accuracy(2, "Test accuracy of distributed learning", "dl", DISTRIBUTED),
    "table3": accuracy(3, "Test accuracy of federated learning", "fl", FEDERATED),
    "table4": accuracy(4, "Ablation of DL-opt", "dl", ablations("dl_opt", "DL-opt")),
    "table5": accuracy(5, "Ablation of FedOMW", "fl", ablations("fedomw", "FedOMW")),
}
CLIENTS = "partition.clients"
FREE = (("partition.alpha", IID),)
SHARES = {"fifth": (0.2, "a fifth of the clients"), "twice": (2.0, "twice the clients")}
VARIATIONS = {
    "centralised": Variation("", "centralised"),
    "fedavg": Variation("", "fedavg"),
    "fedavg_iid": Variation("FedAvg, IID", "fedavg", FREE),
    **{name: Variation("", name) for name in DISTRIBUTED},
    **{f"{name}_iid": Variation(f"{label}, IID", name, FREE) for name, label in DISTRIBUTED.items()},
    **{
        f"{name}_{key}": Variation(f"{label}, {words}", name, ((CLIENTS, share),))
        for name, label in DISTRIBUTED.items()
        for key, (share, words) in SHARES.items()
    },
}


def varied(params: PaperParams, method: str, column: str, changes: Changes) -> Query:
    """Return the runs of a variation: distributed learning, or federated; clients are shares of all."""
    regime = "dl" if method in DISTRIBUTED else "fl"
    clients = params.regimes[regime].clients or 1
    numbers = tuple((key, round(value * clients) if key == CLIENTS else value) for key, value in changes)
    return Query(regime, column, SPLIT, method, numbers)


TABLES: Mapping[str, Target] = {
    "table1": of_datasets(
        "Table 1", ("training_size", "testing_size", "dimensions", "classes"), DATASETS, "dl", SPLIT, "dl_u"
    ),
    **ACCURACIES,
    "variations": variations(
        "Test accuracy by skew and number of clients",
        "Sections 1 to 3",
        VARIATIONS,
        {name: name for name in ("pendigits", "satimage", "letter")},
        varied,
    ),
    **{f"{name}_released": released(table, beside=name) for name, table in ACCURACIES.items()},
}

METHOD, DATASET = "dl_opt", "letter"
SHOWN = 5
COLOURS = (style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.BLACK)
MARKERS = "os^DP"
LABELS = ((0.0, 1.0), (0.5, 0.5))
EDGE = 1e-10
SOLUTIONS = {
    "uniform": "best model for p = (1/2, 1/2)",
    "optimal": "that model, best p (the proof)",
    "joint": "best model and p together",
}


def losses(probability: float) -> NDArray[np.float64]:
    """Return the expected cross-entropy [2] of each client under a model that gives class 1 a probability."""
    expected: NDArray[np.float64] = -(np.array(LABELS) * np.log([1 - probability, probability])).sum(axis=1)
    return expected


def solve() -> dict[str, tuple[float, float, float]]:
    """Return for each row the probability of class 1, the weight of the first client, and the loss.

    The loss is convex in the model and linear in the mixture, so that a best mixture is a vertex.
    """
    how: Any = {"bounds": (EDGE, 1 - EDGE), "method": "bounded", "options": {"xatol": EDGE}}

    def best_model(p: float) -> tuple[float, float]:
        result = scipy.optimize.minimize_scalar(lambda q: p * losses(q)[0] + (1 - p) * losses(q)[1], **how)
        return float(result.fun), float(result.x)

    uniform, kept = best_model(0.5)
    first, second = (float(value) for value in losses(kept))
    best, weight = min((first, 1.0), (second, 0.0))
    (joint, model), vertex = min((best_model(vertex), vertex) for vertex in (0.0, 1.0))
    return {"uniform": (kept, 0.5, uniform), "optimal": (kept, weight, best), "joint": (model, vertex, joint)}


CURVES = Curves(
    title="Test accuracy of federated learning on satimage",
    published="Fig. 1",
    panels={"satimage": "satimage"},
    across=1,
    rows=lambda params: FEDERATED,
    queries=each(FEDERATED, {"satimage": ("fl", "satimage", SPLIT)}),
)


@drawing(
    title="Mixture weights of DL-opt in central training on letter",
    published="Fig. 2",
    queries=lambda params: {(METHOD, DATASET): Query("dl", DATASET, SPLIT, METHOD)},
)
def mixture(inputs: Inputs) -> Picture:
    """Draw the weights of the clients that started with the most rows, over passes of central training."""
    first = inputs.cells[METHOD, DATASET][0]
    weights = first.table("mixture.csv").set_index("pass")
    largest = weights.iloc[0].sort_values(ascending=False, kind="stable").index[:SHOWN]
    lines = weights[list(largest)].rename_axis("round").reset_index()
    lines = lines.melt("round", var_name="row", value_name="mean")
    looks = {
        name: Look(f"client {name.removeprefix('p_')}", colour, marker)
        for name, colour, marker in zip(largest, COLOURS, MARKERS, strict=False)
    }
    shown, labels = lines.assign(std=0.0, column=DATASET), ("pass of central training", "mixture weight")
    figure, panels = figures.lines(shown, {DATASET: ""}, looks, 3.5, labels=labels, width=style.COLUMN)
    for name, look in looks.items():
        panels[DATASET].axhline(weights[name].iloc[0], color=look.colour, linestyle=":", linewidth=0.8)
    sentences = (
        f"The {len(largest)} clients with the most rows, seed {first.run.seed}.",
        "Dotted: the start, a client's share of the rows, which uniform mixing keeps.",
        "Weights may be negative and need not sum to 1.",
    )
    return Picture(lines.assign(column=DATASET, n=1, seeds=1), figure, sentences)


@drawing(title="The two-client example of Theorem 2, solved numerically", published="Section 3.2")
def example(inputs: Inputs) -> Picture:
    """Draw the expected loss over models for three mixtures, and mark the solutions."""
    solved = solve()
    grid = np.linspace(0.02, 0.98, 200)
    client_losses = np.array([losses(q) for q in grid], dtype=float)
    figure = figures.framed(4.0, style.COLUMN)
    axes = figure.subplots()
    for p, line, colour in ((0.5, "-", style.BLACK), (0.75, "--", style.ORANGE), (1.0, "-.", style.BLUE)):
        label = f"p = ({p:g}, {1 - p:g})"
        axes.plot(grid, client_losses @ (p, 1 - p), line, color=colour, label=label)
    for (row, label), marker in zip(SOLUTIONS.items(), "oPX", strict=True):
        q, _, loss = solved[row]
        axes.plot(q, loss, marker, color=style.VERMILION, label=f"{label}: {abs(loss):.4f}", markersize=6)
    for (row, _), number in inputs.published.items():
        figures.published(axes, [solved[row][0]], [number.mean], label=f"published: {number.mean:.4f}")
    axes.set_ylim(-0.1, 2)
    axes.set(xlabel="probability that the model gives class 1", ylabel="expected cross-entropy")
    figure.legend(loc="outside upper center")
    lines = [
        {"row": row, "column": column, "mean": value, "n": 1, "seeds": 1}
        for row, values in solved.items()
        for column, value in zip(("class_1", "weight_1", "loss"), values, strict=True)
    ]
    sentences = (
        "Client 1 holds only class 1, client 2 both classes in equal parts.",
        "The proof keeps the uniform framework's model while it minimises over p.",
    )
    return Picture(pd.DataFrame(lines), figure, sentences)


PAPER = Paper(
    title="Non-IID Distributed Learning with Optimal Mixture Weights",
    citation="J. Li, B. Wei, Y. Liu, W. Wang, ECML PKDD 2022",
    datasets=DATASETS,
    targets={
        **TABLES,
        "table3_ranks": ranks.summary(ACCURACIES["table3"]),
        "fig1": CURVES,
        "fig1_released": released(CURVES),
        "fig2": mixture,
        "fig2_released": released(mixture),
        "theorem1": theorem1,
        "theorem2": example,
    },
)
