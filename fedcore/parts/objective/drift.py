"""FedDC's penalty: the local model plus its drift stays near the model received."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.lazy import Tensor
from fedcore.parts import BoundTerm, Job, Plan, Run, State, Term, Upload


@dataclass(frozen=True)
class DriftPenalty(Term):
    """(alpha/2) ||h_k + w_k - w||^2, with h_k the client's drift: the sum of all its changes so far.

    h_k starts at zero, and h_k <- h_k + Delta_k after each of the client's rounds. Gao et al. (FedDC),
    Algorithm 1.
    """

    alpha: float
    label: str = "drift penalty"

    def start(self, run: Run, state: State) -> None:
        """Start without drift."""
        state.clients["drift"] = {}

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        """Bind to the model received, less the client's drift."""
        if not self.alpha:
            return BoundTerm()
        drift = state.clients["drift"].get(job.client)
        target = job.received if drift is None else job.received - drift
        alpha = self.alpha

        def add_gradient(out: Tensor, w: Tensor) -> None:
            out.add_(w, alpha=alpha).sub_(target, alpha=alpha)

        return BoundTerm(add_gradient=add_gradient)

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        """Add the round's change to the drift."""
        drift = state.clients["drift"].get(job.client)
        upload.extras["drift"] = upload.change if drift is None else drift + upload.change

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Keep each client's drift."""
        for upload in uploads:
            state.clients["drift"][upload.client] = upload.extras["drift"]
