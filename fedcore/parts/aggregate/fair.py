"""q-FedAvg's aggregation: clients with a larger loss count more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from fedcore.base.lazy import Tensor
from fedcore.engines.forward import mean_loss
from fedcore.parts import Aggregation, Run, State, Upload
from fedcore.parts.aggregate.mean import sample_weights, weighted_sum


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
    weights: Literal["uniform", "nk"] = "uniform"
    lipschitz: float | None = None
    scaled: bool = False
    label: str = "exponentially averaging"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Return the fair change [d]."""
        p = sample_weights(uploads) if self.weights == "nk" else [1.0] * len(uploads)
        lipschitz = [self.lipschitz or 1 / upload.lr for upload in uploads]
        loss = [mean_loss(run.problem, model, upload.client, run.spec.precision) for upload in uploads]
        steps = [(upload.model - model) * L for upload, L in zip(uploads, lipschitz, strict=True)]
        h = 0.0
        for weight, L, F, step in zip(p, lipschitz, loss, steps, strict=True):
            norm = float(step.double().norm()) * (_power(F, self.q) if self.scaled else 1.0)
            curvature = self.q * _power(F, self.q - 1) * _power(norm, 2) if self.q and F else 0.0
            h += weight * (curvature + L * _power(F, self.q))
        if not h:
            return model.new_zeros(model.shape)
        return weighted_sum(
            steps, [weight * _power(F, self.q) / h for weight, F in zip(p, loss, strict=True)]
        )


def _power(base: float, exponent: float) -> float:
    """Return the power, infinite where no float is large enough: the run then counts as diverged."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf
