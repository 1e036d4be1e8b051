"""Maximum mean discrepancy between a client's features and the mixture of all clients' densities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fedcore.exchange.density import draw_mixture
from fedcore.parts import Batch, BoundTerm, Job, Run, State, Term

if TYPE_CHECKING:
    from torch import Tensor

Discrepancy = Literal["kernel", "mean"]


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
        import torch

        drawn = draw_mixture(state, self.samples, run.streams.get("mixture", state.round, job.client))
        square = mean_discrepancy if self.mmd == "mean" else kernel_discrepancy
        slope = _mean_gradient if self.mmd == "mean" else _kernel_gradient
        tiny = torch.finfo(drawn.dtype).tiny

        def loss(phi: Tensor, batch: Batch) -> Tensor:
            value = square(phi, drawn, batch.weights)
            return (value if self.squared else value.clamp(min=tiny).sqrt()) * self.gamma

        def gradient(phi: Tensor, batch: Batch) -> Tensor:
            scale = self.gamma
            if self.squared:
                return slope(phi, drawn, batch.weights) * scale
            root = square(phi, drawn, batch.weights).clamp(min=tiny).sqrt()
            return slope(phi, drawn, batch.weights) * (scale / (2 * root))

        return BoundTerm(feature_loss=loss, feature_gradient=gradient)


def mean_discrepancy(x: Tensor, z: Tensor, weights: Tensor) -> Tensor:
    """Return ||sum_i weights_i x_i - mean z||^2 for points x [n, d] and z [m, d]."""
    return (weights @ x - z.mean(dim=0)).square().sum()


def kernel_discrepancy(x: Tensor, z: Tensor, weights: Tensor) -> Tensor:
    """Return the squared MMD (with the diagonal, so never negative) of weighted points x [n, d] and z [m, d]
    under exp(-||a - b||^2 / (2 s^2)), s the median distance of different pooled points."""
    k, _, signed = _kernel(x, z, weights)
    return signed @ k @ signed


def _mean_gradient(x: Tensor, z: Tensor, weights: Tensor) -> Tensor:
    return weights[:, None] * (weights @ x - z.mean(dim=0)) * 2


def _kernel_gradient(x: Tensor, z: Tensor, weights: Tensor) -> Tensor:
    import torch

    k, variance, signed = _kernel(x, z, weights)
    pull = k[: len(x)] * signed
    return (pull @ torch.cat([x, z]) - pull.sum(dim=1, keepdim=True) * x) * (2 / variance * weights[:, None])


def _kernel(x: Tensor, z: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the kernel matrix of the pooled points, s^2, and each point's signed weight."""
    import torch

    points = torch.cat([x, z])
    signed = torch.cat([weights, z.new_full((len(z),), -1 / len(z))])
    gram = points @ points.T
    norms = gram.diagonal()
    distances = (norms[:, None] + norms - 2 * gram).clamp(min=0)
    present = torch.nonzero(signed.detach()).flatten()
    apart = distances.detach()[present][:, present]
    rows, columns = torch.triu_indices(len(present), len(present), offset=1, device=x.device)
    variance = apart[rows, columns].median() if len(rows) else distances.new_ones(())
    variance = torch.where(variance > 0, variance, torch.ones_like(variance))
    return torch.exp(distances / (-2 * variance)), variance, signed
