"""Server momentum: the change follows a running sum of past changes."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.lazy import Tensor
from fedcore.engines.train import round_rate
from fedcore.parts import Run, ServerOptimizer, State


@dataclass(frozen=True)
class ServerMomentum(ServerOptimizer):
    """v <- beta v + D, w <- w + lr v, without dampening; v starts at zero.

    Hsu et al. (FedAvgM).
    """

    lr: float
    beta: float
    label: str = "server momentum"

    def step(
        self, run: Run, state: State, model: Tensor, change: Tensor, slots: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the new model and the new v."""
        v = change if "v" not in slots else change + slots["v"] * self.beta
        return model + v * self.lr, {"v": v}


@dataclass(frozen=True)
class SlowMomentum(ServerOptimizer):
    """u <- beta u - D / gamma, w <- w - lr gamma u, with gamma the round's local learning rate.

    u starts at zero. With a constant local rate it is FedAvgM's step; where the rate decays, past changes
    count by the rate of their own round. Wang et al. (SlowMo), Algorithm 1.
    """

    lr: float
    beta: float
    label: str = "slow momentum"
    family = "server momentum"

    def step(
        self, run: Run, state: State, model: Tensor, change: Tensor, slots: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the new model and the new u."""
        gamma = round_rate(run, state)
        u = change / -gamma
        if "u" in slots:
            u.add_(slots["u"], alpha=self.beta)
        return model - u * (self.lr * gamma), {"u": u}


@dataclass(frozen=True)
class DriftControl(ServerOptimizer):
    """m <- -D / eta + (beta - beta_local) m, w <- w - lr eta m, with eta the round's local learning rate.

    D already holds the share beta_local of m that the clients followed (``EmbeddedMomentum``), so that m
    stays the momentum of factor beta. m starts at zero. Ozfatura et al. (FedADC).
    """

    lr: float
    beta: float
    beta_local: float
    label: str = "server momentum"

    def step(
        self, run: Run, state: State, model: Tensor, change: Tensor, slots: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the new model and the new m."""
        eta = round_rate(run, state)
        m = change / -eta
        if "m" in slots:
            m.add_(slots["m"], alpha=self.beta - self.beta_local)
        return model - m * (self.lr * eta), {"m": m}
