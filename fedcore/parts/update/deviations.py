"""VRL-SGD: local gradients are corrected by how far a client's models keep deviating from the mean."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.lazy import Tensor
from fedcore.parts import Cargo, Direction, Job, Plan, Run, State, Traffic, UpdateRule, Upload


@dataclass(frozen=True)
class Deviations(UpdateRule):
    """w_k <- w_k - eta (g - Delta_k), Delta_k <- Delta_k + (w - w_k) / (tau_k eta) with w the new mean model.

    Delta_k starts at zero and tends to the client's gradient minus the mean gradient. The clients of a round
    receive its new model at once; those that take part again next round need no other copy. Liang et al.
    (VRL-SGD), Algorithm 1.
    """

    label: str = "corrected SGD"

    def start(self, run: Run, state: State) -> None:
        """Start without deviations."""
        state.clients["deviation"] = {}

    def direction(self, run: Run, state: State, job: Job) -> Direction:
        """Return the offset -Delta_k."""
        own = state.clients["deviation"].get(job.client)
        return Direction(offset=None if own is None else -own)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Renew the deviations of the round's clients."""
        store = state.clients["deviation"]
        for upload in uploads:
            moved = (state.model - upload.model) / (upload.steps * upload.lr)
            store[upload.client] = moved + store[upload.client] if upload.client in store else moved
        state.values["next_holders"] = list(plan.cohort)

    def cargo(self) -> Cargo:
        """The new model, down."""
        return Cargo(down=("the new model, at the end of the round",))

    def traffic(self, run: Run, state: State, plan: Plan) -> Traffic:
        """The new model, to each client of the cohort."""
        return Traffic(down=len(plan.cohort) * state.model.numel() * run.problem.bytes_per_number)
