"""The two clients of Theorem 2's proof, solved as optimisation problems."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.base.lazy import pd, scipy
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, Query
from pipeline.reports import figures
from pipeline.reports.drawings import Drawing, Found, Picture

LABELS = ((0.0, 1.0), (0.5, 0.5))
EDGE = 1e-10
ROWS = {
    "uniform": "best model for p = (1/2, 1/2)",
    "optimal": "that model, best p (the proof)",
    "joint": "best model and p together",
}


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return nothing: the example has no data."""
    return {}


def losses(probability: float) -> NDArray[np.float64]:
    """Return the expected cross-entropy [2] of each client under a model that gives class 1 a probability."""
    model = np.log([1 - probability, probability])
    return np.array(
        [-sum(share * log for share, log in zip(client, model, strict=True) if share) for client in LABELS]
    )


def solve() -> dict[str, tuple[float, float, float]]:
    """Return for each row the probability of class 1, the weight of the first client, and the loss.

    The loss is convex in the model and linear in the mixture, so that a best mixture is a vertex.
    """

    def best_model(p: float) -> tuple[float, float]:
        found = scipy.optimize.minimize_scalar(
            lambda q: p * losses(q)[0] + (1 - p) * losses(q)[1],
            bounds=(EDGE, 1 - EDGE),
            method="bounded",
            options={"xatol": EDGE},
        )
        return float(found.fun), float(found.x)

    uniform, kept = best_model(0.5)
    first, second = (float(value) for value in losses(kept))
    optimal, weight = min((first, 1.0), (second, 0.0))
    (joint, model), vertex = min((best_model(vertex), vertex) for vertex in (0.0, 1.0))
    return {
        "uniform": (kept, 0.5, uniform),
        "optimal": (kept, weight, optimal),
        "joint": (model, vertex, joint),
    }


def draw(found: Found) -> Picture:
    """Draw the expected loss over models for three mixtures, and mark the solutions."""
    solved = solve()
    grid = np.linspace(0.02, 0.98, 200)
    each = np.array([losses(q) for q in grid], dtype=float)
    figure = figures.framed(3.3, figures.NARROW)
    axes = figure.subplots()
    for p, line, colour in ((0.5, "-", "#000000"), (0.75, "--", "#E69F00"), (1.0, "-.", "#0072B2")):
        label = f"p = ({p:g}, {1 - p:g})"
        axes.plot(grid, each @ (p, 1 - p), line, color=colour, label=label)
    for (row, label), marker in zip(ROWS.items(), "oPX", strict=True):
        q, _, loss = solved[row]
        axes.plot(q, loss, marker, color="#D55E00", label=f"{label}: {abs(loss):.4f}", markersize=6)
    axes.set_ylim(-0.1, 2)
    axes.set(xlabel="probability that the model gives class 1", ylabel="expected cross-entropy")
    axes.legend(fontsize=6)
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


THEOREM2 = Drawing(
    title="The two-client example of Theorem 2, solved numerically",
    published="Section 3.2",
    queries=queries,
    draw=draw,
)
