"""Softmax regression whose features are its outputs: a convex problem in which features are trained."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from fedcore.base.lazy import Tensor, functional
from fedcore.base.registry import Plugin
from fedcore.models import Classifier, Layout, ModelOptions, Parameters, Shape, layer


@dataclass(frozen=True)
class LinearOutputs(Classifier):
    """f(x) = phi(x) = W x + b.

    phi is affine in the parameters, hence a convex mapping as rFedAvg's convergence theorems ask (A6).
    """

    inputs: int
    classes: int
    head: str = "phi.weight"

    @property
    def trainable(self) -> Layout:
        """W [classes, inputs] and b [classes]."""
        return Layout({"phi.weight": (self.classes, self.inputs), "phi.bias": (self.classes,)})

    def initial(self, rng: np.random.Generator) -> dict[str, NDArray[np.floating]]:
        """Draw W and b from U(+-1/sqrt(inputs))."""
        return dict(layer(rng, "phi.", (self.classes, self.inputs)))

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return W x + b [batch, classes]."""
        return functional.linear(x.reshape(len(x), -1), p["phi.weight"], p["phi.bias"])

    def scores(self, p: Parameters, phi: Tensor) -> Tensor:
        """Return the features themselves [batch, classes]."""
        return phi


def build(options: ModelOptions, shape: Shape) -> LinearOutputs:
    """Make the model for the data's shape."""
    return LinearOutputs(prod(shape.inputs), shape.classes)


PLUGIN = Plugin(
    "linear_outputs",
    ModelOptions,
    build,
    "softmax regression whose features are its outputs",
    "rFedAvg, Section V (strongly convex case)",
)
