"""The server's plain step along the aggregated change."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.lazy import Tensor
from fedcore.parts import Run, ServerOptimizer, State


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
