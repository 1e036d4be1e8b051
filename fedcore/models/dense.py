"""Dense layers: softmax and logistic regression, with trained features too, and multi-layer perceptrons."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

from pydantic import PositiveInt

from fedcore.base.lazy import Tensor, functional, torch
from fedcore.models import Layout, Model, ModelOptions, Parameters, Plugin, Shape, Shapes, flat_numbers


class LinearOptions(ModelOptions):
    """Keys of a linear classifier. ``bias``: whether it has an intercept."""

    bias: bool = True


class MlpOptions(ModelOptions):
    """Keys of an MLP: width of each hidden layer, and the activation between layers."""

    hidden: tuple[PositiveInt, ...] = (200, 200)
    activation: Literal["relu", "tanh"] = "relu"


@dataclass(frozen=True)
class Dense(Model):
    """Fully connected layers; the features are the last hidden activations, or the inputs, flattened.

    ``names`` are what the names of each layer's parameters begin with, ``sizes`` the widths between layers.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    activation: str = "relu"
    bias: bool = True

    @property
    def head(self) -> str:  # type: ignore[override]
        """The last layer's weight."""
        return f"{self.names[-1]}weight"

    @cached_property
    def trainable(self) -> Layout:
        """Each layer's weight [out, in] and, where there are biases, bias [out]."""
        shapes: Shapes = {}
        for name, (inputs, outputs) in zip(self.names, pairwise(self.sizes), strict=True):
            shapes |= {f"{name}weight": (outputs, inputs), f"{name}bias": (outputs,)}
        return Layout({name: shape for name, shape in shapes.items() if self.bias or len(shape) > 1})

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return what feeds the last layer [batch, sizes[-2]]."""
        activate = torch.relu if self.activation == "relu" else torch.tanh
        x = x.reshape(len(x), -1)
        for name in self.names[:-1]:
            x = activate(functional.linear(x, p[f"{name}weight"], p.get(f"{name}bias")))
        return x


class LinearOutputs(Dense):
    """f(x) = phi(x) = W x + b: softmax regression whose features are its outputs, so that they are trained.

    phi is affine in the parameters, hence a convex mapping as rFedAvg's convergence theorems ask (A6).
    """

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return W x + b [batch, classes]."""
        return super().scores(p, super().features(p, x))

    def scores(self, p: Parameters, phi: Tensor) -> Tensor:
        """Return the features themselves [batch, classes]."""
        return phi


def linear(inputs: int, classes: int, bias: bool = True) -> Dense:
    """Return f(x) = W x + b, with the parameters ``weight`` and ``bias``."""
    return Dense(("",), (inputs, classes), bias=bias)


def perceptron(sizes: tuple[int, ...], activation: str = "relu") -> Dense:
    """Return a multi-layer perceptron of these widths, with the parameters ``layers.i.weight`` and so on."""
    return Dense(tuple(f"layers.{i}." for i in range(len(sizes) - 1)), sizes, activation)


def build(options: LinearOptions, shape: Shape) -> Dense:
    """Make a softmax regression for the data's shape."""
    return linear(flat_numbers(shape), shape.classes, options.bias)


PLUGINS = (
    Plugin("linear", LinearOptions, build, "softmax regression", "convex case of five papers"),
    Plugin(
        "logistic",
        LinearOptions,
        build,
        "logistic regression (softmax over the classes)",
        "RADFed, Section IV-B (eICU)",
    ),
    Plugin(
        "linear_outputs",
        ModelOptions,
        lambda options, shape: LinearOutputs(("phi.",), (flat_numbers(shape), shape.classes)),
        "softmax regression whose features are its outputs",
        "rFedAvg, Section V (strongly convex case)",
    ),
    Plugin(
        "mlp",
        MlpOptions,
        lambda mlp, shape: perceptron((flat_numbers(shape), *mlp.hidden, shape.classes), mlp.activation),
        "multi-layer perceptron",
        "RADFed, Section IV-B (64-64, 200-200)",
    ),
)
