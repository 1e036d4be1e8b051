"""Multi-layer perceptrons."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Literal

from pydantic import PositiveInt

from fedcore.base.lazy import Tensor, functional, torch
from fedcore.base.registry import Plugin
from fedcore.models import Classifier, Layout, ModelOptions, Parameters, Shape, layers


class MlpOptions(ModelOptions):
    """Keys of an MLP: width of each hidden layer, and the activation between layers."""

    hidden: tuple[PositiveInt, ...] = (200, 200)
    activation: Literal["relu", "tanh"] = "relu"


@dataclass(frozen=True)
class Mlp(Classifier):
    """Fully connected layers; the features are the last hidden layer's activations."""

    sizes: tuple[int, ...]
    activation: str = "relu"

    @property
    def head(self) -> str:  # type: ignore[override]
        """The last layer's weight."""
        return f"layers.{len(self.sizes) - 2}.weight"

    @cached_property
    def trainable(self) -> Layout:
        """``layers.i.weight`` [out, in] and ``layers.i.bias`` [out] of each layer."""
        pairs = enumerate(pairwise(self.sizes))
        return Layout(layers({f"layers.{i}": (outputs, inputs) for i, (inputs, outputs) in pairs}))

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return the last hidden activations [batch, hidden[-1]]."""
        activate = torch.relu if self.activation == "relu" else torch.tanh
        x = x.reshape(len(x), -1)
        for i in range(len(self.sizes) - 2):
            x = activate(functional.linear(x, p[f"layers.{i}.weight"], p[f"layers.{i}.bias"]))
        return x


def build(options: MlpOptions, shape: Shape) -> Mlp:
    """Make an MLP for the data's shape."""
    return Mlp((prod(shape.inputs), *options.hidden, shape.classes), options.activation)


PLUGIN = Plugin("mlp", MlpOptions, build, "multi-layer perceptron", "RADFed, Section IV-B (64-64, 200-200)")
