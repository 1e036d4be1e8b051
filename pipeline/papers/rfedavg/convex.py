"""The strongly convex problem of Theorems 1 and 2: its objectives, optima, clients and runs.

The problem: softmax regression whose features are its outputs, phi(w, x) = W x + b, on synthetic data of
clients that differ, with an L2 penalty mu/2 ||w||^2. All clients have equally many rows, so with their mean
rows (1 appended) a_k, their mean a, and N clients, eq. (3) is

    F(W) = cross-entropy + mu/2 ||W||^2 + lambda 2/(N-1) sum_k ||W (a_k - a)||^2.

A client's gradient takes the others' features as constants, which halves the regulariser's pull; and the mean
of a batch of features varies around the mean of all rows, which adds its variance. So local steps descend

    F'(W) = cross-entropy + mu/2 ||W||^2 + lambda (1/(N-1) sum_k ||W (a_k - a)||^2 + tr W S W^T),

S the mean over clients of the covariance of a batch's mean row.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.base.lazy import scipy
from fedcore.base.registry import chosen
from fedcore.data import Source
from pipeline.catalogue.targets import PlannedRun
from pipeline.reports.results import RunFacts

PRECISION = 1e-9


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

    def minimum(self) -> NDArray[np.float64]:
        """Return W of the smallest value, by BFGS from W = 0.

        Raises:
            DataError: it does not converge.
        """
        shape = (self.labels.shape[1], self.rows.shape[1])
        found: NDArray[np.float64] = scipy.optimize.minimize(
            lambda w: (self.value(w.reshape(shape)), self.gradient(w.reshape(shape)).ravel()),
            np.zeros(shape).ravel(),
            jac=True,
            options={"gtol": PRECISION},
        ).x.reshape(shape)
        if np.abs(self.gradient(found)).max() > 100 * PRECISION:
            raise DataError("theory: BFGS found no minimum")
        return found

    def _chances(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        chances: NDArray[np.float64] = scipy.special.softmax(self.rows @ w.T, axis=1)
        return chances


def clients_of(run: PlannedRun) -> list[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Return each client's rows with 1 appended [n_k, d] and labels [n_k], generated as for the run."""
    train = chosen("data", run.spec["data"]).build(Source()).train
    rows = np.c_[train.x.astype(np.float64), np.ones(len(train.y))]
    return [(rows[train.groups == k], train.y[train.groups == k]) for k in np.unique(train.groups)]


def objectives(run: PlannedRun) -> dict[str, Objective]:
    """Return the objective that the run's local steps descend, and eq. (3)."""
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
        "own": Objective(rows, labels, penalty + weight * (apart + noise)),
        "eq. (3)": Objective(rows, labels, penalty + weight * 2 * apart),
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
