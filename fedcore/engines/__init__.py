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
    """What a client sends back.

    Attributes:
        client, slot: who, and for which slot.
        samples: n_k.
        received: the model [d] it started from.
        model: the model [d] after its local steps.
        steps: tau_k, the local gradient steps made.
        lr: the local learning rate of the round's first step.
        extras: what else travels up, by name.
    """

    client: int
    slot: int
    samples: int
    received: Tensor
    model: Tensor
    steps: int
    lr: float
    extras: dict[str, Tensor] = field(default_factory=dict)

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
    """An objective term for one client in one round.

    Attributes:
        add_gradient: (out [d], w [d]) -> None, adds the term's gradient in parameter space.
        pull: the weight of a term that is (pull/2) ||w - received||^2 alone, else 0.
        feature_loss: (phi [batch, features], batch, *given) -> scalar, for terms on the model's features.
        given: tensors that ``feature_loss`` takes besides, where it is one function for all clients, in which
            rows of weight zero don't count; None where it is the client's own.
        feature_gradient: the gradient of ``feature_loss`` with respect to phi, in closed form.
        passes: forward passes over each batch that these make under other models.
    """

    add_gradient: Callable[[Tensor, Tensor], None] | None = None
    pull: float = 0.0
    feature_loss: Callable[..., Tensor] | None = None
    given: tuple[Tensor, ...] | None = None
    feature_gradient: Callable[[Tensor, Batch], Tensor] | None = None
    passes: int = 0

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
    """One client's local training, ready to run.

    Attributes:
        block: the client's rows.
        training: the run's settings of local training.
        rates: the learning rate of each gradient step.
        rng: the stream that batches are drawn from.
        terms, direction: the objective's terms and the update rule, bound to the client.
        loop: in place of all these: given the batches, returns the model [d], and what else travels up.
    """

    job: Job
    block: Block
    training: Training
    rates: list[float]
    rng: np.random.Generator
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
