"""Theorems 1 and 2: how fast the error falls on a strongly convex problem, measured against 1/T.

The problem: softmax regression whose features are its outputs, phi(w, x) = W x + b, on synthetic data of
clients that differ, with an L2 penalty mu/2 ||w||^2. All clients have equally many rows, so with their mean
rows (1 appended) a_k, their mean a, and N clients, eq. (3) is

    F(W) = cross-entropy + mu/2 ||W||^2 + lambda 2/(N-1) sum_k ||W (a_k - a)||^2.

A client's gradient takes the others' features as constants, which halves the regulariser's pull; and the mean
of a batch of features varies around the mean of all rows, which adds its variance. So local steps descend

    F'(W) = cross-entropy + mu/2 ||W||^2 + lambda (1/(N-1) sum_k ||W (a_k - a)||^2 + tr W S W^T),

S the mean over clients of the covariance of a batch's mean row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.base.lazy import Axes, pd, scipy
from fedcore.base.registry import chosen
from fedcore.data import Source
from pipeline.catalogue.targets import PlannedRun
from pipeline.reports import figures, style
from pipeline.reports.drawings import Inputs, Picture, drawing, each, line
from pipeline.reports.results import RunFacts
from pipeline.reports.style import Look

METHODS = ("fedavg", "rfedavg", "rfedavg_plus")
OBJECTIVES = {"error": "the objective that local steps descend", "error_eq3": "eq. (3)"}
SLOPES = {"error": "slope", "error_eq3": "slope_eq3"}
EVERY = 10
FIRST = 0.2
CHANGES: tuple[tuple[str, Any], ...] = (
    ("dtype", "float64"),
    ("evaluation.every", 100),
    ("evaluation.train_every", 0),
    ("evaluation.observe.path.every", EVERY),
)
STEPS, PRECISION = 100, 1e-11
TICKS = [digit * 10**power for power in range(1, 7) for digit in (1, 2, 5)]


@dataclass(frozen=True)
class Objective:
    """Cross-entropy of softmax regression plus tr W Q W^T, over W [classes, d].

    Attributes:
        rows: inputs with 1 appended [n, d].
        labels: their one-hot labels [n, classes].
        quadratic: Q [d, d], symmetric and positive definite.
    """

    rows: NDArray[np.float64]
    labels: NDArray[np.float64]
    quadratic: NDArray[np.float64]

    def value(self, w: NDArray[np.float64]) -> float:
        """Return F(W)."""
        scores = self.rows @ w.T
        losses = scipy.special.logsumexp(scores, axis=1) - (scores * self.labels).sum(axis=1)
        return float(losses.mean() + np.sum((w @ self.quadratic) * w))

    def gradient(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the gradient [classes, d]."""
        return (self._chances(w) - self.labels).T @ self.rows / len(self.rows) + 2 * w @ self.quadratic

    def hessian(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Hessian [classes * d, classes * d]."""
        chances = self._chances(w)
        classes, width = w.shape
        curvature = chances[:, :, None] * (np.eye(classes) - chances[:, None, :])
        loss = np.einsum("nce,ni,nj->ciej", curvature, self.rows, self.rows, optimize=True) / len(self.rows)
        size = classes * width
        full: NDArray[np.float64] = loss.reshape(size, size) + 2 * np.kron(np.eye(classes), self.quadratic)
        return full

    def least(self) -> float:
        """Return the smallest value, by Newton's method from W = 0.

        Raises:
            DataError: it does not converge.
        """
        w = np.zeros((self.labels.shape[1], self.rows.shape[1]))
        for _ in range(STEPS):
            gradient = self.gradient(w)
            if np.linalg.norm(gradient) < PRECISION:
                return self.value(w)
            w = w - np.linalg.solve(self.hessian(w), gradient.ravel()).reshape(w.shape)
        raise DataError(f"theory: Newton's method found no minimum in {STEPS} steps")

    def _chances(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        chances: NDArray[np.float64] = scipy.special.softmax(self.rows @ w.T, axis=1)
        return chances


def clients_of(run: PlannedRun) -> list[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Return each client's rows with 1 appended [n_k, d] and labels [n_k], generated as for the run."""
    train = chosen("data", run.spec["data"]).build(Source()).train
    rows = np.c_[train.x.astype(np.float64), np.ones(len(train.y))]
    return [(rows[train.groups == k], train.y[train.groups == k]) for k in np.unique(train.groups)]


def objectives(run: PlannedRun) -> dict[str, Objective]:
    """Return the objective that the run's local steps descend, and eq. (3), named as in ``OBJECTIVES``."""
    clients, training = clients_of(run), run.spec["training"]
    batch = training["batch_size"]
    rows = np.concatenate([x for x, _ in clients])
    labels = np.eye(run.spec["data"]["classes"])[np.concatenate([y for _, y in clients])]
    means = np.stack([x.mean(axis=0) for x, _ in clients])
    apart = (means - means.mean(axis=0)).T @ (means - means.mean(axis=0)) / (len(clients) - 1)
    noise = sum(np.cov(x.T) / batch * (1 - batch / len(x)) for x, _ in clients) / len(clients)
    penalty = training["weight_decay"] / 2 * np.eye(rows.shape[1])
    weight = run.spec["algorithm"].get("lambda", 0.0)
    return {
        "error": Objective(rows, labels, penalty + weight * (apart + noise)),
        "error_eq3": Objective(rows, labels, penalty + weight * 2 * apart),
    }


def condition(run: PlannedRun) -> float:
    """Return a bound of kappa = L/mu over the clients' objectives; softmax has a curvature of at most 1/2."""
    mu = float(run.spec["training"]["weight_decay"])
    weight = float(run.spec["algorithm"].get("lambda", 0.0))
    largest = max(float(np.linalg.eigvalsh(x.T @ x / len(x))[-1]) for x, _ in clients_of(run))
    return (largest / 2 + mu + 2 * weight * largest) / mu


def path_of(facts: RunFacts) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    """Return the rounds [r] and the models W [r, classes, d] of a run; None if it diverged."""
    kept = facts.arrays("path.npz")
    if kept is None:
        return None
    models, data = kept["model"], facts.run.spec["data"]
    classes, inputs = data["classes"], data["dimension"]
    weight = models[:, : classes * inputs].reshape(-1, classes, inputs)
    return kept["round"], np.concatenate([weight, models[:, classes * inputs :, None]], axis=2)


def time_of(run: PlannedRun, rounds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return t + gamma - E after each of the rounds, t the gradient steps of a client."""
    training = run.spec["training"]
    time: NDArray[np.float64] = (rounds - 1) * training["local_steps"] + training["lr_schedule"]["offset"]
    return time


def slope(time: NDArray[np.float64], rounds: NDArray[np.int64], errors: Sequence[float]) -> float:
    """Return the slope of log error over log time by least squares, without the first fifth of the rounds."""
    late = rounds >= FIRST * rounds[-1]
    return float(np.polyfit(np.log(time[late]), np.log(np.asarray(errors)[late]), 1)[0])


def numbers(inputs: Inputs) -> pd.DataFrame:
    """Return errors F(w) - F* by round and their slopes, over seeds; ``low`` and ``high``: their extremes."""
    lines = []
    for (row, _), runs in inputs.cells.items():
        run, paths = runs[0].run, [path for facts in runs if (path := path_of(facts)) is not None]
        missing = [None] * (len(runs) - len(paths))
        for name, objective in objectives(run).items():
            least = objective.least()
            known = [(rounds, [objective.value(w) - least for w in models]) for rounds, models in paths]
            slopes = [slope(time_of(run, rounds), rounds, errors) for rounds, errors in known]
            lines.append(line(row, SLOPES[name], [*slopes, *missing]))
            for place, at in enumerate(known[0][0] if known else ()):
                values = [errors[place] for _, errors in known]
                extremes = {"low": min(values), "high": max(values)}
                lines.append(line(row, name, [*values, *missing], round=int(at), **extremes))
    return pd.DataFrame(lines)


@drawing(
    title="Error over time on a strongly convex problem",
    published="Theorems 1 and 2",
    queries=each(METHODS, {"convex": ("theory", "convex", "natural")}, *CHANGES),
)
def theory(inputs: Inputs) -> Picture:
    """Draw the errors over time, one panel per objective, with a line that falls as 1/T."""
    frame = numbers(inputs)
    run = inputs.cells[METHODS[-1], "convex"][0].run
    known = style.looks(METHODS)
    titles = {name: f"F: {label}" for name, label in OBJECTIVES.items()}
    figure, panels = figures.panels(titles, 3.6, across=2, sharey=True)
    for name, axes in panels.items():
        _panel(axes, run, frame, name)
        axes.set(xlabel="gradient steps, t + γ - E", ylabel="F(w) - F*")
        axes.label_outer()
    figures.legend(figure, known | {"1/T": Look("falls as 1/T", "0.4", "", ":")})
    training, weight = run.spec["training"], run.spec["algorithm"]["lambda"]
    sentences = (
        "Softmax regression whose features are its outputs, with an L2 penalty "
        f"(μ = {training['weight_decay']:g}), λ = {weight:g}, {len(clients_of(run))} clients, "
        f"E = {training['local_steps']}, batches of {training['batch_size']}, η = 2/(μ(γ + t)), "
        f"γ = {training['lr_schedule']['offset']:g} (8κ is at most {8 * condition(run):.1f}).",
        "Left: F holds what local steps descend in the mean: half of eq. (3)'s regulariser, as others' "
        "features are constants in a client's gradient, and the variance of a batch's mean feature. "
        "Right: F is eq. (3), that of Theorems 1 and 2. FedAvg has no regulariser, so both are the same.",
        "F* by Newton's method. Slope: log error over log time, without the first fifth of the rounds.",
        "Line: mean over seeds; band: from the smallest to the largest.",
    )
    return Picture(frame, figure, sentences)


def _panel(axes: Axes, run: PlannedRun, frame: pd.DataFrame, name: str) -> None:
    """Draw the errors in one objective, and their slopes in words."""
    own = frame[frame["column"] == name]
    own = own.assign(time=time_of(run, own["round"].to_numpy()))
    slopes = frame[frame["column"] == SLOPES[name]].set_index("row")["mean"]
    figures.curves(axes, own, style.looks(METHODS), x="time", marks=0, log="xy")
    base = own[own["row"] == METHODS[0]]
    if not base.empty:
        time = base["time"].to_numpy()
        scale = 3 * float(base["mean"].iloc[-1]) * time[-1]
        late = time >= np.sqrt(time[0] * time[-1])
        axes.plot(time[late], scale / time[late], color="0.4", linestyle=":")
    words = "\n".join(f"{style.label(row)}: slope {slopes[row]:.2f}" for row in METHODS)
    axes.text(0.03, 0.04, words, transform=axes.transAxes, fontsize=figures.SMALL, va="bottom")
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in TICKS if low <= tick <= high], minor=False)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
