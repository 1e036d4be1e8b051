"""Mixing of one stale model into the server's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedcore.base.lazy import Tensor
from fedcore.parts import Aggregation, Run, State, Upload

Decay = Literal["constant", "polynomial", "hinge"]


@dataclass(frozen=True)
class StaleMixing(Aggregation):
    """w <- (1 - a_s) w + a_s w_k with a_s = alpha s(d), d the update's staleness.

    ``fresh`` is the staleness of an update trained on the newest version. FedAsync, Algorithm 1.
    """

    alpha: float
    decay: Decay
    a: float
    b: float
    fresh: int = 0
    label: str = "mixing by staleness"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Return a_s (w_k - w) [d]."""
        weight = staleness_weight(self.decay, state.values["staleness"] + self.fresh, self.a, self.b)
        (upload,) = uploads
        return (upload.model - model) * (self.alpha * weight)


def staleness_weight(decay: Decay, staleness: int, a: float, b: float) -> float:
    """Return FedAsync's s(d): 1, (d + 1)^-a, or 1 up to d = b and 1 / (a (d - b) + 1) beyond."""
    if decay == "polynomial":
        return float((staleness + 1) ** -a)
    if decay == "hinge" and staleness > b:
        return 1 / (a * (staleness - b) + 1)
    return 1.0
