"""The excess-risk bounds as measurements: A1, A2 and A3, the steps of the sketch, the corollaries.

Clients, models and learners are those of ``pipeline.reports.populations``. Skewed clients have sizes of a
power law, true weights 1/K, and estimated weights in proportion to sqrt(n_k), so that neither chi-squared nor
disc(rho~, rho) is 0. Other clients are alike and have the true weights.
"""

from functools import partial

import numpy as np

from pipeline.reports import inequalities, populations
from pipeline.reports.drawings import Inputs, Picture, drawing
from pipeline.reports.populations import CLASSES, DELTA, DRAWS, RADIUS, ROWS, SKEW, signs, spread

SCALED = 100
UNIT = f"the same, {SCALED} times the loss"
ORDER, UNEVEN, EVEN = "risk, G1 + G2 + G3", "risk, (κB√C + 1) Σ p_k/√n_k", "risk, κB√(KC/n)"


def sides(pop: populations.Population, n: int, even: bool = False, guess: bool = False) -> inequalities.Sides:
    """Return both sides of each inequality for samples of n rows.

    ``even``: all clients have n/K of them, else in proportion to 1/k. ``guess``: the estimated weights are in
    proportion to sqrt(n_k), else the true ones, 1/K.
    """
    shares = np.ones(pop.clients) if even else 1 / np.arange(1, pop.clients + 1)
    sizes = np.round(n * shares / shares.sum()).astype(np.int64)
    p = np.full(pop.clients, 1 / pop.clients)
    estimated = np.sqrt(sizes) / np.sqrt(sizes).sum() if guess else p
    rng, draws, n = np.random.default_rng([pop.seed, *sizes]), np.arange(DRAWS), int(sizes.sum())
    counts, largest, client_risks = pop.sample(sizes, rng), pop.largest, pop.risks
    risks, tilde = client_risks @ p, client_risks @ estimated
    share, true_share = (spread(weights / sizes)[:, None] for weights in (estimated, p))
    local, empirical, pooled = (pop.losses @ (counts * weight) for weight in (share, true_share, 1 / n))
    agnostic, learner, central = (losses.argmin(axis=0) for losses in (local, empirical, pooled))
    a1, a2, a3 = (
        risks[agnostic] - risks[learner],
        risks[learner] - risks[central],
        risks[central] - risks.min(),
    )
    excess, apart = risks[agnostic] - risks.min(), risks - tilde
    disc, discs = np.abs(apart).max(), np.abs(client_risks - risks[:, None]).max(axis=0)
    a24 = client_risks[central] - risks[central, None]
    worst = (a24 - discs).argmax(axis=1)

    squares = np.square(pop.features).sum(axis=1)[:, None] * counts
    norms = np.sqrt(squares.reshape(len(sizes), ROWS, DRAWS).sum(axis=1))
    unit = RADIUS * np.sqrt(CLASSES)  # B sqrt(C)
    guessed_bound, given_bound = unit * (estimated / sizes) @ norms, unit * (p / sizes) @ norms
    pooled_bound = unit * np.sqrt(squares.sum(axis=0)) / n
    skewness, steep = n * (np.square(estimated) / sizes).sum(), np.sqrt(2) * pop.steepness
    factor, chance = 4 * np.sqrt(2) * steep, np.log(2 / DELTA) / 2

    client, put = rng.integers(len(sizes), size=DRAWS), rng.integers(ROWS, size=DRAWS)
    taken = counts.reshape(len(sizes), ROWS, DRAWS)[client, :, draws].argmax(axis=1)
    moved = pop.losses[:, ROWS * client + put] - pop.losses[:, ROWS * client + taken]
    gaps, step = tilde[:, None] - local, (estimated / sizes)[client]
    gap = gaps.max(axis=0)

    first, second = signs(counts, rng) * share, signs(counts, rng) * share
    of_losses = (pop.losses @ first).max(axis=0).mean()
    of_models = (pop.models @ (pop.features.T @ (first - second))).max(axis=0).mean() / np.sqrt(2)
    g3 = p @ (discs + 1 / np.sqrt(sizes)) + given_bound
    corollary = (pop.kappa * unit + 1) * p @ (1 / np.sqrt(sizes))
    if even:
        corollary = pop.kappa * unit * np.sqrt(pop.clients / n)
    return {
        "risk = A1 + A2 + A3": (np.abs(excess - a1 - a2 - a3), 1e-12),
        "A1": (a1, 2 * disc + factor * guessed_bound + 6 * largest * np.sqrt(skewness * chance / n)),
        "A2": (a2, p @ (discs + 6 * largest * np.sqrt(chance / sizes)) + factor * given_bound),
        "A3": (a3, factor * pooled_bound + 3 * largest * np.sqrt(chance / n)),
        "A12 ≤ 0": (local[agnostic, draws], local[learner, draws]),
        "A1 - A1' ≤ 2 disc": (apart[agnostic] - apart[learner], 2 * disc),
        "Σ p_k A22 ≤ 0": (empirical[learner, draws], empirical[central, draws]),
        "A24 ≤ disc": (a24[draws, worst], discs[worst]),
        "one row moves Φ": (np.abs((gaps - step * moved).max(axis=0) - gap), step * largest),
        "Φ": (gap, 2 * of_losses + 3 * largest * np.sqrt(skewness * chance / n)),
        "R(L) ≤ √2λ R(H)": (of_losses, np.sqrt(2) * steep * of_models),
        "R(L) ≤ √(2λ) R(H)": (of_losses, np.sqrt(2 * steep) * of_models),
        UNIT: (SCALED * of_losses, np.sqrt(2 * SCALED * steep) * of_models),
        "R(H)": (of_models, guessed_bound.mean()),
        "disc(ρ~, ρ) ≤ Σ p_k disc(ρ_k, ρ)": (disc, estimated @ discs),
        ORDER: (excess, disc + guessed_bound + np.sqrt(skewness / n) + pooled_bound + np.sqrt(1 / n) + g3),
        **({} if guess else {EVEN if even else UNEVEN: (excess, corollary)}),
    }


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
