"""Server optimizers: how the aggregated change moves the server's model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from fedcore.base.lazy import Tensor
from fedcore.parts import OptimizerState, Run, ServerOptimizer, State, Step
from fedcore.parts.steps import learning_rate

Kind = Literal["adam", "adagrad", "yogi"]


@dataclass(frozen=True)
class ServerSgd(ServerOptimizer):
    """w <- w + lr D. With lr = 1 the server takes the aggregate as its model."""

    lr: float = 1.0
    label: str = "pseudo-SGD"

    def step(self, run: Run, state: State, model: Tensor, change: Tensor, past: OptimizerState) -> Step:
        return model + change * self.lr if self.lr != 1.0 else model + change, past


@dataclass(frozen=True)
class ServerMomentum(ServerOptimizer):
    """v <- beta v + D, w <- w + lr v, without dampening; v starts at zero. Hsu et al. (FedAvgM)."""

    lr: float
    beta: float
    label: str = "server momentum"

    def step(self, run: Run, state: State, model: Tensor, change: Tensor, past: OptimizerState) -> Step:
        v = change if "v" not in past else change + past["v"] * self.beta
        return model + v * self.lr, {"v": v}


@dataclass(frozen=True)
class SlowMomentum(ServerOptimizer):
    """m <- (beta - beta_local) m - D / gamma, w <- w - lr gamma m, gamma the round's local learning rate.

    m starts at zero. With a constant local rate it is FedAvgM's step; where the rate decays, past changes
    count by the rate of their own round: at its first step, of the first client with data. Clients differ in
    it only where it decays by steps, with unequal numbers of them. Wang et al. (SlowMo), Algorithm 1.

    ``beta_local`` is the share of m that the clients followed already (``EmbeddedMomentum``) and that D
    holds, so that m stays the momentum of factor beta. Ozfatura et al. (FedADC).
    """

    lr: float
    beta: float
    beta_local: float = 0.0
    label: str = "slow momentum"
    family = "server momentum"

    def step(self, run: Run, state: State, model: Tensor, change: Tensor, past: OptimizerState) -> Step:
        gamma = learning_rate(run, state, run.problem.active[0])
        m = change / -gamma
        if "m" in past:
            m.add_(past["m"], alpha=self.beta - self.beta_local)
        return model - m * (self.lr * gamma), {"m": m}


SECOND_MOMENTS: Mapping[Kind, Callable[[Tensor, Tensor, float], Tensor]] = {
    "adagrad": lambda v, square, beta2: v + square,
    "adam": lambda v, square, beta2: v * beta2 + square * (1 - beta2),
    "yogi": lambda v, square, beta2: v - square * (v - square).sign() * (1 - beta2),
}


@dataclass(frozen=True)
class Adaptive(ServerOptimizer):
    """m <- beta1 m + (1 - beta1) D, v by kind, w <- w + lr m / (sqrt(v) + tau); no bias correction.

    Adagrad: v <- v + D^2. Adam: v <- beta2 v + (1 - beta2) D^2. Yogi: v <- v - (1 - beta2) D^2 sign(v - D^2),
    which moves v towards D^2 by at most (1 - beta2) D^2. Reddi et al., Algorithm 2; ComFed, eq. (1).

    m starts at zero, every entry of v at v0. The second moment is ``of`` the change D, or of the first moment
    m. Without ``root`` the step divides by v + tau, as RADFed's Algorithm 2 prints it.
    """

    kind: Kind
    lr: float
    beta1: float
    beta2: float
    tau: float
    v0: float = 0.0
    of: Literal["change", "momentum"] = "change"
    root: bool = True
    label: str = "adaptive"
    family = "server momentum, adaptive learning rate"

    def step(self, run: Run, state: State, model: Tensor, change: Tensor, past: OptimizerState) -> Step:
        m = change * (1 - self.beta1)
        if "m" in past:
            m.add_(past["m"], alpha=self.beta1)
        v = past["v"] if "v" in past else change.new_full(change.shape, self.v0)
        v = SECOND_MOMENTS[self.kind](v, (change if self.of == "change" else m).square(), self.beta2)
        scale = (v.sqrt() if self.root else v) + self.tau
        return model + m / scale * self.lr, {"m": m, "v": v}
