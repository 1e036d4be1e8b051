"""Maximum mean discrepancy between a client's features and the mixture of all clients' densities."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.lazy import Tensor, torch
from fedcore.parts import Batch, BoundTerm, Job, Run, State, Term
from fedcore.parts.discrepancy import (
    Discrepancy,
    kernel_discrepancy,
    kernel_gradient,
    mean_discrepancy,
    mean_gradient,
)
from fedcore.parts.exchange.density import draw_mixture


@dataclass(frozen=True)
class MmdToMixture(Term):
    """gamma MMD[rho_k, rho], rho the mixture of all clients' feature densities (client k's included).

    The batch's features stand for rho_k, ``samples`` points drawn once a round for rho. ``mean``: the norm
    of the difference of means (linear kernel); ``kernel``: Gaussian kernel, its bandwidth the median
    distance of the pooled points, taken as a constant. ``squared`` squares either. FedAvgR, Algorithm 1.
    """

    gamma: float
    samples: int
    mmd: Discrepancy
    squared: bool = False
    label: str = "MMD"

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        """Draw the client's points from the mixture it received."""
        drawn = draw_mixture(state, self.samples, run.streams.get("mixture", state.round, job.client))
        square = mean_discrepancy if self.mmd == "mean" else kernel_discrepancy
        slope = mean_gradient if self.mmd == "mean" else kernel_gradient
        tiny = torch.finfo(drawn.dtype).tiny

        def loss(phi: Tensor, batch: Batch) -> Tensor:
            value = square(phi, drawn, batch.weights)
            return (value if self.squared else value.clamp(min=tiny).sqrt()) * self.gamma

        def gradient(phi: Tensor, batch: Batch) -> Tensor:
            value, steepest = slope(phi, drawn, batch.weights)
            scale = 1.0 if self.squared else 0.5 / value.clamp(min=tiny).sqrt()
            return steepest * (self.gamma * scale)

        return BoundTerm(feature_loss=loss, feature_gradient=gradient)
