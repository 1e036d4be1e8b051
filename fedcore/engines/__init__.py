"""Engines: what does the local training of clients, what it is told and what it gives back.

Engines differ in how they compute, never in what: they agree within floating-point tolerance.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fedcore.base.lazy import Tensor, torch
from fedcore.engines.problem import Block
from fedcore.spec import Training

Batches = Iterable[tuple[Tensor, Tensor]]
Loop = Callable[[Batches], tuple[Tensor, dict[str, Tensor]]]


@dataclass(frozen=True)
class Job:
    """One client's local training: which client, in which slot and stage, from which model."""

    client: int
    slot: int
    stage: int
    received: Tensor


@dataclass(frozen=True)
class Upload:
    """What a client sends back."""

    client: int
    slot: int
    samples: int  # n_k
    received: Tensor  # the model [d] that it started from
    model: Tensor  # the model [d] after its local steps
    steps: int  # tau_k, the local gradient steps made
    lr: float  # the local learning rate of the round's first step
    extras: dict[str, Tensor] = field(default_factory=dict)  # what else travels up, by name

    @property
    def change(self) -> Tensor:
        """Delta_k = w_k - w [d]."""
        return self.model - self.received


@dataclass(frozen=True)
class Direction:
    """How an update rule corrects a local gradient g to the direction that the optimizer follows.

    direction = scale (g - anchor gradient) + offset, where the anchor gradient is that of the same
    batch at the received model, used only if ``anchored``.
    """

    offset: Tensor | None = None
    scale: float = 1.0
    anchored: bool = False


@dataclass(frozen=True)
class Batch:
    """One local batch as a feature term sees it: inputs, and weights [batch] that sum to one."""

    x: Tensor
    weights: Tensor


@dataclass(frozen=True)
class BoundTerm:
    """An objective term for one client in one round: on parameters, or on the model's features.

    ``given`` are tensors that ``feature_loss`` takes besides, where it is one function for all clients, in
    which rows of weight zero don't count; None where it is the client's own.
    """

    add_gradient: Callable[[Tensor, Tensor], None] | None = None  # (out [d], w [d]), adds its gradient at w
    pull: float = 0.0  # the weight of a term that is (pull/2) ||w - received||^2 alone
    feature_loss: Callable[..., Tensor] | None = None  # (phi [batch, features], batch, *given) -> scalar
    given: tuple[Tensor, ...] | None = None
    feature_gradient: Callable[[Tensor, Batch], Tensor] | None = None  # of feature_loss in phi, closed form
    passes: int = 0  # forward passes over each batch that these make under other models

    def loss(self, phi: Tensor, batch: Batch) -> Tensor:
        """Return ``feature_loss``, which there must be, with the tensors that it takes."""
        assert self.feature_loss is not None
        return self.feature_loss(phi, batch, *(self.given or ()))

    def gradient(self, phi: Tensor, batch: Batch) -> Tensor:
        """Return the gradient of ``loss`` in phi, in closed form where the term has one."""
        if self.feature_gradient is not None:
            return self.feature_gradient(phi, batch)
        with torch.enable_grad():
            leaf = phi.detach().requires_grad_()
            return torch.autograd.grad(self.loss(leaf, batch), leaf)[0]


@dataclass(frozen=True)
class Task:
    """One client's local training, ready to run: its terms and its direction, or ``loop`` in their place.

    ``loop`` is given the batches, and returns the model [d] and what else travels up.
    """

    job: Job
    block: Block
    training: Training
    rates: list[float]  # of each gradient step
    rng: np.random.Generator  # that batches are drawn from
    terms: list[BoundTerm]
    direction: Direction
    loop: Loop | None = None

    def upload(self, w: Tensor) -> Upload:
        """Return what the client sends back with its model ``w`` [d]."""
        job = self.job
        return Upload(job.client, job.slot, len(self.block), job.received, w, len(self.rates), self.rates[0])


class Gradient(Protocol):
    """A gradient bound to parameters ``w`` [d], to a place ``out`` [d] and to objective terms."""

    def __call__(self, x: Tensor, y: Tensor, keep: float = 0.0, scale: float = 1.0) -> None:
        """Set out <- keep out + scale g, with g the gradient of the mean loss of rows ``x`` [batch, ...] with
        labels ``y`` [batch], plus that of the terms on features; keep = 0 drops whatever ``out`` held.
        """
