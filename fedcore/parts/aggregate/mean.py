"""Averaging of the clients' changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fedcore.base.lazy import Tensor, torch
from fedcore.base.options import FLOAT
from fedcore.parts import Aggregation, Run, State, Upload

Weights = Literal["nk", "uniform"]


def weighted_sum(vectors: Iterable[Tensor], weights: Sequence[float]) -> Tensor:
    """Return sum_k weights_k vectors_k [d], added in the order given."""
    total: Tensor | None = None
    for vector, weight in zip(vectors, weights, strict=True):
        if abs(weight) > FLOAT:  # torch refuses a scalar that float32 can't hold
            weight = math.copysign(math.inf, weight)
        total = vector * weight if total is None else total.add_(vector, alpha=weight)
    if total is None:
        raise ValueError("a sum over no clients")
    return total


def sample_weights(uploads: list[Upload]) -> list[float]:
    """Return p_k = n_k / n over the clients that uploaded."""
    total = sum(upload.samples for upload in uploads)
    return [upload.samples / total for upload in uploads]


def changes(model: Tensor, uploads: list[Upload]) -> Iterator[Tensor]:
    """Yield each upload's distance from ``model`` [d], one after another in the same memory."""
    change = torch.empty_like(model)
    for upload in uploads:
        yield torch.sub(upload.model, model, out=change)


@dataclass(frozen=True)
class WeightedMean(Aggregation):
    """sum_k p_k Delta_k with p_k from the sample counts of the round's clients. FedAvg."""

    label: str = "averaging"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Return the weighted mean change [d], relative to ``model``."""
        return weighted_sum(changes(model, uploads), sample_weights(uploads))


@dataclass(frozen=True)
class PlainMean(Aggregation):
    """The mean of the changes, every client alike."""

    label: str = "plain averaging"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Return the mean change [d], relative to ``model``."""
        return weighted_sum(changes(model, uploads), [1 / len(uploads)] * len(uploads))


def averaging(weights: Weights) -> Aggregation:
    """Return averaging by sample counts (``nk``) or with every client alike (``uniform``)."""
    return WeightedMean() if weights == "nk" else PlainMean()
