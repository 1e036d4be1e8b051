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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.base.lazy import pd, scipy
from fedcore.base.registry import chosen
from fedcore.data import Source
from pipeline.catalogue.targets import PlannedRun
from pipeline.reports import inequalities, style
from pipeline.reports.drawings import Inputs, Picture, drawing, each
from pipeline.reports.inequalities import Sides, lines
from pipeline.reports.results import RunFacts

Floats = NDArray[np.float64]
COPIES = 4  # of each run's start, with other batches
CONSTANTS = "constants"
METHODS = ("fedavg", "rfedavg", "rfedavg_plus")
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


def rates(run: PlannedRun, steps: NDArray[np.int64]) -> Floats:
    """Return the local rate at gradient steps."""
    training = run.spec["training"]
    local_rates: Floats = training["lr"] / (1 + steps / training["lr_schedule"]["offset"])
    return local_rates


def follow(run: PlannedRun, starts: Floats) -> tuple[Floats, Sizes, Floats]:
    """Train three ways on the same batches: FedAvg on eq. (3), the run's method, and FedAvg anew each round.

    Args:
        run: the run whose data, rates and regulariser they have.
        starts: first models [copies, classes, d].

    Returns:
        The left sides of Lemma 2, with all and with delayed maps, and of Lemma 3, in a round and along the
        training [rounds, 4], each the largest over a round's steps and clients of means over copies; what the
        constants are made of; the method's models [rounds + 1, copies, classes, d].
    """
    training, rng, clients = run.spec["training"], np.random.default_rng(0), clients_of(run)
    rows = np.stack([x for x, _ in clients])
    hot = np.eye(starts.shape[1])[np.stack([y for _, y in clients])]
    count, means = len(clients), rows.mean(axis=1)
    batch, client_index = min(training["batch_size"], rows.shape[1]), np.arange(count)[:, None]
    others, pairs = (1 - np.eye(count)) / (count - 1), means[:, None] - means
    weight = float(run.spec["algorithm"].get("lambda", 0.0))
    heads, path, measured, tau = np.stack([starts] * 3), [starts], [], 0.0
    maps = np.einsum("rci,ni->rnc", starts, means)
    for step in range(training["rounds"] * training["local_steps"]):
        if step % training["local_steps"] == 0:
            heads[2] = heads[1]
            models = np.repeat(heads[:, :, None], count, axis=2)
            targets = np.einsum("kj,rjc->rkc", others, maps)
            apart = np.einsum("rci,kji->rkjc", heads[1], pairs)
            tau = max(tau, float(np.square(apart).sum(axis=-1).max()))
        picked = rng.random((len(starts), *rows.shape[:2])).argsort(axis=-1)[..., :batch]
        x, y = rows[client_index, picked], hot[client_index, picked]
        batch_means = x.mean(axis=2)
        errors = scipy.special.softmax(models @ np.swapaxes(x, 2, 3), axis=3) - np.swapaxes(y, 2, 3)
        gradient = errors @ x / batch + training["weight_decay"] * models
        away = batch_means[:, :, None] - means
        spread = np.einsum("rkji,rkjl,kj->rkil", away, away, others)
        gradient[::2] += 2 * weight * models[::2] @ spread
        pull = (models[1] @ batch_means[..., None])[..., 0] - targets
        gradient[1] += 2 * weight * pull[..., None] * batch_means[:, :, None]
        models = models - rates(run, np.array(step)) * gradient
        middle = models.mean(axis=2)
        moved = np.square(models[:2] - heads[:2, :, None]).sum(axis=(-1, -2)).mean(axis=1).max(axis=-1)
        gaps = np.square(middle[1] - middle[[2, 0]]).sum(axis=(-1, -2)).mean(axis=1)
        norms = np.square(gradient[:2]).sum(axis=(-1, -2)).mean(axis=1).max(axis=-1)
        measured.append([*moved, *gaps, *norms])
        if (step + 1) % training["local_steps"] == 0:
            heads, sent = middle, models[1]
            if run.spec["algorithm"]["name"] != "rfedavg":
                sent = np.repeat(middle[1][:, None], count, axis=1)
            maps = np.einsum("rnci,ni->rnc", sent, means)
            path.append(middle[1])
    maxima = np.array(measured).reshape(training["rounds"], -1, 6).max(axis=1)
    norms = maxima[:, 4:].max(axis=0)
    h = float(np.square(rows).sum(axis=-1).max())
    sizes = Sizes(training["local_steps"], count, weight, float(norms[0]), float(norms[1]), h, tau)
    return maxima[:, :4], sizes, np.stack(path)


def of_method(method: str, facts: Sequence[RunFacts]) -> tuple[list[dict[str, Any]], Sizes, str] | None:
    """Return the tidy lines of a method's runs, what constants are made of, and what the bounds need.

    They are of the runs that did not diverge; None if all of them did.
    """
    run, paths = facts[0].run, [path for of_run in facts if (path := path_of(of_run)) is not None]
    if not paths:
        return None
    rounds, models = paths[0][0], np.stack([path for _, path in paths], axis=1)
    mu, smooth, time = run.spec["training"]["weight_decay"], condition(run), time_of(run, rounds)
    smooth *= mu
    maxima, sizes, _ = follow(run, np.repeat(models[0], COPIES, axis=0))
    best = {name: objective.minimum() for name, objective in objectives(run).items()}
    errors = {
        name: np.array([[objective.value(w) for w in ws] for ws in models]) - objective.value(best[name])
        for name, objective in objectives(run).items()
    }
    distances = np.square(models - best["eq. (3)"]).sum(axis=(-1, -2))
    gamma = run.spec["training"]["lr_schedule"]["offset"]
    v = max(32 * (sizes.steps - 1) ** 2 * sizes.g / mu**2, (gamma + 1) * float(distances[0].mean()))
    later = sizes.later()["c3" if method == "rfedavg" else "c2"]
    v_prime = 2 * v + 8 * sizes.c1 / mu**2 + 32 * later / mu**4

    def at(place: int) -> Sides:
        rounds_done = int(rounds[place])
        rate = float(rates(run, np.array(rounds_done * sizes.steps)))
        moved, lemma = (sizes.steps * rate) ** 2, rate**2 * sizes.c1 + rate**4 * later
        drift, delayed, deviation, training = maxima[rounds_done]
        first = {"Lemma 2": (drift, moved * sizes.g)}
        if method == METHODS[0]:
            return first | {"Lemma 1": (distances[place], v / (time[place] + sizes.steps))}
        return first | {
            "Lemma 2, delayed": (delayed, moved * sizes.delayed),
            "Lemma 3, in a round": (deviation, lemma),
            "Lemma 3, along training": (training, lemma),
            "theorem": (errors["eq. (3)"][place], smooth / 2 * v_prime / time[place]),
        }

    late = np.flatnonzero(rounds >= 0.2 * rounds[-1])  # slopes leave the first fifth out
    laws = [[{row: (errors[name][place], 1 / time[place]) for name, row in LAWS.items()}] for place in late]
    tidy = [
        *lines(method, [*time[:-1]], [[at(place)] for place in range(len(rounds) - 1)]),
        *lines(method, [*time[late]], laws, [*LAWS.values()]),
    ]
    if method == METHODS[0]:
        return tidy, sizes, ""
    ends, left = errors["eq. (3)"][-1].mean(), maxima[-1, 3]
    enough = 2 / smooth * (errors["eq. (3)"].mean(axis=1) * time).max()
    return (
        tidy,
        sizes,
        f"{style.label(method)}: v' is {v_prime:.2g}, and {enough:.2g} would do; should left sides stay as "
        f"they end, the theorem fails after {smooth / 2 * v_prime / ends:.0e} steps, Lemma 3 along training "
        f"after {2 / mu * np.sqrt(sizes.c1 / left):.0e}.",
    )


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
    measured = (of_method(method, inputs.cells[method, "convex"]) for method in METHODS)
    results = [result for result in measured if result]
    if not results:
        raise DataError("theory: all runs diverged, so there is nothing to measure")
    run, sizes = inputs.cells[METHODS[-1], "convex"][0].run, results[-1][1]
    training = run.spec["training"]
    return inequalities.picture(
        pd.DataFrame(
            [line for tidy, _, _ in results for line in tidy] + [*lines(CONSTANTS, [1], [[constants(sizes)]])]
        ),
        {method: style.label(method) for method in METHODS} | {CONSTANTS: CONSTANTS},
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
        *(need for _, _, need in results),
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
        chances: NDArray[np.float64] = scipy.special.softmax(self.rows @ w.T, axis=1)
        return (chances - self.labels).T @ self.rows / len(self.rows) + 2 * w @ self.quadratic

    def minimum(self) -> NDArray[np.float64]:
        """Return W of the smallest value, by BFGS from W = 0.

        Raises:
            DataError: it does not converge.
        """
        shape = (self.labels.shape[1], self.rows.shape[1])
        minimiser: NDArray[np.float64] = scipy.optimize.minimize(
            lambda w: (self.value(w.reshape(shape)), self.gradient(w.reshape(shape)).ravel()),
            np.zeros(shape).ravel(),
            jac=True,
            options={"gtol": PRECISION},
        ).x.reshape(shape)
        if np.abs(self.gradient(minimiser)).max() > 100 * PRECISION:
            raise DataError("theory: BFGS found no minimum")
        return minimiser


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
    arrays = facts.arrays("path.npz")
    if arrays is None:
        return None
    models, data = arrays["model"], facts.run.spec["data"]
    classes, inputs = data["classes"], data["dimension"]
    weight = models[:, : classes * inputs].reshape(-1, classes, inputs)
    return arrays["round"], np.concatenate([weight, models[:, classes * inputs :, None]], axis=2)


def time_of(run: PlannedRun, rounds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return t + gamma - E after each of the rounds, t the gradient steps of a client."""
    training = run.spec["training"]
    time: NDArray[np.float64] = (rounds - 1) * training["local_steps"] + training["lr_schedule"]["offset"]
    return time
