"""The fast engine: gradients derived by hand for dense networks, random features and the CNN.

A gradient goes straight to where it is needed: into a buffer, or, with a plain SGD step, into the parameters
themselves, so that the step costs no pass over them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Batch, BoundTerm, Gradient
from fedcore.engines.autograd import Autograd, put
from fedcore.engines.problem import Problem
from fedcore.models import Parameters
from fedcore.models.cnn import Cnn
from fedcore.models.dense import Dense
from fedcore.models.rff import RffLinear
from fedcore.spec import Spec

Terms = Sequence[Callable[[Tensor, Batch], Tensor]]
Back = Callable[[Tensor, float, float], dict[str, Tensor]]
Below = Callable[[Tensor], tuple[Tensor, Back]]
Scratch = dict[int, Any]
BY_COLUMNS = 16
KEPT, KEPT_ROWS = 16, 1024  # batch sizes whose buffers stay, and rows in all of them
CONVOLUTIONS = ("conv1", "conv2")
POOL, PADDING, ONE = [2, 2], [2, 2], [1, 1]


def unsupported(spec: Spec, problem: Problem) -> str | None:
    """Return why no gradient of a run is derived by hand, or None if it is."""
    if type(problem.model) not in {Cnn, *LAYERS}:
        return f"the model '{spec.model.name}'"
    return f"precision {spec.precision}" if spec.precision != "fp32" else None


@dataclass(frozen=True)
class Analytic(Autograd):
    """Hand-derived gradients; terms on features join through their closed-form gradients."""

    name: str = "analytic"
    scratch: Scratch = field(default_factory=dict, repr=False, compare=False)

    def bind(self, w: Tensor, out: Tensor, terms: Sequence[BoundTerm]) -> Gradient:
        model = self.problem.model
        views = model.trainable.views(w)
        into = views if out is w else model.trainable.views(out)
        p = {**views, **self.problem.buffers}
        on_features = [term.gradient for term in terms if term.feature_loss]
        if type(model) is Cnn:
            return dense_head(partial(convolutions, p), ("fc1", "fc2"), p, into, on_features)
        return Backward(LAYERS[type(model)](model, p, into), on_features, self.scratch)


@dataclass(frozen=True)
class Layer:
    """One layer h = scale activation(x @ matrix + bias), and where its gradient goes.

    ``matrix`` [inputs, outputs] and ``bias`` [outputs] are views of the parameters, ``into`` and
    ``bias_into`` of the gradient, or None where the layer is not trained.
    """

    matrix: Tensor
    bias: Tensor | None
    into: Tensor | None
    bias_into: Tensor | None
    activation: str = "none"  # or relu, tanh, cos
    scale: float = 1.0


def dense(model: Dense, p: Parameters, out: Parameters) -> list[Layer]:
    """Return the layers of a dense network, which are all trained."""
    layers = []
    for name in model.names:
        weight, bias = f"{name}weight", f"{name}bias"
        activation = "none" if name == model.names[-1] else model.activation
        layers.append(Layer(p[weight].mT, p.get(bias), out[weight].mT, out.get(bias), activation))
    return layers


def random_features(model: RffLinear, p: Parameters, out: Parameters) -> list[Layer]:
    """Return random features, which may be fixed, and a linear head."""
    features = Layer(p["omega"], p["phase"], out.get("omega"), out.get("phase"), "cos", model.scale)
    return [features, Layer(p["weight"].T, None, out["weight"].T, None)]


LAYERS: Mapping[type, Callable[..., list[Layer]]] = {Dense: dense, RffLinear: random_features}


class Backward:
    """Forward and backward pass through dense layers, in ``scratch``: buffers of some batch sizes.

    Terms on features have no gradient where no layer below these is trained.
    """

    def __init__(self, layers: Sequence[Layer], terms: Terms, scratch: Scratch) -> None:
        self.layers = layers
        self.terms = terms
        self.scratch = scratch
        self.passes: dict[int, Passes] = {}

    def __call__(self, x: Tensor, y: Tensor, keep: float = 0.0, scale: float = 1.0) -> None:
        """Gradient of the mean loss of rows ``x`` [batch, ...] with labels ``y`` [batch]: out <- keep out +
        scale gradient. All of the backward pass comes before the first change of ``out``.
        """
        size = y.shape[0]
        if (passes := self.passes.get(size)) is None:
            passes = self.passes[size] = Passes(self.layers, size, self.scratch)
        inputs = rows = x.flatten(1)
        for bias, matrix, z, h, activate in passes.forward:
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

        alpha = scale / size
        for rows_t, delta, delta_t, into, bias_into in passes.update:
            into.addmm_(inputs.T if rows_t is None else rows_t, delta, beta=keep, alpha=alpha)
            if bias_into is not None:
                bias_into.addmv_(delta_t, buffers.ones, beta=keep, alpha=alpha)


class Passes:
    """Tensors and calls of one batch size, layer by layer: on the way up, down, and to the parameters."""

    def __init__(self, layers: Sequence[Layer], size: int, scratch: Scratch) -> None:
        buffers = buffers_of(scratch, size, lambda: Buffers(layers, size))
        sums, outputs, deltas = buffers.sums, buffers.outputs, buffers.deltas
        self.buffers = buffers
        calls_of = list(map(calls, layers, sums, outputs, deltas))
        self.forward = [
            (layer.bias, layer.matrix, sums[i], outputs[i], calls_of[i][0]) for i, layer in enumerate(layers)
        ]
        self.backward = [
            (outputs[i - 1], layers[i].matrix.T, deltas[i - 1], calls_of[i - 1][1])
            for i in range(len(layers) - 1, buffers.lowest, -1)
        ]
        self.update = [
            (outputs[i - 1].T if i else None, deltas[i], deltas[i].T, layer.into, layer.bias_into)
            for i, layer in enumerate(layers)
            if layer.into is not None
        ]


def buffers_of(scratch: Scratch, size: int, make: Callable[[], Any]) -> Any:
    """Return the buffers of a batch size, of which a few are kept, for few rows together."""
    if size not in scratch:
        while scratch and (len(scratch) >= KEPT or sum(scratch) + size > KEPT_ROWS):
            del scratch[next(iter(scratch))]
        scratch[size] = make()
    return scratch[size]


class Buffers:
    """What one batch size needs: each layer's sums, outputs and deltas [batch, outputs].

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
        self.lowest = next(i for i, layer in enumerate(layers) if layer.into is not None)
        self.ones = like.new_ones(size)
        self.weights = like.new_full((size,), 1 / size)
        self.minus_one = like.new_full((size, 1), -1.0)


def calls(layer: Layer, z: Tensor, h: Tensor, delta: Tensor) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return a layer's activation, and what multiplies ``delta`` by the derivative.

    The activation is in place, or from ``z`` to ``h`` where the derivative needs ``z``.
    """
    aten = torch.ops.aten
    if layer.activation == "relu":
        return z.relu_, partial(aten.threshold_backward.grad_input, delta, h, 0, grad_input=delta)
    if layer.activation == "tanh":
        return z.tanh_, partial(aten.tanh_backward.grad_input, delta, h, grad_input=delta)
    if layer.activation == "cos":
        return lambda: h.copy_(z).cos_().mul_(layer.scale), lambda: delta.mul_(z.sin_()).mul_(-layer.scale)
    return lambda: None, lambda: None


def dense_head(below: Below, head: Sequence[str], p: Parameters, out: Parameters, terms: Terms) -> Gradient:
    """Return the gradient of dense ReLU layers and a linear one, which ``head`` names, behind ``below``.

    ``below`` maps inputs to what feeds the head [batch, ...], and returns the way back: from the gradient of
    the loss's sum there, ``keep`` and scale / batch to gradients by name. It leaves out those that it has
    already written to ``out``. A layer's ``out`` changes only after its part of the backward pass.
    """

    def gradient(x: Tensor, y: Tensor, keep: float = 0.0, scale: float = 1.0) -> None:
        size = len(y)
        rows, back = below(x)
        fed = [rows.flatten(1)]
        for name in head[:-1]:
            fed.append(torch.addmm(p[f"{name}.bias"], fed[-1], p[f"{name}.weight"].T).relu_())
        scores = torch.addmm(p[f"{head[-1]}.bias"], fed[-1], p[f"{head[-1]}.weight"].T)

        delta = torch.softmax(scores, 1)
        delta.scatter_add_(1, y[:, None], delta.new_full((size, 1), -1.0))
        deltas, gradients, on_features = [], {}, terms
        for name, phi in zip(reversed(head), reversed(fed), strict=True):
            deltas.append(delta)
            gradients[f"{name}.bias"] = delta.sum(0)
            delta = delta @ p[f"{name}.weight"]
            for term in on_features:
                delta.add_(term(phi, Batch(x, phi.new_full((size,), 1 / size))), alpha=size)
            on_features = ()
            if phi is not fed[0]:
                delta = torch.ops.aten.threshold_backward(delta, phi, 0)
        alpha = scale / size
        gradients |= back(delta.view_as(rows), keep, alpha)
        put(list(gradients.values()), [out[name] for name in gradients], keep, alpha)
        for name, delta, phi in zip(head, reversed(deltas), fed, strict=True):
            out[f"{name}.weight"].addmm_(delta.T, phi, beta=keep, alpha=alpha)

    return gradient


def convolutions(p: Parameters, x: Tensor) -> tuple[Tensor, Back]:
    """Convolve, pool and rectify images twice."""
    last, unpooled = torch.channels_last, torch.ops.aten.max_pool2d_with_indices_backward
    kernels = [p[f"{name}.weight"].to(memory_format=last) for name in CONVOLUTIONS]
    images, pooled = [x.to(memory_format=last)], []
    for name, kernel in zip(CONVOLUTIONS, kernels, strict=True):
        sums = torch.conv2d(images[-1], kernel, p[f"{name}.bias"], padding=2)
        maxima, where = torch.ops.aten.max_pool2d_with_indices(sums, POOL)
        pooled.append((sums, where))
        images.append(maxima.relu_())

    def back(delta: Tensor, keep: float, alpha: float) -> dict[str, Tensor]:
        gradients: dict[str, Tensor] = {}
        delta = delta.contiguous(memory_format=last)
        for i in (1, 0):
            sums, where = pooled[i]
            delta = torch.ops.aten.threshold_backward(delta, images[i + 1], 0)
            delta = unpooled(delta, sums, POOL, POOL, [0, 0], ONE, False, where)
            mask = [i > 0, True, True]
            delta, *pair = torch.ops.aten.convolution_backward(
                delta, images[i], kernels[i], [sums.shape[1]], ONE, PADDING, ONE, False, [0, 0], 1, mask
            )
            gradients |= zip((f"{CONVOLUTIONS[i]}.weight", f"{CONVOLUTIONS[i]}.bias"), pair, strict=True)
        return gradients

    return images[-1], back
