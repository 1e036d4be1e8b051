"""Clients with finitely many rows and models, so that risks, learners and suprema are exact.

A client's distribution is uniform on a few rows. Features are two random cosines, cos(x W + b)/sqrt(2), so
kappa <= 1. A model is f(x) = W^T phi(x) with W = w v^T, v = (1, -1)/sqrt(2), and w on a grid of the disc of
radius B, so ||W||_* = ||w|| <= B, and the scores of the two classes differ by h(x) = sqrt(2) w^T phi(x). The
loss is cross-entropy, log(1 + exp(-y h)).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.lazy import pd
from pipeline.reports import inequalities
from pipeline.reports.drawings import Picture
from pipeline.reports.inequalities import GROUPS, Floats, Sides

Counts = NDArray[np.int64]
RADIUS, SPACING, ANGLES = 3.0, 0.125, 96
ROWS, INPUTS, CLASSES = 32, 3, 2
SIZES, CLIENTS = (200, 400, 800, 1600, 3200), (1, 2, 4, 8, 16)
FEW, MANY = 8, 1600  # clients while n varies, rows while K varies
DRAWS, DELTA, SKEW = 20, 0.05, 0.5
ABOUT = (
    f"{GROUPS} populations, {DRAWS} samples of each at a place: n from {SIZES[0]} to {SIZES[-1]} with "
    f"K = {FEW}, K from {CLIENTS[0]} to {CLIENTS[-1]} with n = {MANY}. A client is uniform on {ROWS} rows, "
    "features are two random cosines, models a grid of a disc; so learners, suprema, κ, λ and M are exact. "
    f"δ = {DELTA}."
)


@dataclass(frozen=True)
class Population:
    """K clients; client k has the rows k ROWS to (k + 1) ROWS - 1.

    Attributes:
        seed: what they were drawn with.
        models: w of each model [models, 2].
        features: phi of each row [rows, 2].
        losses: the loss of each model on each row [models, rows].
    """

    seed: int
    models: Floats
    features: Floats
    losses: Floats

    @property
    def clients(self) -> int:
        """K."""
        return len(self.features) // ROWS

    @property
    def kappa(self) -> float:
        """The largest norm of features."""
        return float(np.linalg.norm(self.features, axis=1).max())

    @cached_property
    def largest(self) -> float:
        """M, the largest loss."""
        return float(self.losses.max())

    @property
    def steepness(self) -> float:
        """The loss's Lipschitz constant in h; in the 2-norm of both scores it is sqrt(2) times that."""
        return float(1 - np.exp(-self.largest))

    @cached_property
    def risks(self) -> Floats:
        """The expected loss of each model at each client [models, clients]."""
        risks: Floats = self.losses.reshape(len(self.losses), -1, ROWS).mean(axis=2)
        return risks

    def sample(self, sizes: Counts, rng: np.random.Generator) -> Counts:
        """Draw samples of n_k rows of client k: how often each row is in each sample [rows, draws]."""
        return np.concatenate([rng.multinomial(size, np.full(ROWS, 1 / ROWS), DRAWS).T for size in sizes])


def population(clients: int, skew: float, seed: int) -> Population:
    """Make clients whose inputs and labels differ by ``skew``; with 0 all are alike."""
    rng = np.random.default_rng([seed, 0])
    base, chance = rng.normal(size=(ROWS, INPUTS)), rng.uniform(size=ROWS)
    omega, shift = rng.normal(size=(INPUTS, 2)), rng.uniform(0, 2 * np.pi, 2)
    draws = [np.random.default_rng([seed, 1, k]).normal(size=INPUTS + 2) for k in range(clients)]
    shifts = skew * np.stack(draws)
    features = np.cos((base + shifts[:, None, :INPUTS]) @ omega + shift) / np.sqrt(2)
    margins = np.sqrt(2) * (features @ (np.array([0.8, -0.5]) + shifts[:, INPUTS:])[..., None])[..., 0]
    labels = np.where(chance < 1 / (1 + np.exp(-margins)), 1.0, -1.0)
    ticks = np.stack(np.meshgrid(*[np.arange(-RADIUS, RADIUS, SPACING)] * 2), axis=-1).reshape(-1, 2)
    angles = np.arange(ANGLES) * 2 * np.pi / ANGLES
    edge = RADIUS * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    models = np.concatenate([ticks[np.linalg.norm(ticks, axis=1) < RADIUS], edge])
    rows = features.reshape(-1, 2)
    return Population(seed, models, rows, np.log1p(np.exp(-np.sqrt(2) * labels.ravel() * (models @ rows.T))))


Setting = tuple[str, Callable[[Population, int], Sides], float]


def picture(
    settings: Mapping[str, Setting], laws: Collection[str], *notes: str, labels: Mapping[str, str] = {}
) -> Picture:
    """Draw both sides of inequalities in populations, over the number n of rows or K of clients.

    ``settings``: in words, what is measured in a population for n rows, and the skew. Their names end in what
    varies, ``-n`` or ``-K``, and begin with ``one`` where there is one client. The other arguments are those
    of ``inequalities.lines`` and ``inequalities.picture``.
    """
    lines: list[dict[str, Any]] = []
    for name, (_, measure, skew) in settings.items():
        sizes = SIZES if name.endswith("-n") else (MANY,)
        clients = CLIENTS if name.endswith("-K") else (1,) if name.startswith("one") else (FEW,)
        most = [population(max(clients), skew, seed) for seed in range(GROUPS)]
        places = []
        for k in clients:
            rows = slice(k * ROWS)
            kept = [replace(full, features=full.features[rows], losses=full.losses[:, rows]) for full in most]
            places += [[measure(part, n) for part in kept] for n in sizes]
        lines += inequalities.lines(name, sizes if len(sizes) > 1 else clients, places, laws)
    titles = {name: title for name, (title, *_) in settings.items()}
    return inequalities.picture(pd.DataFrame(lines), titles, *notes, labels=labels)


def spread(weights: Floats) -> Floats:
    """Return numbers of clients [clients, ...] as those of their rows [rows, ...]."""
    return np.repeat(weights, ROWS, axis=0)


def signs(counts: Counts, rng: np.random.Generator) -> Counts:
    """Return the sum of a random sign for each time that a row is in a sample, in the counts' shape."""
    return 2 * rng.binomial(counts, 0.5) - counts
