"""Theorem 1 as a measurement: eqs. (3) and (4), and the law sqrt(K)/n, on clients whose optima are known.

Mixture weights are n_k/n, or free on the simplex as in eq. (1). The loss is linear in p, so with free weights
the learner takes the one client, and the model, of the smallest empirical loss.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from pipeline.reports import inequalities, populations
from pipeline.reports.drawings import Inputs, Picture, drawing
from pipeline.reports.populations import DELTA, DRAWS, RADIUS, ROWS, SKEW, Floats, spread

SAMPLES, SIGNS = 4, 50  # of each population, samples whose complexity is estimated, and by how many signs
DIMENSION = 2  # the VC dimension of h(x) = w^T phi(x) with two features
LAW = ("risk, √K/n",)


def bernstein(risks: Floats, squares: Floats) -> float:
    """Return the smallest B of Assumption 2: squares of excess losses average to at most B times the risk."""
    above = risks - risks.min()
    return float((squares[above > 0] / above[above > 0]).max())


def sides(own: populations.Population, n: int, free: bool = False) -> inequalities.Sides:
    """Return both sides of each inequality for n rows, dealt out evenly among the clients."""
    rng, clients = np.random.default_rng([own.seed, own.clients, n, free]), own.clients
    counts = own.sample(np.full(clients, n // clients), rng)
    risks, weights = own.risks, np.full((clients, DRAWS), 1 / clients)
    best = np.unravel_index(risks.argmin(), risks.shape)[0] if free else risks.mean(axis=1).argmin()
    squares = replace(own, losses=np.square(own.losses - own.losses[best])).risks
    if free:
        rows = [slice(k * ROWS, (k + 1) * ROWS) for k in range(clients)]
        empirical = np.concatenate([own.losses[:, each] @ counts[each] for each in rows])
        client, learner = np.divmod(empirical.argmin(axis=0), len(own.losses))
        reached, weights = risks[learner, client], np.eye(clients)[:, client]
    else:
        risks, squares = risks.mean(axis=1), squares.mean(axis=1)
        reached = risks[(own.losses @ counts).argmin(axis=0)]
    b, steep, radius = bernstein(risks, squares), own.steepness, np.sqrt(2) * RADIUS
    star = steep * weights.max() * np.sqrt(2 * DIMENSION * clients * np.log(np.e * n / DIMENSION)) / n
    drawn = populations.signs(np.repeat(counts[:, :SAMPLES, None], SIGNS, axis=2), rng)
    shares = spread(weights[:, :SAMPLES, None]) * clients / n
    sums = np.tensordot(drawn * shares, own.features, (0, 0))
    complexity = radius * np.linalg.norm(sums, axis=2).mean(axis=1)
    mean, chance = complexity.mean(), np.log(1 / DELTA) / n
    return {
        "eq. (3), all models": (steep * mean, star),
        "eq. (3), ‖w‖² = r*/(λκ)²": (mean * np.sqrt(star) / own.kappa / radius, star),
        "self-bounding": (mean, complexity + np.sqrt(2 * mean * chance)),
        "risk, eq. (4)": (reached - risks.min(), 705 / b * star + (11 * own.largest + 27 * b) * chance),
        LAW[0]: (reached - risks.min(), np.sqrt(clients) / n),
    }


@drawing(
    title="Both sides of the inequalities of Theorem 1", published="Theorem 1", queries=lambda params: {}
)
def theorem1(inputs: Inputs) -> Picture:
    """Measure and draw both sides over n and over K, with given and with free weights."""
    free = partial(sides, free=True)
    settings = {
        "given-n": ("p = n_k/n, over n", sides, SKEW),
        "given-K": ("p = n_k/n, over K", sides, SKEW),
        "free-n": ("free p, over n", free, SKEW),
        "free-K": ("free p, over K", free, SKEW),
        "one-n": ("K = 1, over n", sides, SKEW),
    }
    return populations.picture(
        settings,
        LAW,
        "A free p is learned as in eq. (1), on the simplex, where one client gets all of the weight. "
        + populations.ABOUT,
        "B is the smallest that Assumption 2 allows, d = 2, τ the largest weight, r* eq. (3)'s right side.",
    )
