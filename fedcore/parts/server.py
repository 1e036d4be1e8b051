"""Server optimizers: how the aggregated change moves the server's model."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from fedcore.base.lazy import Tensor
from fedcore.parts import Run, ServerOptimizer, State
from fedcore.parts.steps import round_rate

Kind = Literal["adam", "adagrad", "yogi"]


@dataclass(frozen=True)
class ServerSgd(ServerOptimizer):
    """w <- w + lr D. With lr = 1 the server takes the aggregate as its model."""

    lr: float = 1.0
    label: str = "pseudo-SGD"

    def step(
        self,
        run: Run,
        state: State,
        model: Tensor,
        change: Tensor,
        slots: dict[str, Tensor],
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return w + lr D; there is no memory."""
        return model + change * self.lr if self.lr != 1.0 else model + change, slots


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


@dataclass(frozen=True)
class Adaptive(ServerOptimizer):
    """m <- beta1 m + (1 - beta1) D, v by kind, w <- w + lr m / (sqrt(v) + tau); no bias correction.

    Reddi et al., Algorithm 2; ComFed, eq. (1).

    Attributes:
        lr: the server's learning rate.
        beta1, beta2: decay of the first and the second moment; Adagrad has no beta2.
        tau: degree of adaptivity, added outside the root.
        v0: every entry of v before the first round; m starts at zero.
        of: what the second moment is of: the change D, or the first moment m.
        root: divide by sqrt(v) + tau; False divides by v + tau, as RADFed's Algorithm 2 prints it.
    """

    lr: float
    beta1: float
    beta2: float
    tau: float
    v0: float = 0.0
    of: Literal["change", "momentum"] = "change"
    root: bool = True
    label: str = "adaptive"
    family = "server momentum, adaptive learning rate"

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """Return the new v [d] from the old one and the squared change [d]."""
        raise TypeError(f"{type(self).__name__} does not say how its second moment moves")

    def step(
        self, run: Run, state: State, model: Tensor, change: Tensor, slots: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the new model, m and v."""
        m = change * (1 - self.beta1)
        if "m" in slots:
            m.add_(slots["m"], alpha=self.beta1)
        v = slots["v"] if "v" in slots else change.new_full(change.shape, self.v0)
        v = self.second_moment(v, (change if self.of == "change" else m).square())
        scale = (v.sqrt() if self.root else v) + self.tau
        return model + m / scale * self.lr, {"m": m, "v": v}


@dataclass(frozen=True)
class Adagrad(Adaptive):
    """v <- v + D^2."""

    label: str = "Adagrad"

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """Return v + D^2."""
        return v + square


@dataclass(frozen=True)
class Adam(Adaptive):
    """v <- beta2 v + (1 - beta2) D^2."""

    label: str = "Adam"

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """Return the moving average of D^2."""
        return v * self.beta2 + square * (1 - self.beta2)


@dataclass(frozen=True)
class Yogi(Adaptive):
    """v <- v - (1 - beta2) D^2 sign(v - D^2)."""

    label: str = "Yogi"

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """Return v moved towards D^2 by at most (1 - beta2) D^2."""
        return v - square * (v - square).sign() * (1 - self.beta2)


KINDS: MappingProxyType[Kind, type[Adaptive]] = MappingProxyType(
    {"adam": Adam, "adagrad": Adagrad, "yogi": Yogi}
)
