"""FedDC's averaging: each client's model is moved by its drift before the mean is taken."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.lazy import Tensor
from fedcore.parts import Aggregation, Run, State, Upload
from fedcore.parts.aggregate.mean import sample_weights, weighted_sum


@dataclass(frozen=True)
class DriftCorrectedMean(Aggregation):
    """sum_k p_k (w_k + h_k) over the cohort, h_k the drift after the round. Gao et al. (FedDC), Algorithm 1.

    A client sends the sum w_k + h_k, which is as large as a model.
    """

    label: str = "averaging of drift-corrected models"
    family = "averaging"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Return the mean change [d] of the corrected models, relative to ``model``."""
        corrected = (upload.model + upload.extras["drift"] - model for upload in uploads)
        return weighted_sum(corrected, sample_weights(uploads))
