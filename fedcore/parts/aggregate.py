"""Aggregation: how uploads become one change of the server's model."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import mul
from typing import Literal

import numpy as np

from fedcore.base import sum_in_order
from fedcore.base.errors import SpecError
from fedcore.base.lazy import Tensor, functional, torch
from fedcore.base.options import FLOAT
from fedcore.engines import Upload
from fedcore.engines.forward import CHUNK, features, mean_loss
from fedcore.engines.problem import Block, Problem
from fedcore.engines.train import Size, batches, steps_per_pass
from fedcore.parts import Aggregation, Run, State, Work
from fedcore.parts.steps import coefficient_sum

Weights = Literal["nk", "uniform"]
Effective = Literal["norm", "steps", "one"]
StalenessDecay = Literal["constant", "polynomial", "hinge"]


def weighted_sum(vectors: Iterable[Tensor], weights: Sequence[float]) -> Tensor:
    """Return sum_k weights_k vectors_k [d], added in the order given."""
    total: Tensor | None = None
    for vector, weight in zip(vectors, weights, strict=True):
        if abs(weight) > FLOAT:  # torch refuses a scalar that float32 can't hold
            weight = math.copysign(math.inf, weight)
        total = vector * weight if total is None else total.add_(vector, alpha=weight)
    if total is None:
        raise ValueError("a sum over no clients")
    return total


def sample_weights(uploads: list[Upload]) -> list[float]:
    """Return p_k = n_k / n over the clients that uploaded [K]."""
    total = sum(upload.samples for upload in uploads)
    return [upload.samples / total for upload in uploads]


def changes(model: Tensor, uploads: list[Upload]) -> Iterator[Tensor]:
    """Yield each upload's distance from ``model`` [d], one after another in the same memory."""
    change = torch.empty_like(model)
    for upload in uploads:
        yield torch.sub(upload.model, model, out=change)


@dataclass(frozen=True)
class WeightedMean(Aggregation):
    """sum_k p_k Delta_k with p_k from the sample counts of the round's clients. FedAvg."""

    label: str = "averaging"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        return weighted_sum(changes(model, uploads), sample_weights(uploads))


@dataclass(frozen=True)
class PlainMean(Aggregation):
    """The mean of the changes, every client alike."""

    label: str = "plain averaging"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        return weighted_sum(changes(model, uploads), [1 / len(uploads)] * len(uploads))


def averaging(weights: Weights) -> Aggregation:
    """Return averaging by sample counts (``nk``) or with every client alike (``uniform``)."""
    return WeightedMean() if weights == "nk" else PlainMean()


@dataclass(frozen=True)
class Fair(Aggregation):
    """w <- w - sum_k F_k^q D_k / sum_k h_k with D_k = L (w - w_k), h_k = q F_k^(q-1) ||D_k||^2 + L F_k^q, and
    F_k the client's mean loss on all its data at w.

    The sums are plain (``weights="uniform"``) or weighted by p_k (``"nk"``). L is ``lipschitz``, or 1/eta.
    With ``scaled`` h_k takes the norm of F_k^q D_k, as rFedAvg's released code does. The first term of h_k is
    zero where F_k is: a client without loss has no gradient. Where every h_k is zero, w stays. F_k computes
    in the run's ``precision``. Li et al., q-FFL, Algorithm 2.
    """

    q: float
    weights: Weights = "uniform"
    lipschitz: float | None = None
    scaled: bool = False
    label: str = "exponentially averaging"
    costs = Work(rows=1)  # the mean loss on each client's rows

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        shares = sample_weights(uploads) if self.weights == "nk" else [1.0] * len(uploads)
        h, steps, weights = 0.0, list[Tensor](), list[float]()
        for upload, share in zip(uploads, shares, strict=True):
            loss = mean_loss(run.problem, model, run.problem.clients[upload.client], run.spec.precision)
            power = _power(loss, self.q)
            lipschitz = self.lipschitz or 1 / upload.lr
            step = (upload.model - model) * lipschitz
            length = float(step.double().norm()) * (power if self.scaled else 1.0)
            curvature = self.q * _power(loss, self.q - 1) * _power(length, 2) if self.q and loss else 0.0
            h += share * (curvature + lipschitz * power)
            steps.append(step)
            weights.append(share * power)
        return weighted_sum(steps, [weight / h for weight in weights]) if h else torch.zeros_like(model)


def _power(base: float, exponent: float) -> float:
    """Return the power, infinite where no float is large enough: the run then counts as diverged."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class NormalisedMean(Aggregation):
    """tau_eff sum_k p_k Delta_k / ||a_k||_1, with p_k from the sample counts of the round's clients.

    a_k says how the client's optimizer accumulates its gradients (``steps.coefficients``); ``mu`` is the
    weight of the clients' proximal term. tau_eff = sum_k p_k ||a_k||_1, with ``tau_eff="steps"``
    sum_k p_k tau_k, with ``"one"`` 1, so that the normalised changes are not scaled again. Wang et al.
    (FedNova).
    """

    mu: float = 0.0
    tau_eff: Effective = "norm"
    label: str = "normalized averaging"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        p = sample_weights(uploads)
        sums = [coefficient_sum(run, state, upload.client, self.mu) for upload in uploads]
        lengths: Mapping[Effective, Sequence[float]] = {
            "norm": sums,
            "steps": [upload.steps for upload in uploads],
            "one": [1.0] * len(uploads),
        }
        effective = sum_in_order(map(mul, p, lengths[self.tau_eff]))
        weights = [effective * weight / length for weight, length in zip(p, sums, strict=True)]
        return weighted_sum(changes(model, uploads), weights)


@dataclass(frozen=True)
class StaleMixing(Aggregation):
    """w <- (1 - a_s) w + a_s w_k with a_s = alpha s(d), d the update's staleness.

    s is given by ``decay``, ``a`` and ``b`` (``staleness_weight``); ``fresh`` is the staleness of an update
    trained on the newest version. FedAsync, Algorithm 1.
    """

    alpha: float
    decay: StalenessDecay
    a: float
    b: float
    fresh: int = 0
    label: str = "mixing by staleness"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Return a_s (w_k - w) [d]."""
        weight = staleness_weight(self.decay, state.values["staleness"] + self.fresh, self.a, self.b)
        (upload,) = uploads
        return (upload.model - model) * (self.alpha * weight)


def staleness_weight(decay: StalenessDecay, staleness: int, a: float, b: float) -> float:
    """Return FedAsync's s(d): 1, (d + 1)^-a, or 1 up to d = b and 1 / (a (d - b) + 1) beyond."""
    if decay == "polynomial":
        return float((staleness + 1) ** -a)
    if decay == "hinge" and staleness > b:
        return 1 / (a * (staleness - b) + 1)
    return 1.0


@dataclass(frozen=True)
class DriftCorrectedMean(Aggregation):
    """sum_k p_k (w_k + h_k) over the cohort, h_k the drift after the round. Gao et al. (FedDC), Algorithm 1.

    A client sends the sum w_k + h_k, which is as large as a model. The authors' code adds the mean drift of
    all clients to the plain mean of the cohort's models: the same if all take part with equal weights.
    """

    label: str = "averaging of drift-corrected models"
    family = "averaging"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        corrected = (upload.model + upload.extras["drift"] - model for upload in uploads)
        return weighted_sum(corrected, sample_weights(uploads))


@dataclass(frozen=True)
class LearnedMixture(Aggregation):
    """w <- sum_k p_k w_k with p from gradient steps on the validation loss of sum_k p_k h_k(x).

    Class scores are mixed, not probabilities. p is unconstrained in size, sign and sum, or with ``simplex``
    projected onto the probability simplex after each step. It starts at n_k/n and continues from round to
    round (from n_k/n again with ``reset``). Where only some clients take part, p_k counts relative to the
    cohort's share of the data. DL-opt, Algorithm 1; FedOMW, Algorithm 2.

    A round takes ``steps``, of which 0 keep p unchanged, or ``epochs`` over the validation rows, in batches
    of ``batch`` rows. ``momentum`` is that of a heavy ball, whose velocity may last over rounds.
    """

    lr: float
    steps: int | None = 100
    epochs: int | None = None
    batch: Size = "full"
    momentum: float = 0.0
    keep_velocity: bool = False
    reset: bool = False
    simplex: bool = False
    label: str = "learned mixture"

    def work(self, validation: float) -> Work:
        """Scores of each model on the validation rows, and steps on p."""
        if not self._learns:
            return Work()
        steps = self._steps(validation)
        batch = validation if self.batch == "full" else min(self.batch, validation)
        return Work(validation=1, server=steps, mixed=steps * batch)

    def start(self, run: Run, state: State) -> None:
        """Set p to n_k/n; refuse to learn it without validation rows, or of models without class scores."""
        name = run.spec.algorithm.name
        if self._learns and run.problem.validation is None:
            raise SpecError(
                f"partition.validation: '{name}' learns its mixture on the server's validation rows, and "
                "there are none; expected a fraction such as 0.2, data that bring their own, or steps_p: 0"
            )
        if self._learns and not run.problem.model.classifies:
            raise SpecError(
                f"model.name: '{name}' mixes class scores, which model '{run.spec.model.name}' does not have"
            )
        state.server["mixture"] = client_shares(run, state)
        state.server["mixture_velocity"] = state.model.new_zeros(len(run.problem.clients))

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Learn p, keep it, and return sum_k p_k w_k - w [d]."""
        clients = torch.tensor([upload.client for upload in uploads], device=model.device)
        share = sum(upload.samples for upload in uploads) / sum(run.problem.sizes)
        mixture = client_shares(run, state) if self.reset else state.server["mixture"].clone()
        p = mixture[clients] / share
        if self._learns:
            velocity = state.server["mixture_velocity"].clone()
            moving = velocity[clients] if self.keep_velocity else torch.zeros_like(p)
            validation = run.problem.validation
            assert validation is not None
            scores = client_scores(run.problem, [upload.model for upload in uploads], validation.x)
            rng = run.streams.get("mixture batches", state.round)
            path = self._learn(scores, validation.y, p, moving, rng)
            state.server["mixture_path"] = mixture.repeat(len(path), 1)
            state.server["mixture_path"][:, clients] = path * share
            velocity[clients], mixture[clients] = moving, p * share
            state.server |= {"mixture_velocity": velocity, "mixture": mixture}
        return weighted_sum((upload.model for upload in uploads), p.tolist()) - model

    def columns(self, state: State) -> dict[str, float]:
        p = state.server["mixture"].double()
        return {"mixture_sum": float(p.sum()), "mixture_min": float(p.min()), "mixture_max": float(p.max())}

    def tables(self, state: State) -> dict[str, list[dict[str, float]]]:
        """Return the last round's path of p: a row before the first and after each pass over the rows."""
        if (path := state.server.get("mixture_path")) is None:
            return {}
        rows = [{f"p_{client}": p for client, p in enumerate(point)} for point in path.tolist()]
        return {"mixture": [{"pass": number, **row} for number, row in enumerate(rows)]}

    @property
    def _learns(self) -> bool:
        return bool(self.steps if self.epochs is None else self.epochs)

    def _steps(self, rows: float) -> int:
        if self.epochs is None:
            return self.steps or 0
        return self.epochs * (1 if self.batch == "full" else math.ceil(rows / self.batch))

    def _learn(self, scores: Tensor, y: Tensor, p: Tensor, v: Tensor, rng: np.random.Generator) -> Tensor:
        """Move ``p`` [K] and its velocity ``v`` [K] in place along the gradient of the mixture's mean loss.

        With z = scores p, softmax q and one-hot labels e, the gradient is scores^T (q - e) / rows.

        Returns:
            p before the first and after each pass over the rows [passes + 1, K].
        """
        n, classes, _ = scores.shape
        steps = self._steps(n)
        pass_steps = steps_per_pass(n, self.batch, drop_last=False)
        rows = Block(scores, functional.one_hot(y, classes).to(scores))
        drawn = islice(batches(rows, self.batch, False, rng), steps)
        path = [p.clone()]
        for _ in range(0, steps, pass_steps):
            for batch, e in islice(drawn, pass_steps):
                flat = batch.view(-1, len(p))
                excess = torch.softmax(torch.mv(flat, p).view(-1, classes), dim=1).sub_(e).view(-1)
                v.addmv_(flat.t(), excess, beta=self.momentum, alpha=1 / len(e))
                p.add_(v, alpha=-self.lr)
                if self.simplex:
                    p.copy_(project_simplex(p))
            path.append(p.clone())
        return torch.stack(path)


def client_scores(problem: Problem, models: list[Tensor], x: Tensor) -> Tensor:
    """Return every model's class scores h_k(x) [rows, classes, K]; fixed features are computed once."""
    model = problem.model
    fixed = all(name in {model.head, "bias"} for name in model.trainable.shapes)
    phi = features(problem, models[0], x) if fixed else None
    scores = []
    with torch.no_grad():
        for w in models:
            p = problem.parameters(w)
            pieces = [phi] if phi is not None else (model.features(p, rows) for rows in x.split(CHUNK))
            scores.append(torch.cat([model.scores(p, piece) for piece in pieces]))
    return torch.stack(scores, dim=-1)


def project_simplex(v: Tensor) -> Tensor:
    """Return the point of the probability simplex nearest to ``v`` [K]."""
    ordered = v.sort(descending=True).values
    excess = ordered.cumsum(dim=0) - 1
    ranks = torch.arange(1, len(v) + 1, device=v.device)
    rank = int((ordered * ranks > excess).sum().clamp(min=1))
    return (v - excess[rank - 1] / rank).clamp(min=0)


def client_shares(run: Run, state: State) -> Tensor:
    """Return n_k / n of all clients [K]."""
    total = sum(run.problem.sizes)
    return state.model.new_tensor([size / total for size in run.problem.sizes])
