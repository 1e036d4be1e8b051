"""The proximal term: stay near the model received."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.lazy import Tensor
from fedcore.parts import BoundTerm, Job, Run, State, Term


@dataclass(frozen=True)
class Proximal(Term):
    """(mu/2) ||w - w_received||^2, or without the 1/2. FedProx, eq. (2).

    Not ``squared``, it is mu ||w - w_received|| (with gradient 0 where the two are equal), as in the code of
    DL-opt and FedOMW.
    """

    mu: float
    half: bool = True
    squared: bool = True
    label: str = "proximal"

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        """Bind to the model that the client received."""
        weight = self.mu if self.half else 2 * self.mu
        received = job.received

        def add_gradient(out: Tensor, w: Tensor) -> None:
            out.add_(w, alpha=weight).sub_(received, alpha=weight)

        def add_direction(out: Tensor, w: Tensor) -> None:
            away = w - received
            norm = float(away.norm())
            if norm:
                out.add_(away, alpha=self.mu / norm)

        return BoundTerm(add_gradient=(add_gradient if self.squared else add_direction) if weight else None)
