"""Hand-derived gradients of softmax cross-entropy for networks of dense layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Batch
from fedcore.models import Parameters
from fedcore.models.linear import Linear
from fedcore.models.mlp import Mlp
from fedcore.models.rff import RffLinear

FeatureGradient = Callable[["Tensor", Batch], "Tensor"]
Terms = Sequence[FeatureGradient]
Activation = Literal["none", "relu", "tanh", "cos"]
BY_COLUMNS = 16


@dataclass(frozen=True)
class Layer:
    """One layer h = activation(x @ matrix + bias), and where its gradient goes.

    Attributes:
        matrix, bias: weights [inputs, outputs] and [outputs] or None, views of the parameters.
        into, bias_into: views of the gradient, or None where the layer is not trained.
        activation: applied to each output.
        scale: multiplies the activation.
    """

    matrix: Tensor
    bias: Tensor | None
    into: Tensor | None
    bias_into: Tensor | None
    activation: Activation = "none"
    scale: float = 1.0


def linear(model: Linear, p: Parameters, out: Parameters, terms: Terms, scratch: Scratch) -> Backward:
    """Softmax regression; terms on its features, the inputs, have no gradient."""
    head = Layer(p["weight"].T, p.get("bias"), out["weight"].T, out.get("bias"))
    return Backward([head], (), scratch)


def perceptron(model: Mlp, p: Parameters, out: Parameters, terms: Terms, scratch: Scratch) -> Backward:
    """A multi-layer perceptron."""
    layers = []
    for i in range(len(model.sizes) - 1):
        weight, bias = f"layers.{i}.weight", f"layers.{i}.bias"
        activation: Any = model.activation if i < len(model.sizes) - 2 else "none"
        layers.append(Layer(p[weight].T, p[bias], out[weight].T, out[bias], activation))
    return Backward(layers, terms, scratch)


def random_features(
    model: RffLinear, p: Parameters, out: Parameters, terms: Terms, scratch: Scratch
) -> Backward:
    """Random features and a linear head; fixed features get no gradient, nor do terms on them."""
    features = Layer(p["omega"], p["phase"], out.get("omega"), out.get("phase"), "cos", model.scale)
    head = Layer(p["weight"].T, None, out["weight"].T, None)
    return Backward([features, head], terms if model.learnable else (), scratch)


class Backward:
    """Forward and backward pass through dense layers, in ``scratch``: buffers by batch size."""

    def __init__(self, layers: Sequence[Layer], terms: Terms, scratch: Scratch) -> None:
        self.layers = layers
        self.terms = terms
        self.scratch = scratch

    def __call__(self, x: Tensor, y: Tensor, keep: float = 0.0, scale: float = 1.0) -> None:
        """Gradient of the mean loss of rows ``x`` [batch, ...] with labels ``y`` [batch]: out <- keep out +
        scale gradient. All of the backward pass comes before the first change of ``out``.
        """
        size = y.shape[0]
        buffers = self.scratch.get(size)
        if buffers is None:
            buffers = self.scratch[size] = Buffers(self.layers, size)
        inputs = [x.flatten(1), *buffers.outputs]
        for layer, rows, z, h in zip(self.layers, inputs, buffers.sums, buffers.outputs, strict=False):
            if layer.bias is None:
                torch.mm(rows, layer.matrix, out=z)
            else:
                torch.addmm(layer.bias, rows, layer.matrix, out=z)
            _activate(layer, z, h)

        delta = buffers.deltas[-1]
        torch.softmax(inputs[-1], 1, out=delta)
        delta.scatter_add_(1, y.unsqueeze(1), buffers.minus_one)
        for i in range(len(self.layers) - 1, buffers.lowest, -1):
            below = buffers.deltas[i - 1]
            torch.mm(delta, self.layers[i].matrix.T, out=below)
            if i == len(self.layers) - 1:
                for gradient in self.terms:
                    below.add_(gradient(inputs[i], Batch(x, buffers.weights)), alpha=size)
            _chain(self.layers[i - 1], buffers.sums[i - 1], inputs[i], below)
            delta = below

        alpha = scale / size
        for layer, rows, delta, turned in zip(
            self.layers, inputs, buffers.deltas, buffers.turned, strict=False
        ):
            if layer.into is not None:
                layer.into.addmm_(rows.T, delta, beta=keep, alpha=alpha)
            if layer.bias_into is not None:
                layer.bias_into.addmv_(turned, buffers.ones, beta=keep, alpha=alpha)


class Buffers:
    """What one batch size needs: each layer's sums, outputs and deltas [batch, outputs], these also turned.

    From ``BY_COLUMNS`` rows on, they lie column by column, in which order the products of narrow batches and
    wide layers are faster; the last layer's deltas lie by rows, along which softmax runs.
    """

    def __init__(self, layers: Sequence[Layer], size: int) -> None:
        like = layers[-1].matrix

        def empty(width: int) -> Tensor:
            return like.new_empty(width, size).T if size >= BY_COLUMNS else like.new_empty(size, width)

        widths = [layer.matrix.shape[1] for layer in layers]
        self.sums = [empty(width) for width in widths]
        self.outputs = [
            empty(width) if layer.activation == "cos" else z
            for layer, width, z in zip(layers, widths, self.sums, strict=True)
        ]
        self.deltas = [*(empty(width) for width in widths[:-1]), like.new_empty(size, widths[-1])]
        self.turned = [delta.T for delta in self.deltas]
        self.lowest = next(i for i, layer in enumerate(layers) if layer.into is not None)
        self.ones = like.new_ones(size)
        self.weights = like.new_full((size,), 1 / size)
        self.minus_one = torch.full((size, 1), -1.0, dtype=like.dtype, device=like.device)


Scratch = dict[int, Buffers]


def _activate(layer: Layer, z: Tensor, h: Tensor) -> None:
    """Apply a layer's activation: in place, or from ``z`` to ``h`` where the derivative needs ``z``."""
    if layer.activation == "relu":
        z.relu_()
    elif layer.activation == "tanh":
        z.tanh_()
    elif layer.activation == "cos":
        h.copy_(z).cos_().mul_(layer.scale)


def _chain(layer: Layer, z: Tensor, h: Tensor, delta: Tensor) -> None:
    """Multiply ``delta`` by the activation's derivative."""
    if layer.activation == "relu":
        _backward("threshold_backward")(delta, h, 0, grad_input=delta)
    elif layer.activation == "tanh":
        _backward("tanh_backward")(delta, h, grad_input=delta)
    elif layer.activation == "cos":
        delta.mul_(z.sin_()).mul_(-layer.scale)


@cache
def _backward(name: str) -> Callable[..., Tensor]:
    """Return PyTorch's own derivative of an activation."""
    operation: Callable[..., Tensor] = getattr(torch.ops.aten, name).grad_input
    return operation
