"""Local steps that follow the server's momentum besides their own gradients."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.lazy import Tensor
from fedcore.engines.train import learning_rate, number_of_steps
from fedcore.parts import Cargo, Direction, Job, Plan, Run, State, Traffic, UpdateRule, Upload
from fedcore.parts.accumulation import norm


@dataclass(frozen=True)
class EmbeddedMomentum(UpdateRule):
    """w_k <- w_k - eta (g + beta_local m / tau_k): a share of the server's momentum m, spread over the
    client's tau_k steps. Ozfatura et al. (FedADC).
    """

    beta_local: float
    label: str = "SGDm"

    def direction(self, run: Run, state: State, job: Job) -> Direction:
        """Return the offset beta_local m / tau_k."""
        m = first_moment(state)
        steps = number_of_steps(run, job.client)
        return Direction(offset=None if m is None else m * (self.beta_local / steps))

    def cargo(self) -> Cargo:
        """The momentum, down."""
        return Cargo(down=("server momentum m",))

    def traffic(self, run: Run, state: State, plan: Plan) -> Traffic:
        """m to each client of the cohort."""
        return momentum_traffic(run, state, plan)


@dataclass(frozen=True)
class BlendedMomentum(UpdateRule):
    """Another rule's direction d, blended with the server's first moment m: (1 - weight) d + weight s.

    s = -m / (eta ||a_k||_1) is m as a gradient: followed alone through the client's whole round it moves
    the model by m, whatever the number of steps, the local learning rate and the local momentum (a_k as
    in FedNova). With s = 0 before the first change, and in a steady state (every client moving by m)
    the blend leaves the change alone. Mime's blend (Karimireddy et al.) in ComFed's setting, which proposes
    server momenta in local updates beside the variance reduction (Section VI) and leaves the formula open.
    """

    rule: UpdateRule
    weight: float
    label: str = "blended with server momentum"

    def direction(self, run: Run, state: State, job: Job) -> Direction:
        """Return the blended direction."""
        inner = self.rule.direction(run, state, job)
        rest = 1 - self.weight
        offset = None if inner.offset is None else inner.offset * rest
        m = first_moment(state)
        if m is not None:
            length = learning_rate(run, state, job.client) * norm(run, state, job.client)
            s = m * (-self.weight / length)
            offset = s if offset is None else offset + s
        return Direction(offset, inner.scale * rest, inner.anchored)

    def start(self, run: Run, state: State) -> None:
        """Start the inner rule."""
        self.rule.start(run, state)

    def before(self, run: Run, state: State, plan: Plan) -> None:
        """Let the inner rule synchronise."""
        self.rule.before(run, state, plan)

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        """Let the inner rule compute what the client sends."""
        self.rule.uploaded(run, state, job, upload)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Let the inner rule renew its memory."""
        self.rule.after(run, state, plan, uploads, before)

    def cargo(self) -> Cargo:
        """The inner rule's cargo, and the momentum down."""
        inner = self.rule.cargo()
        return Cargo(down=(*inner.down, "server momentum m"), up=inner.up)

    def traffic(self, run: Run, state: State, plan: Plan) -> Traffic:
        """The inner rule's traffic, and m to each client of the cohort."""
        return self.rule.traffic(run, state, plan) + momentum_traffic(run, state, plan)

    def columns(self, state: State) -> dict[str, float]:
        """Return the inner rule's columns."""
        return self.rule.columns(state)


def first_moment(state: State) -> Tensor | None:
    """Return the server optimizer's first moment m [d], or None before its first step."""
    return state.slots.get(0, {}).get("m")


def momentum_traffic(run: Run, state: State, plan: Plan) -> Traffic:
    """Return the bytes of m, sent to each client of the cohort."""
    return Traffic(down=len(plan.cohort) * state.model.numel() * run.problem.bytes_per_number)
