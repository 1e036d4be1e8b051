"""FedNova's normalised averaging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fedcore.base.lazy import Tensor
from fedcore.parts import Aggregation, Run, State, Upload
from fedcore.parts.accumulation import norm
from fedcore.parts.aggregate.mean import sample_weights, weighted_sum

Effective = Literal["norm", "steps", "one"]


@dataclass(frozen=True)
class NormalisedMean(Aggregation):
    """tau_eff sum_k p_k Delta_k / ||a_k||_1, with p_k from the sample counts of the round's clients.

    a_k says how the client's optimizer accumulates its gradients (``fedcore.parts.accumulation``); ``mu``
    is the weight of the clients' proximal term. tau_eff = sum_k p_k ||a_k||_1, with ``tau_eff="steps"``
    sum_k p_k tau_k, with ``"one"`` 1, so that the normalised changes are not scaled again. Wang et al.
    (FedNova).
    """

    mu: float = 0.0
    tau_eff: Effective = "norm"
    label: str = "normalized averaging"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Return the normalised mean change [d], relative to ``model``."""
        p = sample_weights(uploads)
        norms = [norm(run, state, upload.client, self.mu) for upload in uploads]
        lengths: Mapping[Effective, Sequence[float]] = {
            "norm": norms,
            "steps": [upload.steps for upload in uploads],
            "one": [1.0] * len(uploads),
        }
        effective = sum(weight * length for weight, length in zip(p, lengths[self.tau_eff], strict=True))
        changes = (upload.model - model for upload in uploads)
        return weighted_sum(changes, [effective * w / a for w, a in zip(p, norms, strict=True)])
