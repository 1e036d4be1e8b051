"""The convolutional network of McMahan et al. for 28x28 and 32x32 images."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

from pydantic import PositiveInt

from fedcore.base.lazy import Tensor, functional, torch
from fedcore.models import Layout, Model, ModelOptions, Parameters, Plugin, Shape, SpecError, layers


class CnnOptions(ModelOptions):
    """Keys of the CNN: channels of the two 5x5 convolutions and width of the dense layer."""

    channels: tuple[PositiveInt, PositiveInt] = (32, 64)
    hidden: PositiveInt = 512


@dataclass(frozen=True)
class Cnn(Model):
    """Two 5x5 convolutions with padding 2, each with ReLU and 2x2 max-pooling; a dense ReLU layer; the head.

    The features are the dense layer's activations, 512 of them in the paper.
    """

    inputs: tuple[int, int, int]
    classes: int
    channels: tuple[int, int] = (32, 64)
    hidden: int = 512
    head: str = "fc2.weight"

    @cached_property
    def trainable(self) -> Layout:
        """``conv1``, ``conv2``, ``fc1``, ``fc2``, each weight and bias."""
        depth, height, width = self.inputs
        first, second = self.channels
        weights = {
            "conv1": (first, depth, 5, 5),
            "conv2": (second, first, 5, 5),
            "fc1": (self.hidden, second * (height // 4) * (width // 4)),
            "fc2": (self.classes, self.hidden),
        }
        return Layout(layers(weights))

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return the dense layer's activations [batch, hidden].

        Images are laid out channels last, as the kernels' strides tell, and pooled before the ReLU, which
        commutes with the maximum.
        """
        for name in ("conv1", "conv2"):
            kernel = p[f"{name}.weight"].permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format)
            x = functional.conv2d(x, kernel.permute(0, 3, 1, 2), p[f"{name}.bias"], padding=2)
            x = functional.max_pool2d(x, 2).relu_()
        return functional.linear(x.flatten(1), p["fc1.weight"], p["fc1.bias"]).relu_()


def multiplications(model: Cnn, inputs: tuple[int, ...]) -> tuple[float, float]:
    """Return those of the dense layers, and of the convolutions, the second at a quarter of the pixels."""
    first, second, *dense = (prod(shape) for shape in model.trainable.shapes.values() if len(shape) > 1)
    pixels = prod(inputs[1:])
    return sum(dense), first * pixels + second * pixels / 4


def build(options: CnnOptions, shape: Shape) -> Cnn:
    """Make the CNN for images [depth, height, width] of 4x4 pixels or more."""
    if len(shape.inputs) != 3 or min(shape.inputs[1:]) < 4:
        raise SpecError(f"model.name: 'cnn' takes images [depth, height, width], the data are {shape.inputs}")
    depth, height, width = shape.inputs
    return Cnn((depth, height, width), shape.classes, options.channels, options.hidden)


PLUGIN = Plugin(
    "cnn",
    CnnOptions,
    build,
    "5x5 conv 32, 5x5 conv 64, dense 512 (McMahan et al.)",
    "rFedAvg, Section VI-A; ComFed, Section V",
    multiplications=multiplications,
)
