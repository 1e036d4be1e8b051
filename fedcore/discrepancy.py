"""Maximum mean discrepancy of two samples, with closed gradients in the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

Discrepancy = Literal["kernel", "mean"]


def mmd(kind: Discrepancy, x: Tensor, z: Tensor) -> float:
    """Return the MMD of points x [n, d] and z [m, d]: Gaussian kernel, or difference of means."""
    weights = x.new_full((len(x),), 1 / len(x))
    square = mean_discrepancy if kind == "mean" else kernel_discrepancy
    return float(square(x, z, weights).clamp(min=0).sqrt())


def mean_discrepancy(x: Tensor, z: Tensor, weights: Tensor) -> Tensor:
    """Return ||sum_i weights_i x_i - mean z||^2 for points x [n, d] and z [m, d]."""
    return (weights @ x - z.mean(dim=0)).square().sum()


def kernel_discrepancy(x: Tensor, z: Tensor, weights: Tensor) -> Tensor:
    """Return the squared MMD (with the diagonal, so never negative) of weighted points x [n, d] and z [m, d]
    under exp(-||a - b||^2 / (2 s^2)), s the median distance of different pooled points."""
    k, _, signed = _kernel(x, z, weights)
    return signed @ k @ signed


def mean_gradient(x: Tensor, z: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``mean_discrepancy`` and its gradient [n, d] in x."""
    apart = weights @ x - z.mean(dim=0)
    return apart.square().sum(), weights[:, None] * apart * 2


def kernel_gradient(x: Tensor, z: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``kernel_discrepancy`` and its gradient [n, d] in x, the bandwidth taken as a constant."""
    import torch

    k, variance, signed = _kernel(x, z, weights)
    pull = k[: len(x)] * signed
    away = pull @ torch.cat([x, z]) - pull.sum(dim=1, keepdim=True) * x
    return signed @ k @ signed, away * (2 / variance * weights[:, None])


def _kernel(x: Tensor, z: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the kernel matrix of the pooled points, s^2, and each point's signed weight."""
    import torch

    points = torch.cat([x, z])
    signed = torch.cat([weights, z.new_full((len(z),), -1 / len(z))])
    gram = points @ points.T
    norms = gram.diagonal()
    distances = (norms[:, None] + norms - 2 * gram).clamp(min=0)
    present = torch.nonzero(signed.detach()).flatten()
    first, second = torch.triu_indices(len(present), len(present), offset=1, device=x.device)
    apart = distances.detach()[present[first], present[second]]
    variance = apart.median() if len(apart) else distances.new_ones(())
    variance = torch.where(variance > 0, variance, torch.ones_like(variance))
    return torch.exp(distances / (-2 * variance)), variance, signed
