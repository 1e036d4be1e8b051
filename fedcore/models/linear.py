"""Softmax regression, logistic regression, and softmax regression with trained features."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

from fedcore.base.lazy import Tensor, functional
from fedcore.base.registry import Plugin
from fedcore.models import Classifier, Layout, ModelOptions, Parameters, Shape, layers


class LinearOptions(ModelOptions):
    """Keys of a linear classifier. ``bias``: whether it has an intercept."""

    bias: bool = True


@dataclass(frozen=True)
class Linear(Classifier):
    """f(x) = W x + b; the features are the inputs, flattened."""

    inputs: int
    classes: int
    bias: bool = True
    head: str = "weight"

    @cached_property
    def trainable(self) -> Layout:
        """W [classes, inputs] and b [classes]."""
        shapes: dict[str, tuple[int, ...]] = {"weight": (self.classes, self.inputs)}
        return Layout(shapes | ({"bias": (self.classes,)} if self.bias else {}))

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return x itself [batch, inputs]."""
        return x.reshape(len(x), -1)


@dataclass(frozen=True)
class LinearOutputs(Classifier):
    """f(x) = phi(x) = W x + b: softmax regression whose features are its outputs, so that they are trained.

    phi is affine in the parameters, hence a convex mapping as rFedAvg's convergence theorems ask (A6).
    """

    inputs: int
    classes: int
    head: str = "phi.weight"

    @cached_property
    def trainable(self) -> Layout:
        """W [classes, inputs] and b [classes]."""
        return Layout(layers({"phi": (self.classes, self.inputs)}))

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return W x + b [batch, classes]."""
        return functional.linear(x.reshape(len(x), -1), p["phi.weight"], p["phi.bias"])

    def scores(self, p: Parameters, phi: Tensor) -> Tensor:
        """Return the features themselves [batch, classes]."""
        return phi


def build(options: LinearOptions, shape: Shape) -> Linear:
    """Make a softmax regression for the data's shape."""
    return Linear(prod(shape.inputs), shape.classes, options.bias)


def build_outputs(options: ModelOptions, shape: Shape) -> LinearOutputs:
    """Make a softmax regression with trained features for the data's shape."""
    return LinearOutputs(prod(shape.inputs), shape.classes)


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
        build_outputs,
        "softmax regression whose features are its outputs",
        "rFedAvg, Section V (strongly convex case)",
    ),
)
