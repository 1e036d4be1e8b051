"""Hand-derived gradients of softmax cross-entropy for networks of dense layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
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
        self.passes: dict[int, Passes] = {}

    def __call__(
        self,
        x: Tensor,
        y: Tensor,
        keep: float = 0.0,
        scale: float = 1.0,
        given: Tensor | None = None,
        own: Tensor | None = None,
    ) -> None:
        """Gradient of the mean loss of rows ``x`` [batch, ...] with labels ``y`` [batch]: out <- keep out +
        scale gradient. All of the backward pass comes before the first change of ``out``.

        With ``given`` and ``own`` [batch, outputs] the first layer's sums are given + x @ matrix, and ``own``
        are the rows of its matrix of the batch: after out <- keep out, each moves by its delta.
        """
        size = y.shape[0]
        passes = self.passes.get(size)
        if passes is None:
            passes = self.passes[size] = Passes(self.layers, size, self.scratch)
        inputs = rows = x.flatten(1)
        bias: Tensor | None
        for first, bias, matrix, z, h, activate in passes.forward:
            bias = given if first and given is not None else bias
            if bias is None:
                torch.mm(rows, matrix, out=z)
            else:
                torch.addmm(bias, rows, matrix, out=z)
            activate()
            rows = h

        buffers = passes.buffers
        delta = buffers.deltas[-1]
        torch.softmax(rows, 1, out=delta)
        delta.scatter_add_(1, y.unsqueeze(1), buffers.minus_one)
        terms = self.terms
        for phi, matrix, below, chain in passes.backward:
            torch.mm(delta, matrix, out=below)
            for gradient in terms:
                below.add_(gradient(phi, Batch(x, buffers.weights)), alpha=size)
            terms = ()
            chain()
            delta = below

        self._update(passes, inputs, keep, scale / size, own)

    def _update(self, passes: Passes, inputs: Tensor, keep: float, alpha: float, own: Tensor | None) -> None:
        for turned_rows, delta, turned, into, bias_into in passes.update:
            if turned_rows is not None:
                into.addmm_(turned_rows, delta, beta=keep, alpha=alpha)
            elif own is None:
                into.addmm_(inputs.T, delta, beta=keep, alpha=alpha)
            else:
                if keep != 1:
                    into.mul_(keep)
                own.add_(delta, alpha=alpha)
            if bias_into is not None:
                bias_into.addmv_(turned, passes.buffers.ones, beta=keep, alpha=alpha)


class Passes:
    """Tensors and calls of one batch size, layer by layer: on the way up, down, and to the parameters."""

    def __init__(self, layers: Sequence[Layer], size: int, scratch: Scratch) -> None:
        buffers = scratch.get(size)
        if buffers is None:
            buffers = scratch[size] = Buffers(layers, size)
        sums, outputs, deltas = buffers.sums, buffers.outputs, buffers.deltas
        self.buffers = buffers
        self.forward = [
            (i == 0, layer.bias, layer.matrix, z, h, _activation(layer, z, h))
            for i, (layer, z, h) in enumerate(zip(layers, sums, outputs, strict=True))
        ]
        self.backward = [
            (
                outputs[i - 1],
                layers[i].matrix.T,
                deltas[i - 1],
                _chain(layers[i - 1], sums[i - 1], outputs[i - 1], deltas[i - 1]),
            )
            for i in range(len(layers) - 1, buffers.lowest, -1)
        ]
        self.update = [
            (outputs[i - 1].T if i else None, deltas[i], buffers.turned[i], layer.into, layer.bias_into)
            for i, layer in enumerate(layers)
            if layer.into is not None
        ]


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


Scratch = dict[int, Any]


def _activation(layer: Layer, z: Tensor, h: Tensor) -> Callable[[], Any]:
    """Return a layer's activation: in place, or from ``z`` to ``h`` where the derivative needs ``z``."""
    if layer.activation == "relu":
        return z.relu_
    if layer.activation == "tanh":
        return z.tanh_
    if layer.activation == "cos":
        return lambda: h.copy_(z).cos_().mul_(layer.scale)
    return lambda: None


def _chain(layer: Layer, z: Tensor, h: Tensor, delta: Tensor) -> Callable[[], Any]:
    """Return what multiplies ``delta`` by the activation's derivative."""
    if layer.activation == "relu":
        return partial(_backward("threshold_backward"), delta, h, 0, grad_input=delta)
    if layer.activation == "tanh":
        return partial(_backward("tanh_backward"), delta, h, grad_input=delta)
    if layer.activation == "cos":
        return lambda: delta.mul_(z.sin_()).mul_(-layer.scale)
    return lambda: None


@cache
def _backward(name: str) -> Callable[..., Tensor]:
    """Return PyTorch's own derivative of an activation."""
    operation: Callable[..., Tensor] = getattr(torch.ops.aten, name).grad_input
    return operation
