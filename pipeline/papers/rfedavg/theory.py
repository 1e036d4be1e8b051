"""Lemmas 1 to 3 and Theorems 1 and 2 as inequalities, with constants that were measured.

The errors of Lemma 1 and of the theorems are those of runs. The lemmas on local steps
compare FedAvg on eq. (3), whose gradients know all maps, with the gradients of delayed maps on the same
batches: within a round from one model, as the proof has it, and along a training, as the theorems use it.
m, which the paper does not define, is N; H is the largest norm of a row, as phi = W x + b.

The problem: softmax regression whose features are its outputs, phi(w, x) = W x + b, on synthetic data of
clients that differ, with an L2 penalty mu/2 ||w||^2. All clients have equally many rows, so with their mean
rows (1 appended) a_k, their mean a, and N clients, eq. (3) is

    F(W) = cross-entropy + mu/2 ||W||^2 + lambda 2/(N-1) sum_k ||W (a_k - a)||^2.

A client's gradient takes the others' features as constants, which halves the regulariser's pull; and the mean
of a batch of features varies around the mean of all rows, which adds its variance. So local steps descend

    F'(W) = cross-entropy + mu/2 ||W||^2 + lambda (1/(N-1) sum_k ||W (a_k - a)||^2 + tr W S W^T),

S the mean over clients of the covariance of a batch's mean row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.base.lazy import pd, scipy
from fedcore.base.registry import chosen
from fedcore.data import Source
from pipeline.catalogue.targets import PlannedRun
from pipeline.reports import inequalities
from pipeline.reports.drawings import Inputs, Picture, drawing, each
from pipeline.reports.inequalities import Floats, Sides, lines
from pipeline.reports.results import RunFacts

COPIES = 4  # of each run's start, with other batches
CONSTANTS = "constants"
METHODS = ("fedavg", "rfedavg", "rfedavg_plus")
PLAIN, METHOD, RESTARTED = 0, 1, 2  # trainings: FedAvg on eq. (3), the run's method, FedAvg anew each round
LAWS = {"own": "error, own objective", "eq. (3)": "error, eq. (3)"}
CHANGES: tuple[tuple[str, Any], ...] = (
    ("dtype", "float64"),
    ("evaluation.every", 100),
    ("evaluation.train_every", 0),
    ("evaluation.observe.path.every", 10),
)


@dataclass(frozen=True)
class Sizes:
    """What the constants are made of: E, m, lambda, and G^2, G'^2, H^2 and tau^2."""

    steps: int
    m: int
    weight: float
    g: float
    delayed: float
    h: float
    tau: float

    @property
    def c1(self) -> float:
        """C1 of Lemma 3."""
        squared_sum: float = (self.g**0.5 + self.delayed**0.5) ** 2
        return 2 * self.steps**2 * squared_sum + 16 * self.g + 32 * self.m**2 * self.h * self.tau

    def later(self, printed: bool = True) -> Mapping[str, float]:
        """Return C2 and C3, as printed or as the last steps of the proofs come to."""
        scale, square = (self.m * self.steps * self.h) ** 2, self.weight**2
        total, four = self.g + self.delayed, 4 * self.g + self.delayed
        if printed:
            c3 = 64 * (four + 2 * square * (2 * self.g + 3 * self.delayed))
            return {"c2": scale * 16 * (2 * self.g + total), "c3": scale * c3}
        c2 = 4 * (4 * square * total + 8 * self.g)
        c3 = 4 * (80 * square * self.delayed + 16 * square * four + 32 * four)
        return {"c2": scale * c2, "c3": scale * c3}


def rate(run: PlannedRun, step: int) -> float:
    """Return the local rate at a gradient step."""
    training = run.spec["training"]
    return float(training["lr"] / (1 + step / training["lr_schedule"]["offset"]))


def follow(run: PlannedRun, starts: Floats) -> tuple[Mapping[str, Floats], Sizes, Floats]:
    """Train three ways on the same batches: FedAvg on eq. (3), the run's method, and FedAvg anew each round.

    Args:
        run: the run whose data, rates and regulariser they have.
        starts: first models [copies, classes, d].

    Returns:
        What ``_measure`` returns [rounds], the largest over a round's steps; what the constants are made of;
        the method's models [rounds + 1, copies, classes, d].
    """
    training, (rows, labels) = run.spec["training"], clients_of(run)
    steps, count, means = training["local_steps"], len(rows), rows.mean(axis=1)
    rng, hot = np.random.default_rng(0), np.eye(starts.shape[1])[labels]
    others = (1 - np.eye(count)) / (count - 1)
    heads, path, measured, tau = np.stack([starts] * 3), [starts], [], 0.0
    maps = np.einsum("rci,ni->rnc", starts, means)
    for done in range(training["rounds"]):
        heads[RESTARTED] = heads[METHOD]
        models = np.repeat(heads[:, :, None], count, axis=2)
        goals = np.einsum("kj,rjc->rkc", others, maps)
        apart = np.einsum("rci,kji->rkjc", heads[METHOD], means[:, None] - means)
        tau = max(tau, float(np.square(apart).sum(axis=-1).max()))
        for step in range(steps):
            gradients = _gradients(run, models, goals, others, rows, hot, rng)
            models = models - rate(run, done * steps + step) * gradients
            measured.append(_measure(models, heads, gradients))
        heads, sent = models.mean(axis=2), models[METHOD]
        if run.spec["algorithm"]["name"] != "rfedavg":
            sent = np.repeat(heads[METHOD][:, None], count, axis=1)
        maps = np.einsum("rnci,ni->rnc", sent, means)
        path.append(heads[METHOD])
    by_name = {name: np.array([step[name] for step in measured]) for name in measured[0]}
    maxima = {name: values.reshape(-1, steps).max(axis=1) for name, values in by_name.items()}
    h = float(np.square(rows).sum(axis=-1).max())
    g, delayed = float(maxima["g"].max()), float(maxima["g_delayed"].max())
    return maxima, Sizes(steps, count, weight_of(run), g, delayed, h, tau), np.stack(path)


def _gradients(
    run: PlannedRun, models: Floats, goals: Floats, others: Floats, rows: Floats, hot: Floats, rng: Generator
) -> Floats:
    """Return the gradients of models [trainings, copies, clients, classes, d] on batches that all share.

    ``others`` [N, N] takes means over the other clients; ``goals`` are those of their maps.
    """
    training, weight = run.spec["training"], weight_of(run)
    batch = min(training["batch_size"], rows.shape[1])
    client_index = np.arange(len(rows))[:, None]
    picked = rng.random((models.shape[1], *rows.shape[:2])).argsort(axis=-1)[..., :batch]
    x, y = rows[client_index, picked], hot[client_index, picked]
    batch_means = x.mean(axis=2)
    errors = scipy.special.softmax(models @ x.mT, axis=3) - y.mT
    gradients: Floats = errors @ x / batch + training["weight_decay"] * models
    deviations = batch_means[:, :, None] - rows.mean(axis=1)
    spread = np.einsum("rkji,rkjl,kj->rkil", deviations, deviations, others)
    for index in (PLAIN, RESTARTED):
        gradients[index] += 2 * weight * models[index] @ spread
    pull = (models[METHOD] @ batch_means[..., None])[..., 0] - goals
    gradients[METHOD] += 2 * weight * pull[..., None] * batch_means[:, :, None]
    return gradients


def _measure(models: Floats, heads: Floats, gradients: Floats) -> dict[str, float]:
    """Return Lemma 2's left sides, with all and delayed maps, and Lemma 3's, in a round and along training.

    Then gradients' squared norms, with all and with delayed maps. Means over copies, of clients the largest.
    """

    def size(matrices: Floats) -> Floats:
        norms: Floats = np.square(matrices).sum(axis=(-1, -2)).mean(axis=0)
        return norms

    middle, moved = models.mean(axis=2), models - heads[:, :, None]
    return {
        "drift": size(moved[PLAIN]).max(),
        "delayed": size(moved[METHOD]).max(),
        "deviation": size(middle[METHOD] - middle[RESTARTED]),
        "along": size(middle[METHOD] - middle[PLAIN]),
        "g": size(gradients[PLAIN]).max(),
        "g_delayed": size(gradients[METHOD]).max(),
    }


def of_method(
    method: str, facts: Sequence[RunFacts], label: str
) -> tuple[list[dict[str, Any]], Sizes, str] | None:
    """Return the tidy lines of a method's runs, what constants are made of, and what the bounds need.

    Runs that diverged are left out; None if all of them did.
    """
    run, paths = facts[0].run, [path for of_run in facts if (path := path_of(of_run)) is not None]
    if not paths:
        return None
    rounds, models = paths[0][0], np.stack([path for _, path in paths], axis=1)
    mu, time = run.spec["training"]["weight_decay"], time_of(run, rounds)
    smooth = condition(run) * mu
    maxima, sizes, _ = follow(run, np.repeat(models[0], COPIES, axis=0))
    targets = objectives(run)
    best = {name: target.minimum() for name, target in targets.items()}
    errors = {
        name: np.array([[target.value(w) for w in ws] for ws in models]) - target.value(best[name])
        for name, target in targets.items()
    }
    distances = np.square(models - best["eq. (3)"]).sum(axis=(-1, -2))  # [rounds, runs]
    gamma = run.spec["training"]["lr_schedule"]["offset"]
    v = max(32 * (sizes.steps - 1) ** 2 * sizes.g / mu**2, (gamma + 1) * float(distances[0].mean()))
    later = sizes.later()["c3" if method == "rfedavg" else "c2"]
    v_prime = 2 * v + 8 * sizes.c1 / mu**2 + 32 * later / mu**4

    def at(index: int) -> Sides:
        done = int(rounds[index])
        eta = rate(run, done * sizes.steps)
        moved, lemma = (sizes.steps * eta) ** 2, eta**2 * sizes.c1 + eta**4 * later
        first = {"Lemma 2": (maxima["drift"][done], moved * sizes.g)}
        if method == METHODS[0]:
            return first | {"Lemma 1": (distances[index], v / (time[index] + sizes.steps))}
        return first | {
            "Lemma 2, delayed": (maxima["delayed"][done], moved * sizes.delayed),
            "Lemma 3, in a round": (maxima["deviation"][done], lemma),
            "Lemma 3, along training": (maxima["along"][done], lemma),
            "theorem": (errors["eq. (3)"][index], smooth / 2 * v_prime / time[index]),
        }

    late = np.flatnonzero(rounds >= 0.2 * rounds[-1])  # slopes leave the first fifth out
    laws = [[{row: (errors[name][index], 1 / time[index]) for name, row in LAWS.items()}] for index in late]
    tidy = [
        *lines(method, [*time[:-1]], [[at(index)] for index in range(len(rounds) - 1)]),
        *lines(method, [*time[late]], laws, [*LAWS.values()]),
    ]
    if method == METHODS[0]:
        return tidy, sizes, ""
    enough = 2 / smooth * (errors["eq. (3)"].mean(axis=1) * time).max()
    failing = smooth / 2 * v_prime / errors["eq. (3)"][-1].mean()
    remark = (
        f"{label}: v' is {v_prime:.2g}, and {enough:.2g} would do; should left sides stay as "
        f"they end, the theorem fails after {failing:.0e} steps, Lemma 3 along training "
        f"after {2 / mu * np.sqrt(sizes.c1 / maxima['along'][-1]):.0e}."
    )
    return tidy, sizes, remark


def constants(sizes: Sizes) -> Sides:
    """Return what is said of the constants: C2 <= C3, and that both are at least what the proofs come to."""
    printed, derived = sizes.later(), sizes.later(printed=False)
    proofs = {f"{key.upper()} of the proof ≤ printed": (derived[key], printed[key]) for key in printed}
    return {"C2 ≤ C3": (printed["c2"], printed["c3"]), **proofs}


@drawing(
    title="Both sides of the lemmas and theorems on a strongly convex problem",
    published="Lemmas 1 to 3, Theorems 1 and 2",
    queries=each(METHODS, {"convex": ("theory", "convex", "natural")}, *CHANGES),
)
def theory(inputs: Inputs) -> Picture:
    """Measure and draw both sides over t + gamma - E."""
    labels = {method: look.label for method, look in inputs.looks(METHODS).items()}
    measured = (of_method(method, inputs.cells[method, "convex"], labels[method]) for method in METHODS)
    results = [*filter(None, measured)]
    if not results:
        raise DataError("theory: all runs diverged, so there is nothing to measure")
    tidy, (*_, sizes), remarks = zip(*results, strict=True)
    run = inputs.cells[METHODS[-1], "convex"][0].run
    training = run.spec["training"]
    return inequalities.picture(
        pd.DataFrame([*chain(*tidy), *lines(CONSTANTS, [1], [[constants(sizes)]])]),
        labels | {CONSTANTS: CONSTANTS},
        "Softmax regression whose features are its outputs, with an L2 penalty "
        f"(μ = {training['weight_decay']:g}), λ = {sizes.weight:g}, {sizes.m} clients, E = {sizes.steps}, "
        f"batches of {training['batch_size']}, η = 2/(μ(γ + t)), γ = {training['lr_schedule']['offset']:g} "
        f"(8κ is at most {8 * condition(run):.1f}). Places: t + γ - E.",
        "Own objective: what local steps descend in the mean, half of eq. (3)'s regulariser, as others' "
        "features are constants in a client's gradient, and the variance of a batch's mean feature. Laws: "
        "1/T, without the first fifth of the rounds.",
        f"Lemma 1, laws and theorems: runs; Lemmas 2 and 3: {COPIES} trainings from each start. m = N; "
        f"G² = {sizes.g:.3g}, G'² = {sizes.delayed:.3g}, H² = {sizes.h:.3g} and τ² = {sizes.tau:.3g} are the "
        "largest that occurred. B of Lemma 1 is 8(E - 1)²G², without its variance and heterogeneity, so v is "
        "too small rather than too large.",
        *remarks,
    )


PRECISION = 1e-9


@dataclass(frozen=True)
class Objective:
    """Cross-entropy of softmax regression plus tr W Q W^T, over W [classes, d].

    Attributes:
        rows: inputs with 1 appended [n, d].
        labels: their one-hot labels [n, classes].
        quadratic: Q [d, d], symmetric and positive definite.
    """

    rows: Floats
    labels: Floats
    quadratic: Floats

    def value(self, w: Floats) -> float:
        """Return F(W)."""
        scores = self.rows @ w.T
        losses = scipy.special.logsumexp(scores, axis=1) - (scores * self.labels).sum(axis=1)
        return float(losses.mean() + np.sum((w @ self.quadratic) * w))

    def gradient(self, w: Floats) -> Floats:
        """Return the gradient [classes, d]."""
        chances: Floats = scipy.special.softmax(self.rows @ w.T, axis=1)
        return (chances - self.labels).T @ self.rows / len(self.rows) + 2 * w @ self.quadratic

    def minimum(self) -> Floats:
        """Return W of the smallest value, by BFGS from W = 0, or raise DataError if it doesn't converge."""
        shape = (self.labels.shape[1], self.rows.shape[1])
        minimiser: Floats = scipy.optimize.minimize(
            lambda w: (self.value(w.reshape(shape)), self.gradient(w.reshape(shape)).ravel()),
            np.zeros(shape).ravel(),
            jac=True,
            options={"gtol": PRECISION},
        ).x.reshape(shape)
        if np.abs(self.gradient(minimiser)).max() > 100 * PRECISION:
            raise DataError("theory: BFGS found no minimum")
        return minimiser


def clients_of(run: PlannedRun) -> tuple[Floats, NDArray[np.int64]]:
    """Return the clients' rows with 1 appended [N, n, d] and labels [N, n], generated as for the run."""
    train = chosen("data", run.spec["data"]).build(Source()).train
    rows = np.c_[train.x.astype(np.float64), np.ones(len(train.y))]
    held = np.stack([np.flatnonzero(train.groups == k) for k in np.unique(train.groups)])
    return rows[held], train.y[held]


def weight_of(run: PlannedRun) -> float:
    """Return lambda, 0 of a method without."""
    return float(run.spec["algorithm"].get("lambda", 0.0))


def objectives(run: PlannedRun) -> dict[str, Objective]:
    """Return the objective that the run's local steps descend, and eq. (3)."""
    (rows, labels), training, weight = clients_of(run), run.spec["training"], weight_of(run)
    count, n, width = rows.shape
    means, batch = rows.mean(axis=1), training["batch_size"]
    apart = (means - means.mean(axis=0)).T @ (means - means.mean(axis=0)) / (count - 1)
    noise = sum(np.cov(x.T) / batch * (1 - batch / n) for x in rows) / count
    penalty = training["weight_decay"] / 2 * np.eye(width)
    pooled = rows.reshape(-1, width), np.eye(run.spec["data"]["classes"])[labels.ravel()]
    return {
        "own": Objective(*pooled, penalty + weight * (apart + noise)),
        "eq. (3)": Objective(*pooled, penalty + weight * 2 * apart),
    }


def condition(run: PlannedRun) -> float:
    """Return a bound of kappa = L/mu over the clients' objectives; softmax has a curvature of at most 1/2."""
    mu = float(run.spec["training"]["weight_decay"])
    largest = max(float(np.linalg.eigvalsh(x.T @ x / len(x))[-1]) for x in clients_of(run)[0])
    return (largest / 2 + mu + 2 * weight_of(run) * largest) / mu


def path_of(facts: RunFacts) -> tuple[NDArray[np.int64], Floats] | None:
    """Return the rounds [r] and the models W [r, classes, d] of a run; None if it diverged."""
    arrays = facts.arrays("path.npz")
    if arrays is None:
        return None
    models, data = arrays["model"], facts.run.spec["data"]
    classes, inputs = data["classes"], data["dimension"]
    weight = models[:, : classes * inputs].reshape(-1, classes, inputs)
    return arrays["round"], np.concatenate([weight, models[:, classes * inputs :, None]], axis=2)


def time_of(run: PlannedRun, rounds: NDArray[np.int64]) -> Floats:
    """Return t + gamma - E after each of the rounds, t the gradient steps of a client."""
    training = run.spec["training"]
    time: Floats = (rounds - 1) * training["local_steps"] + training["lr_schedule"]["offset"]
    return time
