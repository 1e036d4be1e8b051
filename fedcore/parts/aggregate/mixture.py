"""Mixture weights learned on the server's validation rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcore.base.errors import SpecError
from fedcore.base.lazy import Tensor, torch
from fedcore.engines.forward import CHUNK, features
from fedcore.engines.problem import Problem
from fedcore.models import Classifier
from fedcore.parts import Aggregation, Run, State, Upload
from fedcore.parts.aggregate.mean import weighted_sum


@dataclass(frozen=True)
class LearnedMixture(Aggregation):
    """w <- sum_k p_k w_k with p from gradient steps on the validation loss of sum_k p_k h_k(x).

    Class scores are mixed, not probabilities; p is unconstrained in size, sign and sum, starts at n_k/n and
    continues from round to round (from n_k/n again with ``reset``). Where only some clients take part, p_k
    counts relative to the cohort's share of the data. DL-opt, Algorithm 1; FedOMW, Algorithm 2.

    Attributes:
        lr: step size eta_p.
        steps: gradient steps a round; 0 leaves p as it is.
        epochs: passes over the validation rows instead of ``steps``.
        batch: rows a step, or all of them.
        momentum: of the heavy ball; ``keep_velocity`` carries its velocity over to the next round.
        simplex: project p onto the probability simplex after every step.
    """

    lr: float
    steps: int | None = 100
    epochs: int | None = None
    batch: int | Literal["full"] = "full"
    momentum: float = 0.0
    keep_velocity: bool = False
    reset: bool = False
    simplex: bool = False
    label: str = "learned mixture"

    def start(self, run: Run, state: State) -> None:
        """Set p to n_k/n.

        Raises:
            SpecError: p is to be learned, but there are no validation rows or no class scores.
        """
        if self._learns:
            _check(run)
        state.server["mixture"] = _shares(run, state)
        state.server["mixture_velocity"] = state.model.new_zeros(len(run.problem.clients))

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Learn p, keep it, and return sum_k p_k w_k - w [d]."""
        clients = torch.tensor([upload.client for upload in uploads], device=model.device)
        share = sum(upload.samples for upload in uploads) / sum(run.problem.sizes)
        kept = _shares(run, state) if self.reset else state.server["mixture"].clone()
        p = kept[clients] / share
        if self._learns:
            velocity = state.server["mixture_velocity"].clone()
            moving = velocity[clients] if self.keep_velocity else torch.zeros_like(p)
            validation = run.problem.validation
            assert validation is not None
            scores = client_scores(run.problem, [upload.model for upload in uploads], validation.x)
            rng = run.streams.get("mixture batches", state.round)
            path = self._learn(scores, validation.y, p, moving, rng)
            state.server["mixture_path"] = kept.repeat(len(path), 1)
            state.server["mixture_path"][:, clients] = path * share
            velocity[clients], kept[clients] = moving, p * share
            state.server |= {"mixture_velocity": velocity, "mixture": kept}
        return weighted_sum((upload.model for upload in uploads), p.tolist()) - model

    def columns(self, state: State) -> dict[str, float]:
        """Report the sum and the extremes of p."""
        p = state.server["mixture"].double()
        return {
            "mixture_sum": float(p.sum()),
            "mixture_min": float(p.min()),
            "mixture_max": float(p.max()),
        }

    def tables(self, state: State) -> dict[str, list[dict[str, float]]]:
        """Return the last round's path of p, a row a pass over the validation rows."""
        path = state.server.get("mixture_path")
        if path is None:
            return {}
        rows = [{f"p_{client}": p for client, p in enumerate(point)} for point in path.tolist()]
        return {"mixture": [{"pass": number, **row} for number, row in enumerate(rows)]}

    @property
    def _learns(self) -> bool:
        return bool(self.steps if self.epochs is None else self.epochs)

    def _learn(
        self, scores: Tensor, y: Tensor, p: Tensor, velocity: Tensor, rng: np.random.Generator
    ) -> Tensor:
        """Move ``p`` [K] and ``velocity`` [K] in place along the gradient of the mixture's mean loss.

        With z = scores p, softmax q and one-hot labels e, the gradient is scores^T (q - e) / rows.

        Returns:
            p before the first and after each pass over the rows [passes + 1, K].
        """
        n, classes, _ = scores.shape
        size = n if self.batch == "full" else min(self.batch, n)
        left = -(-n // size) * self.epochs if self.epochs is not None else self.steps or 0
        hot = torch.nn.functional.one_hot(y, classes).to(scores)
        path = [p.clone()]
        while left > 0:
            order = None if size == n else torch.from_numpy(rng.permutation(n)).to(y.device)
            batches = (None,) if order is None else order.split(size)[:left]
            labels = (hot,) if order is None else hot[order].split(size)[:left]
            for rows, e in zip(batches, labels, strict=True):
                flat = (scores if rows is None else scores.index_select(0, rows)).view(-1, len(p))
                excess = torch.softmax(torch.mv(flat, p).view(-1, classes), dim=1).sub_(e).view(-1)
                velocity.addmv_(flat.t(), excess, beta=self.momentum, alpha=1 / len(e))
                p.add_(velocity, alpha=-self.lr)
                if self.simplex:
                    p.copy_(project_simplex(p))
            left -= len(labels)
            path.append(p.clone())
        return torch.stack(path)


def client_scores(problem: Problem, models: list[Tensor], x: Tensor) -> Tensor:
    """Return every model's class scores h_k(x) [rows, classes, K]; fixed features are computed once."""
    model = problem.model
    fixed = all(name in {model.head, "bias"} for name in model.trainable.shapes)
    phi = features(problem, models[0], x) if fixed else None
    found = []
    with torch.no_grad():
        for w in models:
            p = {**model.trainable.views(w), **problem.buffers}
            if phi is not None:
                found.append(model.scores(p, phi))
            else:
                found.append(torch.cat([model.scores(p, model.features(p, part)) for part in x.split(CHUNK)]))
    return torch.stack(found, dim=-1)


def project_simplex(v: Tensor) -> Tensor:
    """Return the point of the probability simplex nearest to ``v`` [K]."""
    ordered = v.sort(descending=True).values
    excess = ordered.cumsum(dim=0) - 1
    places = torch.arange(1, len(v) + 1, device=v.device)
    rank = int((ordered * places > excess).sum().clamp(min=1))
    return (v - excess[rank - 1] / rank).clamp(min=0)


def _shares(run: Run, state: State) -> Tensor:
    """Return n_k / n of all clients."""
    total = sum(run.problem.sizes)
    return state.model.new_tensor([size / total for size in run.problem.sizes])


def _check(run: Run) -> None:
    name = run.spec.algorithm["name"]
    if run.problem.validation is None:
        raise SpecError(
            f"partition.validation: '{name}' learns its mixture on the server's validation rows, and there "
            "are none; expected a fraction such as 0.2, data that bring their own, or steps_p: 0"
        )
    if not isinstance(run.problem.model, Classifier):
        raise SpecError(
            f"model.name: '{name}' mixes class scores, which model '{run.spec.model['name']}' does not have"
        )
