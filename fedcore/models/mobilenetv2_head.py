"""MobileNetV2 of which only the last block, the last convolution and the classifier are trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from math import prod
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedcore.base.errors import SpecError
from fedcore.base.lazy import Tensor, functional, torch
from fedcore.base.registry import Plugin
from fedcore.data import Source
from fedcore.data.datasets import mobilenetv2
from fedcore.data.readers import read_npz
from fedcore.models import Classifier, Layout, ModelOptions, Parameters, Shape, Shapes, Split, draw, layers

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
LAST_BLOCK = 17
SHRUNK = 32**2  # how many times fewer pixels the trunk's output has than an image
FEATURES = 1280
NORM = ("weight", "bias", "running_mean", "running_var")
EPSILON = 1e-5


class MobileNetOptions(ModelOptions):
    """Keys of the MobileNetV2 head.

    ``weights``: an edition of the pre-trained weights (``tflite``, ``full``), the path of an .npz file with
    torchvision's names, or ``random`` for a trunk without training. ``resize``: side in pixels to which
    images are enlarged first, 0 for none; the paper does not say. Data of another scaling than the edition
    was trained with (``tflite`` symmetric, ``full`` imagenet) are refused.
    """

    weights: str = "tflite"
    resize: Annotated[int, Field(ge=0)] = 96


@dataclass(frozen=True)
class Unit:
    """A convolution without bias, batch norm by stored statistics, and ReLU6 unless it ends a bottleneck."""

    conv: str
    norm: str
    inputs: int
    outputs: int
    kernel: int
    stride: int
    groups: int
    active: bool

    @property
    def shapes(self) -> Shapes:
        """Names and shapes of the unit's arrays."""
        weight = (self.outputs, self.inputs // self.groups, self.kernel, self.kernel)
        return {f"{self.conv}.weight": weight} | {f"{self.norm}.{name}": (self.outputs,) for name in NORM}

    def __call__(self, p: Parameters, x: Tensor) -> Tensor:
        """Apply the unit to images [batch, inputs, height, width]."""
        x = functional.conv2d(
            x, p[f"{self.conv}.weight"], stride=self.stride, padding=self.kernel // 2, groups=self.groups
        )
        weight, bias, mean, var = (p[f"{self.norm}.{name}"] for name in NORM)
        x = functional.batch_norm(x, mean, var, weight, bias, training=False, eps=EPSILON)
        return x.clamp(0, 6) if self.active else x


@cache
def blocks() -> tuple[tuple[Unit, ...], ...]:
    """Return the network's 19 blocks up to the pooling, under torchvision's names."""
    network: list[tuple[Unit, ...]] = [(Unit("features.0.0", "features.0.1", 3, 32, 3, 2, 1, True),)]
    width = 32
    for expansion, outputs, count, stride in STAGES:
        for k in range(count):
            network.append(
                tuple(_bottleneck(len(network), width, outputs, expansion, stride if k == 0 else 1))
            )
            width = outputs
    last = f"features.{len(network)}"
    return (*network, (Unit(f"{last}.0", f"{last}.1", width, FEATURES, 1, 1, 1, True),))


def _bottleneck(index: int, inputs: int, outputs: int, expansion: int, stride: int) -> Iterator[Unit]:
    name, wide, at = f"features.{index}.conv", inputs * expansion, 0
    if expansion > 1:
        yield Unit(f"{name}.0.0", f"{name}.0.1", inputs, wide, 1, 1, 1, True)
        at = 1
    yield Unit(f"{name}.{at}.0", f"{name}.{at}.1", wide, wide, 3, stride, wide, True)
    yield Unit(f"{name}.{at + 1}", f"{name}.{at + 2}", wide, outputs, 1, 1, 1, False)


def _run(units: tuple[Unit, ...], p: Parameters, x: Tensor) -> Tensor:
    """Apply a block, with a shortcut where a bottleneck keeps its input's shape."""
    y = x
    for unit in units:
        y = unit(p, y)
    shortcut = len(units) > 1 and y.shape == x.shape
    return x + y if shortcut else y


@dataclass(frozen=True)
class Head(Classifier):
    """The trained part, on the trunk's output: last bottleneck, last convolution, classifier.

    Batch norms use their stored statistics; their scales and shifts are trained. There is no dropout. The
    features are the means over pixels, 1280 of them.
    """

    classes: int
    head: str = "classifier.1.weight"

    @property
    def trainable(self) -> Layout:
        """``features.17.*``, ``features.18.*`` and ``classifier.1.*`` without the stored statistics."""
        shapes = {
            name: shape
            for unit in chain(*blocks()[LAST_BLOCK:])
            for name, shape in unit.shapes.items()
            if "running" not in name
        }
        return Layout(shapes | self._classifier())

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return the means over pixels [batch, 1280] for the trunk's output [batch, 160, height, width]."""
        for units in blocks()[LAST_BLOCK:]:
            x = _run(units, p, x)
        return x.mean(dim=(2, 3))

    def initial(self, rng: np.random.Generator) -> dict[str, NDArray[np.floating]]:
        """Draw the classifier from U(+-1/sqrt(1280))."""
        return draw(rng, self._classifier())

    def _classifier(self) -> Shapes:
        return layers({"classifier.1": (self.classes, FEATURES)})


@dataclass(frozen=True, eq=False)
class MobileNetV2(Head):
    """The whole network on images; what lies before the last block is fixed.

    Attributes:
        weights: pre-trained arrays by name, or None for an untrained trunk.
        resize: side to which images are enlarged, or 0.
        note: where the weights come from.
    """

    weights: Mapping[str, NDArray[np.floating]] | None = None
    resize: int = 0
    note: str = ""

    def initial(self, rng: np.random.Generator) -> dict[str, NDArray[np.floating]]:
        """Return the pre-trained arrays, or draw convolutions from N(0, 2 / fan out); then the classifier."""
        arrays: dict[str, NDArray[np.floating]] = {}
        for unit in chain(*blocks()):
            arrays |= _drawn(unit, rng) if self.weights is None else self._stored(unit)
        return arrays | super().initial(rng)

    def trunk(self, p: Parameters, x: Tensor) -> Tensor:
        """Return the fixed part's output [batch, 160, height, width] for images [batch, 3, height, width]."""
        if self.resize:
            x = functional.interpolate(x, (self.resize, self.resize), mode="bilinear", align_corners=False)
        x = x.to(memory_format=torch.channels_last)
        for units in blocks()[:LAST_BLOCK]:
            x = _run(units, p, x)
        return x

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return the means over pixels [batch, 1280] for images [batch, 3, height, width]."""
        with torch.no_grad():
            x = self.trunk(p, x)
        return super().features(p, x)

    def split(self) -> Split:
        """Separate the fixed trunk from what is trained."""
        return Split(self.trunk, Head(self.classes))

    def _stored(self, unit: Unit) -> dict[str, NDArray[np.floating]]:
        assert self.weights is not None
        for name, shape in unit.shapes.items():
            got = self.weights[name].shape if name in self.weights else "nothing"
            if got != shape:
                raise SpecError(f"model.weights: '{name}': found {got}, expected {shape}")
        return {name: self.weights[name] for name in unit.shapes}


def _drawn(unit: Unit, rng: np.random.Generator) -> dict[str, NDArray[np.floating]]:
    arrays: dict[str, NDArray[np.floating]] = {}
    for name, shape in unit.shapes.items():
        if len(shape) > 1:
            deviation = np.sqrt(2 * unit.groups / (unit.kernel**2 * unit.outputs))
            arrays[name] = rng.normal(0.0, deviation, shape)
        else:
            arrays[name] = np.full(shape, float(name.endswith(("weight", "var"))))
    return arrays


def build(options: MobileNetOptions, shape: Shape) -> MobileNetV2:
    """Make the network for colour images.

    Raises:
        SpecError: the data are no colour images or scaled otherwise, or the weights do not fit.
        DataError: the weights can't be had.
    """
    if len(shape.inputs) != 3 or shape.inputs[0] != 3:
        raise SpecError(
            f"model.name: 'mobilenetv2_head' takes images [3, height, width], the data are {shape.inputs}"
        )
    expected = mobilenetv2.SCALINGS.get(options.weights, shape.scaling)
    if shape.scaling not in {"", expected}:
        raise SpecError(
            f"data.scaling: got '{shape.scaling}', expected '{expected}', with which the weights "
            f"'{options.weights}' of model.weights were trained"
        )
    weights, note = _weights(options.weights, shape.source)
    return MobileNetV2(shape.classes, weights=weights, resize=options.resize, note=note)


def multiplications(model: MobileNetV2, inputs: tuple[int, ...]) -> tuple[float, float]:
    """Return those of the classifier, and of the trained convolutions on the trunk's output."""
    pixels = (model.resize**2 or prod(inputs[1:])) / SHRUNK
    sizes = {name: prod(shape) for name, shape in model.trainable.shapes.items() if len(shape) > 1}
    classifier = sizes.pop(model.head)
    return classifier, sum(sizes.values()) * pixels


def _weights(given: str, source: Source) -> tuple[Mapping[str, NDArray[np.floating]] | None, str]:
    if given == "random":
        return None, "MobileNetV2 with an untrained trunk"
    if given in mobilenetv2.DECLARATION.editions:
        return mobilenetv2.weights(given, source), mobilenetv2.DECLARATION.editions[given].note
    path = Path(given)
    if not path.is_file():
        known = ", ".join(mobilenetv2.DECLARATION.editions)
        raise SpecError(
            f"model.weights: no file {path}, expected {known}, random or the path of an .npz file"
        )
    names = [name for unit in chain(*blocks()) for name in unit.shapes]
    return dict(zip(names, read_npz(path, *names), strict=True)), f"MobileNetV2 weights of {path.name}"


PLUGIN = Plugin(
    "mobilenetv2_head",
    MobileNetOptions,
    build,
    "MobileNetV2 with a fixed trunk; last block, last convolution and classifier are trained",
    "RADFed, Section IV-B (CIFAR-10)",
    multiplications=multiplications,
)
