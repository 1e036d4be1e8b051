"""Distribution regularisation: the distance of a batch's mean feature to a target."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.lazy import Tensor
from fedcore.parts import Batch, BoundTerm, Job, Run, State, Term


@dataclass(frozen=True)
class MmdToOthers(Term):
    """lam times the squared distance of client k's mean feature to the others' mean features.

    ``pairwise``: 1/(N-1) sum_{j != k} ||delta_k - delta_j||^2 (rFedAvg, eq. 5); else ||delta_k - mean_{j
    != k} delta_j||^2 (rFedAvg+, Section IV-C). Both have the gradient 2 (delta_k - mean_{j != k} delta_j)
    in delta_k. delta_k is the batch's mean feature under the model being trained; the others are held
    fixed. The others are all N clients or, where the exchange shares no more, those of the round's cohort.
    ``include_self`` counts client k among them.
    """

    lam: float
    pairwise: bool
    include_self: bool = False
    summed: bool = False
    label: str = "MMD"

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        """Bind to the mean of the other clients' features; to nothing where there is no other."""
        delta = state.server["delta"]
        shared = state.values.get("delta_of", range(len(delta)))
        if self.lam == 0 or len(shared) < 2:
            return BoundTerm()
        others = delta[[client for client in shared if self.include_self or client != job.client]]
        target = others.mean(dim=0)
        spread = (others - target).square().sum(dim=1).mean() if self.pairwise else None
        lam = self.lam * len(others) if self.summed else self.lam

        def loss(phi: Tensor, batch: Batch) -> Tensor:
            distance = (batch.weights @ phi - target).square().sum()
            return lam * (distance if spread is None else distance + spread)

        def gradient(phi: Tensor, batch: Batch) -> Tensor:
            return batch.weights[:, None] * (batch.weights @ phi - target) * (2 * lam)

        return BoundTerm(feature_loss=loss, feature_gradient=gradient)
