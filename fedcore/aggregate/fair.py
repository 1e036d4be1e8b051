"""q-FedAvg's aggregation: clients with a larger loss count more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fedcore.aggregate.mean import sample_weights, weighted_sum
from fedcore.local.engine import mean_loss
from fedcore.parts import Aggregation, Run, State, Upload

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Fair(Aggregation):
    """w <- w - sum_k F_k^q D_k / sum_k h_k with L = 1/eta, D_k = L (w - w_k),
    h_k = q F_k^(q-1) ||D_k||^2 + L F_k^q, and F_k the client's mean loss on all its data at w.

    The sums are plain (``weights="uniform"``) or weighted by p_k (``"nk"``). With ``squared=False`` the
    norm in h_k is taken unsquared. The first term of h_k is zero where F_k is: a client without loss has no
    gradient. F_k computes in the run's ``precision``. Li et al., q-FFL, Algorithm 2.
    """

    q: float
    weights: Literal["uniform", "nk"] = "uniform"
    squared: bool = True
    label: str = "exponentially averaging"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Return the fair change [d]."""
        p = sample_weights(uploads) if self.weights == "nk" else [1.0] * len(uploads)
        lipschitz = [1 / upload.lr for upload in uploads]
        loss = [mean_loss(run.problem, model, upload.client, run.spec.precision) for upload in uploads]
        scaled = [(upload.model - model) * L for upload, L in zip(uploads, lipschitz, strict=True)]
        h = 0.0
        for weight, L, F, delta in zip(p, lipschitz, loss, scaled, strict=True):
            norm = float(delta.double().norm())
            size = norm**2 if self.squared else norm
            curvature = self.q * F ** (self.q - 1) * size if self.q and F else 0.0
            h += weight * (curvature + L * F**self.q)
        return weighted_sum(scaled, [weight * F**self.q / h for weight, F in zip(p, loss, strict=True)])
