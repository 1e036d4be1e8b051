"""Softmax regression, and the same with a two-class head (logistic regression)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from fedcore.base.lazy import Tensor, functional
from fedcore.base.registry import Plugin
from fedcore.models import Classifier, Layout, ModelOptions, Parameters, Shape, layer


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

    @property
    def trainable(self) -> Layout:
        """W [classes, inputs] and b [classes]."""
        shapes: dict[str, tuple[int, ...]] = {"weight": (self.classes, self.inputs)}
        return Layout(shapes | ({"bias": (self.classes,)} if self.bias else {}))

    def initial(self, rng: np.random.Generator) -> dict[str, NDArray[np.floating]]:
        """Draw W and b from U(+-1/sqrt(inputs))."""
        arrays = layer(rng, "", (self.classes, self.inputs))
        return {name: arrays[name] for name in self.trainable.shapes}

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return x itself [batch, inputs]."""
        return x.reshape(len(x), -1)

    def scores(self, p: Parameters, phi: Tensor) -> Tensor:
        """Return W phi + b [batch, classes]."""
        return functional.linear(phi, p["weight"], p.get("bias"))


def build(options: LinearOptions, shape: Shape) -> Linear:
    """Make a softmax regression for the data's shape."""
    return Linear(prod(shape.inputs), shape.classes, options.bias)


PLUGINS = (
    Plugin("linear", LinearOptions, build, "softmax regression", "convex case of all five papers"),
    Plugin(
        "logistic",
        LinearOptions,
        build,
        "logistic regression (softmax over the classes)",
        "RADFed, Section IV-B (eICU)",
    ),
)
