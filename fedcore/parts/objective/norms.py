"""Norms of the weights and of the features as terms of the local objective."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.lazy import Tensor, torch
from fedcore.models import Layout
from fedcore.parts import Batch, BoundTerm, Job, Run, State, Term

RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class WeightNorm(Term):
    """gamma ||w||, the plain Euclidean norm with gradient 0 at w = 0. DL-opt and FedOMW, eq. (6).

    ``w`` are the weights, all arrays of at least two dimensions taken as one vector; with ``bias`` all
    parameters. ``squared`` takes (gamma/2) ||w||^2 instead.
    """

    gamma: float
    squared: bool = False
    bias: bool = False
    label: str = "weight norm"

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        """Bind to the model's weights."""
        if not self.gamma:
            return BoundTerm()
        slices = weight_slices(run.problem.model.trainable, self.bias)

        def add_gradient(out: Tensor, w: Tensor) -> None:
            scale = 1.0 if self.squared else 1 / _norm([w[where] for where in slices])
            for where in slices:
                out[where].add_(w[where] * scale, alpha=self.gamma)

        return BoundTerm(add_gradient=add_gradient)


@dataclass(frozen=True)
class TraceNorm(Term):
    """alpha ||W||_*, the sum of the singular values of the output layer's weight. FedAvgR, Algorithm 1.

    Its (sub)gradient is U_r V_r^T over the singular values above 1e-10 times the largest; 0 at W = 0.
    """

    alpha: float
    label: str = "trace norm"

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        """Bind to the output layer."""
        layout, head = run.problem.model.trainable, run.problem.model.head

        def add_gradient(out: Tensor, w: Tensor) -> None:
            weight = layout.views(w)[head].reshape(layout.shapes[head][0], -1)
            if torch.isfinite(weight).all():
                u, s, v = torch.linalg.svd(weight, full_matrices=False)
                kept = (s > RANK_TOLERANCE * s[0]).to(s.dtype)
                direction = ((u * kept) @ v).reshape(layout.shapes[head])
                layout.views(out)[head].add_(direction, alpha=self.alpha)

        return BoundTerm(add_gradient=add_gradient if self.alpha else None)


@dataclass(frozen=True)
class FeatureNorm(Term):
    """beta ||phi(X)||_F over the rows X of the client's batch. FedAvgR, Algorithm 1."""

    beta: float
    label: str = "feature norm"

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        """Return the term; it is the same for every client."""
        if not self.beta:
            return BoundTerm()

        def loss(phi: Tensor, batch: Batch) -> Tensor:
            return _norm([phi[batch.weights > 0]]) * self.beta

        def gradient(phi: Tensor, batch: Batch) -> Tensor:
            present = phi * (batch.weights > 0)[:, None]
            return present * (self.beta / _norm([present]))

        return BoundTerm(feature_loss=loss, feature_gradient=gradient)


def weight_slices(layout: Layout, bias: bool) -> list[slice]:
    """Return where the weights lie in the vector; with ``bias``, or without any matrix, all parameters."""
    matrices = [where for name, where in layout.slices.items() if len(layout.shapes[name]) > 1]
    return [slice(0, layout.size)] if bias or not matrices else matrices


def _norm(parts: list[Tensor]) -> Tensor:
    """Return the norm of all parts together, never below the smallest normal number."""
    square = torch.stack([part.square().sum() for part in parts]).sum()
    return square.clamp(min=torch.finfo(square.dtype).tiny).sqrt()
