"""Theorem 1 as a measurement: eqs. (3) and (4), and the law sqrt(K)/n, on clients whose optima are known.

Mixture weights are n_k/n, or free on the simplex as in eq. (1). The loss is linear in p, so with free weights
the learner takes the one client, and the model, of the smallest empirical loss.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from pipeline.reports import inequalities, populations
from pipeline.reports.drawings import Inputs, Picture, drawing
from pipeline.reports.inequalities import Floats
from pipeline.reports.populations import DELTA, DRAWS, RADIUS, ROWS, SKEW, spread

SAMPLES, SIGNS = 4, 50  # of each population, samples whose complexity is estimated, and by how many signs
DIMENSION = 2  # the VC dimension of h(x) = w^T phi(x) with two features
LAW = ("risk, √K/n",)


def bernstein(risks: Floats, squares: Floats) -> float:
    """Return the smallest B of Assumption 2: squares of excess losses average to at most B times the risk."""
    above = risks - risks.min()
    return float((squares[above > 0] / above[above > 0]).max())


def sides(pop: populations.Population, n: int, free: bool = False) -> inequalities.Sides:
    """Return both sides of each inequality for n rows, dealt out evenly among the clients."""
    clients, risks = pop.clients, pop.risks
    rng = np.random.default_rng([pop.seed, clients, n, free])
    counts = pop.sample(np.full(clients, n // clients), rng)
    weights = np.full((clients, DRAWS), 1 / clients)
    best = np.unravel_index(risks.argmin(), risks.shape)[0] if free else risks.mean(axis=1).argmin()
    squares = replace(pop, losses=np.square(pop.losses - pop.losses[best])).risks
    if free:
        client_rows = [slice(k * ROWS, (k + 1) * ROWS) for k in range(clients)]
        empirical = np.concatenate([pop.losses[:, rows] @ counts[rows] for rows in client_rows])
        client, learner = np.divmod(empirical.argmin(axis=0), len(pop.losses))
        reached, weights = risks[learner, client], np.eye(clients)[:, client]
    else:
        risks, squares = risks.mean(axis=1), squares.mean(axis=1)
        reached = risks[(pop.losses @ counts).argmin(axis=0)]
    b, steep = bernstein(risks, squares), pop.steepness
    star = steep * weights.max() * np.sqrt(2 * DIMENSION * clients * np.log(np.e * n / DIMENSION)) / n
    signs = populations.signs(np.repeat(counts[:, :SAMPLES, None], SIGNS, axis=2), rng)
    shares = spread(weights[:, :SAMPLES, None]) * clients / n
    sums = np.tensordot(signs * shares, pop.features, (0, 0))
    radius = np.sqrt(2) * RADIUS
    complexity = radius * np.linalg.norm(sums, axis=2).mean(axis=1)
    mean, log_term = complexity.mean(), np.log(1 / DELTA) / n
    return {
        "eq. (3), all models": (steep * mean, star),
        "eq. (3), ‖w‖² = r*/(λκ)²": (mean * np.sqrt(star) / pop.kappa / radius, star),
        "self-bounding": (mean, complexity + np.sqrt(2 * mean * log_term)),
        "risk, eq. (4)": (reached - risks.min(), 705 / b * star + (11 * pop.largest + 27 * b) * log_term),
        LAW[0]: (reached - risks.min(), np.sqrt(clients) / n),
    }


@drawing(title="Both sides of the inequalities of Theorem 1", published="Theorem 1")
def theorem1(inputs: Inputs) -> Picture:
    """Measure and draw both sides over n and over K, with given and with free weights."""
    free = partial(sides, free=True)
    settings: dict[str, populations.Setting] = {
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
