"""Per-sample gradient norms of LSTM classifiers, from inner products over time steps."""

from __future__ import annotations

from fedcore.base.lazy import Tensor, torch
from fedcore.models import Parameters
from fedcore.models.lstm import Lstm


def squared_norms(model: Lstm, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
    """Return ||grad l_d||^2 [batch] in the LSTM's trained parameters.

    A weight shared by all time steps has the gradient sum_t delta_t a_t^T, so its squared norm is the sum
    over pairs of steps of <delta_t, delta_s> <a_t, a_s>: one backward pass for all samples, no gradient kept.
    """
    tokens = torch.nn.functional.embedding(x.T, p["embedding.weight"]).detach()
    with torch.enable_grad():
        steps = tokens.requires_grad_()
        layers, inputs = [], steps
        for depth in range(model.layers):
            gates, before, after = _layer(p, depth, inputs)
            layers.append((gates, inputs.detach(), before.detach()))
            inputs = after
        scores = model.scores(p, inputs[-1])
        loss = model.losses(scores, y).sum()
        *deltas, head, embedded = torch.autograd.grad(
            loss, [*(gates for gates, _, _ in layers), scores, steps]
        )
    total = head.square().sum(dim=1) * (inputs[-1].detach().square().sum(dim=1) + 1)
    for delta, (_, below, before) in zip(deltas, layers, strict=True):
        both_biases = 2
        total = total + (_pairs(delta) * (_pairs(below) + _pairs(before) + both_biases)).sum(dim=(1, 2))
    if "embedding.weight" in model.trainable.shapes:
        same_token = x[:, :, None] == x[:, None, :]
        total = total + (_pairs(embedded) * same_token).sum(dim=(1, 2))
    return total


def _layer(p: Parameters, depth: int, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Run one layer on inputs [steps, batch, width].

    Returns:
        The inputs' part of the gates' pre-activations [steps, batch, 4 hidden], whose gradient is the gates';
        the state before and after each step [steps, batch, hidden].
    """
    recurrent = p[f"lstm.weight_hh_l{depth}"]
    bias = p[f"lstm.bias_ih_l{depth}"] + p[f"lstm.bias_hh_l{depth}"]
    gates = torch.nn.functional.linear(inputs, p[f"lstm.weight_ih_l{depth}"], bias)
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
