"""MOON's contrastive term: features like the global model's, unlike the client's previous model's."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.lazy import Tensor, functional
from fedcore.engines.forward import features
from fedcore.parts import Batch, BoundTerm, Job, Plan, Run, State, Term, Upload

SMALLEST = 1e-8


@dataclass(frozen=True)
class Contrastive(Term):
    """mu times the batch mean of -log(e^(s_g/T) / (e^(s_g/T) + e^(s_p/T))), T the temperature.

    s_g and s_p are cosine similarities of a sample's features under the model being trained to those under
    the model received and under the client's own model of its last round. A client that takes part for the
    first time has no previous model other than the one received: the term is then constant. Li et al. (MOON),
    Section 3.3.
    """

    mu: float
    temperature: float
    label: str = "contrastive"
    family = "contrastive loss"

    def start(self, run: Run, state: State) -> None:
        """Start without previous models."""
        state.clients["previous"] = {}

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        """Bind to the model received and the client's previous model."""
        previous = state.clients["previous"].get(job.client)
        if not self.mu or previous is None:
            return BoundTerm()

        def directions(batch: Batch) -> tuple[Tensor, Tensor]:
            near = features(run.problem, job.received, batch.x)
            return _unit(near), _unit(features(run.problem, previous, batch.x))

        def margin(unit: Tensor, near: Tensor, far: Tensor) -> Tensor:
            return (unit * (far - near)).sum(dim=1) / self.temperature

        def loss(phi: Tensor, batch: Batch) -> Tensor:
            return self.mu * (batch.weights @ functional.softplus(margin(_unit(phi), *directions(batch))))

        def gradient(phi: Tensor, batch: Batch) -> Tensor:
            near, far = directions(batch)
            length = phi.norm(dim=1, keepdim=True).clamp_min(SMALLEST)
            unit = phi / length
            pull = far - near
            across = pull - unit * (unit * pull).sum(dim=1, keepdim=True)
            weight = margin(unit, near, far).sigmoid() * batch.weights * (self.mu / self.temperature)
            return weight[:, None] * across / length

        return BoundTerm(feature_loss=loss, feature_gradient=gradient)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Keep each client's model for its next round."""
        for upload in uploads:
            state.clients["previous"][upload.client] = upload.model


def _unit(phi: Tensor) -> Tensor:
    """Scale each row [batch, features] to length one; rows of zeros stay zero."""
    return phi / phi.norm(dim=1, keepdim=True).clamp_min(SMALLEST)
