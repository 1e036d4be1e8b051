"""Squared norms of per-sample (and per-batch) loss gradients, without keeping the gradients."""

from __future__ import annotations

from itertools import islice
from typing import Literal

import numpy as np

from fedcore.base.lazy import Tensor, functional, torch
from fedcore.engines import Engine, recurrent_gradients
from fedcore.engines.batches import batches, steps_per_pass
from fedcore.engines.forward import CHUNK
from fedcore.engines.problem import Block, Problem
from fedcore.models import Classifier, Parameters
from fedcore.models.lstm import Lstm
from fedcore.models.mlp import Mlp

LARGEST = 1 << 24
SEQUENCES = 128


def squared_norms(problem: Problem, w: Tensor, block: Block) -> Tensor:
    """Return ||grad l_d(w)||^2 [n] of each row's loss in all trainable parameters.

    In closed form, ||delta||^2 (||a||^2 + 1) a layer with inputs a and backpropagated delta, for models of
    dense layers, likewise for LSTMs; for other models by differentiating row by row, several at a time.
    """
    model = problem.model
    p = {**model.trainable.views(w), **problem.buffers}
    if isinstance(model, Classifier) and set(model.trainable.shapes) <= {model.head, "bias"}:
        of, size = _head, CHUNK
    elif isinstance(model, Mlp):
        of, size = _dense, CHUNK
    elif isinstance(model, Lstm):
        of, size = _recurrent, SEQUENCES
    else:
        of, size = _any, max(1, min(CHUNK, LARGEST // w.numel()))
    parts = zip(block.x.split(size), block.y.split(size), strict=True)
    return torch.cat([of(problem, p, x, y) for x, y in parts])


def batch_norms(
    engine: Engine, w: Tensor, block: Block, size: int | Literal["full"], rng: np.random.Generator
) -> Tensor:
    """Return the squared norms [batches] of the mean gradients of one pass of batches of ``size`` rows."""
    out = torch.empty_like(w)
    gradient = engine.bind(w, out, ())
    found = []
    for x, y in islice(batches(block, size, False, rng), steps_per_pass(len(block), size, False)):
        gradient(x, y)
        found.append(out.square().sum())
    return torch.stack(found)


def _head(problem: Problem, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
    """Only the output layer is trained."""
    phi = problem.model.features(p, x)
    with torch.enable_grad():
        scores = problem.model.scores(p, phi).detach().requires_grad_()
        (delta,) = torch.autograd.grad(problem.model.losses(scores, y).sum(), scores)
    return delta.square().sum(dim=1) * (phi.square().sum(dim=1) + ("bias" in p))


def _dense(problem: Problem, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
    """A stack of dense layers, each with a bias."""
    model = problem.model
    assert isinstance(model, Mlp)
    inputs, outputs = [x.reshape(len(x), -1)], []
    with torch.enable_grad():
        for i in range(len(model.sizes) - 1):
            z = functional.linear(inputs[-1], p[f"layers.{i}.weight"], p[f"layers.{i}.bias"])
            outputs.append(z if z.requires_grad else z.requires_grad_())
            inputs.append(torch.relu(z) if model.activation == "relu" else torch.tanh(z))
        deltas = torch.autograd.grad(model.losses(outputs[-1], y).sum(), outputs)
    layers = zip(deltas, inputs[:-1], strict=True)
    norms = [delta.square().sum(dim=1) * (a.detach().square().sum(dim=1) + 1) for delta, a in layers]
    return torch.stack(norms).sum(dim=0)


def _recurrent(problem: Problem, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
    """Stacked LSTM layers."""
    model = problem.model
    assert isinstance(model, Lstm)
    return recurrent_gradients.squared_norms(model, p, x, y)


def _any(problem: Problem, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
    """Any model: differentiate each row's loss."""
    model = problem.model
    trained = {name: p[name].detach() for name in model.trainable.shapes}

    def loss(trained: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        values = {**p, **trained}
        return model.losses(model.scores(values, model.features(values, x[None])), y[None]).sum()

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(trained, x, y)
    norms = [gradient.flatten(1).square().sum(dim=1) for gradient in gradients.values()]
    return torch.stack(norms).sum(dim=0)
