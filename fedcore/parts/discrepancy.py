"""Maximum mean discrepancy of two samples, with closed gradients in the first."""

from functools import lru_cache
from typing import Literal

from fedcore.base.lazy import Device, Tensor, torch

Discrepancy = Literal["kernel", "mean"]


def mmd(kind: Discrepancy, x: Tensor, z: Tensor) -> float:
    """Return the MMD of points x [n, d] and z [m, d], by a Gaussian kernel or of means (rFedAvg, eq. (2))."""
    return float(squared(kind, x, z, x.new_full((len(x),), 1 / len(x)))[0].clamp(min=0).sqrt())


def squared(kind: Discrepancy, x: Tensor, z: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the squared MMD of weighted points x [n, d] and points z [m, d], and its gradient [n, d] in x.

    ``mean``: ||sum_i weights_i x_i - mean z||^2. ``kernel``: under exp(-||a - b||^2 / (2 s^2)), with the
    diagonal, so never negative; s is the median distance of different pooled points, taken as a constant.
    """
    if kind == "mean":
        difference = weights @ x - z.mean(dim=0)
        return difference.square().sum(), weights[:, None] * difference * 2
    points = torch.cat([x, z])
    signed = torch.cat([weights, z.new_full((len(z),), -1 / len(z))])
    gram = points @ points.T
    norms = gram.diagonal()
    distances = (norms[:, None] + norms - 2 * gram).clamp_(min=0)
    variance = _median(distances.detach(), signed.detach())
    k = torch.exp(distances / (-2 * variance))
    pull = k[: len(x)] * signed
    away = pull @ points - pull.sum(dim=1, keepdim=True) * x
    return signed @ k @ signed, away * (2 / variance * weights[:, None])


def _median(distances: Tensor, weights: Tensor) -> Tensor:
    """Return the median over pairs of different points with a weight; 1 if it is 0 or there is no pair."""
    if not weights.all():
        present = weights.nonzero().flatten()
        distances = distances[present[:, None], present]
    of_pairs = distances.take(_pairs(len(distances), distances.device))
    median = of_pairs.median() if len(of_pairs) else distances.new_ones(())
    return torch.where(median > 0, median, torch.ones_like(median))


@lru_cache(maxsize=64)
def _pairs(count: int, device: Device) -> Tensor:
    """Return the places of the pairs of different rows in a flattened [count, count] matrix."""
    first, second = torch.triu_indices(count, count, offset=1, device=device)
    return first * count + second  # type: ignore[no-any-return]
