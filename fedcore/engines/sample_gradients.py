"""Squared norms of per-sample (and per-batch) loss gradients, without keeping the gradients."""

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from fedcore.base.lazy import Tensor, functional, torch
from fedcore.engines.autograd import Autograd
from fedcore.engines.forward import CHUNK
from fedcore.engines.problem import Block, Problem
from fedcore.engines.train import Size, batches, steps_per_pass
from fedcore.models import Parameters
from fedcore.models.dense import Dense
from fedcore.models.lstm import Lstm

LARGEST = 1 << 24
SEQUENCES = 128


def squared_norms(problem: Problem, w: Tensor, block: Block) -> Tensor:
    """Return ||grad l_d(w)||^2 [n] of each row's loss in all trainable parameters.

    In closed form, ||delta||^2 (||a||^2 + 1) per layer with inputs a and backpropagated delta, for models of
    dense layers, likewise for LSTMs; for other models by differentiating row by row, several at a time.
    """
    model, p = problem.model, problem.parameters(w)
    if type(model) is Dense:
        of, size = _dense, CHUNK
    elif isinstance(model, Lstm):
        of, size = _recurrent, SEQUENCES
    else:
        of, size = _any, max(1, min(CHUNK, LARGEST // w.numel()))
    parts = zip(block.x.split(size), block.y.split(size), strict=True)
    return torch.cat([of(problem, p, x, y) for x, y in parts])


def batch_norms(engine: Autograd, w: Tensor, block: Block, size: Size, rng: np.random.Generator) -> Tensor:
    """Return the squared norms [batches] of the mean gradients of one pass of batches of ``size`` rows."""
    out = torch.empty_like(w)
    gradient = engine.bind(w, out, ())
    norms = []
    for x, y in islice(batches(block, size, False, rng), steps_per_pass(len(block), size, False)):
        gradient(x, y)
        norms.append(out.square().sum())
    return torch.stack(norms)


def _dense(problem: Problem, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
    model = problem.model
    assert isinstance(model, Dense)
    with torch.enable_grad():
        activate = torch.relu if model.activation == "relu" else torch.tanh
        inputs, outputs = _through(p, model.names, x.reshape(len(x), -1), activate)
        deltas = torch.autograd.grad(model.losses(outputs[-1], y).sum(), outputs)
    return torch.stack(_layer_norms(deltas, inputs, model.bias)).sum(dim=0)


def _through(
    p: Parameters, names: Sequence[str], x: Tensor, activate: Callable[[Tensor], Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the inputs and the sums of dense layers with biases, by which the loss can be differentiated."""
    inputs, outputs = [x], []
    for name in names:
        z = functional.linear(inputs[-1], p[f"{name}weight"], p.get(f"{name}bias"))
        outputs.append(z.requires_grad_())
        inputs.append(activate(z))
    return inputs[:-1], outputs


def _layer_norms(deltas: Sequence[Tensor], inputs: Sequence[Tensor], bias: bool = True) -> list[Tensor]:
    """Return ||delta||^2 (||a||^2 + 1) [batch] of each layer; without the 1 where it has no ``bias``."""
    pairs = zip(deltas, inputs, strict=True)
    return [delta.square().sum(dim=1) * (a.detach().square().sum(dim=1) + bias) for delta, a in pairs]


def _recurrent(problem: Problem, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
    """Stacked LSTM layers.

    A weight shared by all time steps has the gradient sum_t delta_t a_t^T, so its squared norm is the sum
    over pairs of steps of <delta_t, delta_s> <a_t, a_s>: one backward pass for all samples, no gradient kept.
    """
    model = problem.model
    assert isinstance(model, Lstm)
    with torch.enable_grad():
        steps = functional.embedding(x.T, p["embedding.weight"]).detach().requires_grad_()
        layers, inputs = [], steps
        for depth in range(model.layers):
            gates, before, after = _layer(p, depth, inputs)
            layers.append((gates, inputs.detach(), before.detach()))
            inputs = after
        features, sums = _through(p, ("dense.", "fc.") if model.dense else ("fc.",), inputs[-1], torch.relu)
        variables = [steps, *(gates for gates, _, _ in layers), *sums]
        embedded, *deltas = torch.autograd.grad(model.losses(sums[-1], y).sum(), variables)
    total = torch.stack(_layer_norms(deltas[len(layers) :], features)).sum(dim=0)
    for delta, (_, below, before) in zip(deltas, layers, strict=False):
        both_biases = 2
        total = total + (_pairs(delta) * (_pairs(below) + _pairs(before) + both_biases)).sum(dim=(1, 2))
    if "embedding.weight" in model.trainable.shapes:
        same_token = x[:, :, None] == x[:, None, :]
        total = total + (_pairs(embedded) * same_token).sum(dim=(1, 2))
    return total


def _layer(p: Parameters, depth: int, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Run one layer on inputs [steps, batch, width]; return the inputs' part of the gates' pre-activations
    [steps, batch, 4 hidden], whose gradient is the gates', and the states before and after each step.
    """
    recurrent = p[f"lstm.weight_hh_l{depth}"]
    bias = p[f"lstm.bias_ih_l{depth}"] + p[f"lstm.bias_hh_l{depth}"]
    gates = functional.linear(inputs, p[f"lstm.weight_ih_l{depth}"], bias)
    h = c = gates.new_zeros(gates.shape[1], recurrent.shape[1])
    states = [h]
    for step in gates.unbind():
        i, f, g, o = (step + h @ recurrent.T).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        states.append(h)
    stacked = torch.stack(states)
    return gates, stacked[:-1], stacked[1:]


def _pairs(a: Tensor) -> Tensor:
    """Return the inner products <a_t, a_s> [batch, steps, steps] of a [steps, batch, width]."""
    rows = a.transpose(0, 1)
    return rows @ rows.transpose(1, 2)


def _any(problem: Problem, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
    model = problem.model
    trained = {name: p[name].detach() for name in model.trainable.shapes}

    def loss(trained: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        values = {**p, **trained}
        return model.losses(model.scores(values, model.features(values, x[None])), y[None]).sum()

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(trained, x, y)
    norms = [gradient.flatten(1).square().sum(dim=1) for gradient in gradients.values()]
    return torch.stack(norms).sum(dim=0)
