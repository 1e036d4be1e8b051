"""Mime: local steps mimic the steps that a server with all the cohort's data would take."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.lazy import Tensor
from fedcore.engines.forward import full_gradient
from fedcore.parts import Cargo, Direction, Job, Plan, Run, State, Traffic, UpdateRule, Upload
from fedcore.parts.aggregate.mean import Weights, weighted_sum


@dataclass(frozen=True)
class Mimicry(UpdateRule):
    """w_k <- w_k - eta ((1 - beta) (g(w_k) - g(w) + c) + beta s), both g on the same batch.

    c is the cohort's mean gradient at the server's model w over all of its data, and s the server's momentum,
    held fixed during local steps; after the round s <- (1 - beta) c + beta s, from zero. ``lite`` leaves
    the correction -g(w) + c out. Karimireddy et al. (Mime), Algorithm 1 with SGD with momentum as base.
    """

    beta: float
    lite: bool = False
    weights: Weights = "nk"
    label: str = "corrected SGD with server momentum"
    family = "corrected SGD"

    def start(self, run: Run, state: State) -> None:
        """Start the momentum at zero."""
        state.server["momentum"] = state.model.new_zeros(state.model.shape)

    def before(self, run: Run, state: State, plan: Plan) -> None:
        """Collect the cohort's full gradients at the server's model."""
        sizes = [len(run.problem.clients[k]) if self.weights == "nk" else 1 for k in plan.cohort]
        gradients = (
            full_gradient(run.engine, state.model, run.problem.clients[client]) for client in plan.cohort
        )
        state.server["gradient"] = weighted_sum(gradients, [size / sum(sizes) for size in sizes])

    def direction(self, run: Run, state: State, job: Job) -> Direction:
        """Return the blend of the corrected gradient and the momentum."""
        offset = state.server["momentum"] * self.beta
        if not self.lite:
            offset.add_(state.server["gradient"], alpha=1 - self.beta)
        return Direction(offset, 1 - self.beta, anchored=not self.lite)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Move the momentum by the cohort's gradient."""
        moved = state.server["momentum"] * self.beta
        state.server["momentum"] = moved.add_(state.server["gradient"], alpha=1 - self.beta)

    def cargo(self) -> Cargo:
        """Momentum and mean gradient down, each client's gradient up."""
        down = ("server momentum s",) if self.lite else ("server momentum s", "the cohort's mean gradient c")
        return Cargo(down=down, up=("full gradient at the server's model",))

    def traffic(self, run: Run, state: State, plan: Plan) -> Traffic:
        """s, and c unless lite, down; a gradient up, for each client of the cohort."""
        vector = len(plan.cohort) * state.model.numel() * run.problem.bytes_per_number
        return Traffic(down=vector * (1 if self.lite else 2), up=vector)
