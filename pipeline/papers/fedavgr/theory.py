"""The excess-risk bounds as measurements: A1, A2 and A3, the steps of the sketch, the corollaries.

Clients, models and learners are those of ``pipeline.reports.populations``. Skewed clients have sizes of a
power law, true weights 1/K, and estimated weights in proportion to sqrt(n_k), so that neither chi-squared nor
disc(rho~, rho) is 0. Other clients are alike and have the true weights.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from pipeline.reports import populations
from pipeline.reports.drawings import Inputs, Picture, drawing
from pipeline.reports.inequalities import Floats, Sides
from pipeline.reports.populations import DRAWS, RADIUS, ROWS, SKEW, Counts, Population, signs, spread

SCALED = 100
UNIT = f"the same, {SCALED} times the loss"
ORDER, UNEVEN, EVEN = "risk, G1 + G2 + G3", "risk, (κB√C + 1) Σ p_k/√n_k", "risk, κB√(KC/n)"
B_ROOT_C = RADIUS * np.sqrt(populations.CLASSES)


class Errors(NamedTuple):
    """The excess risk and its parts [draws], disc of the weights and of each client, steps of the sketch."""

    excess: Floats
    a1: Floats
    a2: Floats
    a3: Floats
    discrepancy: float
    discrepancies: Floats
    steps: Sides
    phi_by_model: Floats


def sides(pop: Population, n: int, even: bool = False, guess: bool = False) -> Sides:
    """Return both sides of each inequality for samples of n rows.

    ``even``: all clients have n/K of them, else in proportion to 1/k. ``guess``: the estimated weights are in
    proportion to sqrt(n_k), else the true ones, 1/K.
    """
    shares = np.ones(pop.clients) if even else 1 / np.arange(1, pop.clients + 1)
    sizes = np.round(n * shares / shares.sum()).astype(np.int64)
    total = int(sizes.sum())
    rng = np.random.default_rng([pop.seed, *sizes])
    p = np.full(pop.clients, 1 / pop.clients)
    estimated = np.sqrt(sizes) / np.sqrt(sizes).sum() if guess else p
    counts = pop.sample(sizes, rng)
    share = estimated / sizes
    errors = _decomposition(pop, counts, sizes, p, estimated)
    guessed, given, pooled = _complexities(pop, counts, share, p / sizes)
    phi, one_row = _deviation(pop, counts, share, errors.phi_by_model, rng)
    of_losses, of_models = _rademacher(pop, counts, share, rng)
    discrepancy, discrepancies = errors.discrepancy, errors.discrepancies
    largest, steep = pop.largest, np.sqrt(2) * pop.steepness
    factor = 4 * np.sqrt(2) * steep
    skewness = total * (np.square(estimated) / sizes).sum()
    log_term = np.log(2 / populations.DELTA) / 2
    uneven = np.sqrt(skewness * log_term / total)
    g1 = discrepancy + guessed + np.sqrt(skewness / total)
    g3 = p @ (discrepancies + 1 / np.sqrt(sizes)) + given
    corollary = (pop.kappa * B_ROOT_C + 1) * p @ (1 / np.sqrt(sizes))
    if even:
        corollary = pop.kappa * B_ROOT_C * np.sqrt(pop.clients / total)
    return {
        "risk = A1 + A2 + A3": (np.abs(errors.excess - errors.a1 - errors.a2 - errors.a3), 1e-12),
        "A1": (errors.a1, 2 * discrepancy + factor * guessed + 6 * largest * uneven),
        "A2": (errors.a2, p @ (discrepancies + 6 * largest * np.sqrt(log_term / sizes)) + factor * given),
        "A3": (errors.a3, factor * pooled + 3 * largest * np.sqrt(log_term / total)),
        **errors.steps,
        "one row moves Φ": one_row,
        "Φ": (phi, 2 * of_losses + 3 * largest * uneven),
        "R(L) ≤ √2λ R(H)": (of_losses, np.sqrt(2) * steep * of_models),
        "R(L) ≤ √(2λ) R(H)": (of_losses, np.sqrt(2 * steep) * of_models),
        UNIT: (SCALED * of_losses, np.sqrt(2 * SCALED * steep) * of_models),
        "R(H)": (of_models, guessed.mean()),
        "disc(ρ~, ρ) ≤ Σ p_k disc(ρ_k, ρ)": (discrepancy, estimated @ discrepancies),
        ORDER: (errors.excess, g1 + pooled + np.sqrt(1 / total) + g3),
        **({} if guess else {EVEN if even else UNEVEN: (errors.excess, corollary)}),
    }


def _decomposition(pop: Population, counts: Counts, sizes: Counts, p: Floats, estimated: Floats) -> Errors:
    risks, tilde, draws = pop.risks @ p, pop.risks @ estimated, np.arange(DRAWS)
    weights = spread(estimated / sizes)[:, None], spread(p / sizes)[:, None], 1 / int(sizes.sum())
    local, empirical, pooled = (pop.losses @ (counts * weight) for weight in weights)
    agnostic, learner, central = (losses.argmin(axis=0) for losses in (local, empirical, pooled))
    gaps, discrepancies = risks - tilde, np.abs(pop.risks - risks[:, None]).max(axis=0)
    discrepancy, gap_to_mixture = np.abs(gaps).max(), pop.risks[central] - risks[central, None]
    worst_client = (gap_to_mixture - discrepancies).argmax(axis=1)
    return Errors(
        excess=risks[agnostic] - risks.min(),
        a1=risks[agnostic] - risks[learner],
        a2=risks[learner] - risks[central],
        a3=risks[central] - risks.min(),
        discrepancy=discrepancy,
        discrepancies=discrepancies,
        steps={
            "A12 ≤ 0": (local[agnostic, draws], local[learner, draws]),
            "A1 - A1' ≤ 2 disc": (gaps[agnostic] - gaps[learner], 2 * discrepancy),
            "Σ p_k A22 ≤ 0": (empirical[learner, draws], empirical[central, draws]),
            "A24 ≤ disc": (gap_to_mixture[draws, worst_client], discrepancies[worst_client]),
        },
        phi_by_model=tilde[:, None] - local,
    )


def _complexities(pop: Population, counts: Counts, *shares: Floats) -> tuple[Floats, ...]:
    """Return bounds of R(H) [draws] by the weights of a client's row, and last that of pooled rows."""
    squares = np.square(pop.features).sum(axis=1)[:, None] * counts
    norms = np.sqrt(squares.reshape(pop.clients, ROWS, DRAWS).sum(axis=1))
    pooled = B_ROOT_C * np.sqrt(squares.sum(axis=0)) / int(counts[:, 0].sum())
    return (*(B_ROOT_C * share @ norms for share in shares), pooled)


def _deviation(
    pop: Population, counts: Counts, share: Floats, phi_by_model: Floats, rng: Generator
) -> tuple[Floats, tuple[Floats, Floats]]:
    """Return Phi [draws], and how far a row's exchange moves it, with the bound of that."""
    client, row_in = rng.integers(pop.clients, size=DRAWS), rng.integers(ROWS, size=DRAWS)
    row_out = counts.reshape(pop.clients, ROWS, DRAWS)[client, :, np.arange(DRAWS)].argmax(axis=1)
    loss_change = pop.losses[:, ROWS * client + row_in] - pop.losses[:, ROWS * client + row_out]
    phi, step = phi_by_model.max(axis=0), share[client]
    return phi, (np.abs((phi_by_model - step * loss_change).max(axis=0) - phi), step * pop.largest)


def _rademacher(pop: Population, counts: Counts, share: Floats, rng: Generator) -> tuple[float, float]:
    """Return the complexities R(L) of the losses and R(H) of the models."""
    signs_a, signs_b = (signs(counts, rng) * spread(share)[:, None] for _ in range(2))
    of_models = (pop.models @ (pop.features.T @ (signs_a - signs_b))).max(axis=0).mean() / np.sqrt(2)
    return (pop.losses @ signs_a).max(axis=0).mean(), of_models


@drawing(
    title="Both sides of the inequalities behind the excess-risk bound",
    published="The excess-risk bound (Section 3)",
)
def bounds(inputs: Inputs) -> Picture:
    """Measure and draw both sides over n and over K, with clients that are skewed and that are alike."""
    guess, even = partial(sides, guess=True), partial(sides, even=True)
    settings: dict[str, populations.Setting] = {
        "skewed-n": ("skewed clients, over n", guess, SKEW),
        "skewed-K": ("skewed clients, over K", guess, SKEW),
        "uneven-n": ("alike, of uneven size, over n", sides, 0.0),
        "even-n": ("alike, of even size, over n", even, 0.0),
        "even-K": ("alike, of even size, over K", even, 0.0),
        "one-n": ("K = 1, over n", even, 0.0),
    }
    return populations.picture(
        settings,
        (ORDER, UNEVEN, EVEN),
        "Skewed clients have n_k in proportion to 1/k, true weights 1/K, and estimated ones in proportion to "
        "√n_k; clients that are alike have the true weights. "
        f"{populations.ABOUT}",
        f"{SCALED} L is the same loss in another unit, with a λ {SCALED} times as large: √2λ grows as much, "
        f"√(2λ) {SCALED**0.5:g} times only.",
        labels={UNIT: f"R({SCALED} L) ≤ √(2 · {SCALED} λ) R(H)"},
    )
