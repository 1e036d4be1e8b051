"""MobileNetV2 of which only the last block, the last convolution and the classifier are trained."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedcore.base.errors import SpecError
from fedcore.base.lazy import Module, Tensor, functional, torch, torchvision
from fedcore.base.registry import Plugin
from fedcore.data import Source
from fedcore.data.datasets import mobilenetv2
from fedcore.data.readers import read_npz
from fedcore.models import Layout, Model, ModelOptions, Parameters, Shape, Shapes, draw, layers

LAST_BLOCK = 17
SHRUNK = 32**2  # how many times fewer pixels the trunk's output has than an image
FEATURES = 1280
TRAINED: Shapes = {
    "features.17.conv.0.0.weight": (960, 160, 1, 1),
    **layers({"features.17.conv.0.1": (960,)}),
    "features.17.conv.1.0.weight": (960, 1, 3, 3),
    **layers({"features.17.conv.1.1": (960,)}),
    "features.17.conv.2.weight": (320, 960, 1, 1),
    **layers({"features.17.conv.3": (320,)}),
    "features.18.0.weight": (FEATURES, 320, 1, 1),
    **layers({"features.18.1": (FEATURES,)}),
}


class MobileNetOptions(ModelOptions):
    """Keys of the MobileNetV2 head.

    ``weights``: an edition of the pre-trained weights (``tflite``, ``full``), the path of an .npz file with
    torchvision's names, or ``random`` for a trunk without training. ``resize``: side in pixels to which
    images are enlarged first, 0 for none; the paper does not say. Data of another scaling than the edition
    was trained with (``tflite`` symmetric, ``full`` imagenet) are refused.
    """

    weights: str = "tflite"
    resize: Annotated[int, Field(ge=0)] = 96


@cache
def network() -> "torch.nn.Sequential":
    """Return torchvision's 19 blocks up to the pooling; they hold no numbers."""
    with torch.device("meta"):
        blocks: torch.nn.Sequential = torchvision.models.mobilenet_v2().features.eval()
    return blocks


def arrays_of(blocks: Module) -> Shapes:
    """Return names and shapes of the parameters and stored statistics of blocks."""
    named = blocks.state_dict(prefix="features.").items()
    return {name: tuple(array.shape) for name, array in named if array.dim()}


def _apply(blocks: Module, p: Parameters, x: Tensor) -> Tensor:
    tensors = {name.removeprefix("features."): p[name] for name in arrays_of(blocks)}
    out: Tensor = torch.func.functional_call(blocks, tensors, (x,))
    return out


@dataclass(frozen=True)
class Head(Model):
    """The trained part, on the trunk's output: last bottleneck, last convolution, classifier.

    Batch norms use their stored statistics; their scales and shifts are trained. There is no dropout. The
    features are the means over pixels, 1280 of them.
    """

    classes: int
    head: str = "classifier.1.weight"

    @cached_property
    def trainable(self) -> Layout:
        """``features.17.*``, ``features.18.*`` and ``classifier.1.*`` without the stored statistics."""
        return Layout(TRAINED | self._classifier())

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return the means over pixels [batch, 1280] for the trunk's output [batch, 160, height, width]."""
        return _apply(network()[LAST_BLOCK:], p, x).mean(dim=(2, 3))

    def initial(self, rng: np.random.Generator) -> dict[str, NDArray[np.floating]]:
        """Draw the classifier from U(+-1/sqrt(1280))."""
        return draw(rng, self._classifier())

    def _classifier(self) -> Shapes:
        return layers({"classifier.1": (self.classes, FEATURES)})


@dataclass(frozen=True, eq=False)
class MobileNetV2(Head):
    """The whole network on images; what lies before the last block is fixed.

    ``weights`` are pre-trained arrays by name, None for an untrained trunk, and ``note`` says where they come
    from; ``resize`` is the side to which images are enlarged, or 0.
    """

    weights: Mapping[str, NDArray[np.floating]] | None = None
    resize: int = 0
    note: str = ""

    def initial(self, rng: np.random.Generator) -> dict[str, NDArray[np.floating]]:
        """Return the pre-trained arrays, or draw convolutions from N(0, 2 / fan out); then the classifier."""
        shapes = arrays_of(network())
        if self.weights is None:
            return {name: _drawn(name, shape, rng) for name, shape in shapes.items()} | super().initial(rng)
        for name, shape in shapes.items():
            got = self.weights[name].shape if name in self.weights else "nothing"
            if got != shape:
                raise SpecError(f"model.weights: '{name}': found {got}, expected {shape}")
        return {name: self.weights[name] for name in shapes} | super().initial(rng)

    def trunk(self, p: Parameters, x: Tensor) -> Tensor:
        """Return the fixed part's output [batch, 160, height, width] for images [batch, 3, height, width]."""
        if self.resize:
            x = functional.interpolate(x, (self.resize, self.resize), mode="bilinear", align_corners=False)
        return _apply(network()[:LAST_BLOCK], p, x.to(memory_format=torch.channels_last))

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return the means over pixels [batch, 1280] for images [batch, 3, height, width]."""
        with torch.no_grad():
            x = self.trunk(p, x)
        return super().features(p, x)

    def split(self) -> tuple[Callable[[Parameters, Tensor], Tensor], Model]:
        """Separate the fixed trunk from what is trained."""
        return self.trunk, Head(self.classes)


def _drawn(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.floating]:
    if len(shape) == 1:
        return np.full(shape, float(name.endswith(("weight", "var"))))
    outputs, inputs, kernel, _ = shape
    groups = outputs if inputs == 1 else 1
    return rng.normal(0.0, np.sqrt(2 * groups / (kernel**2 * outputs)), shape)


def build(options: MobileNetOptions, shape: Shape) -> MobileNetV2:
    """Make the network for colour images that are scaled as those that its weights were trained with."""
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


def _weights(weights: str, source: Source) -> tuple[Mapping[str, NDArray[np.floating]] | None, str]:
    if weights == "random":
        return None, "MobileNetV2 with an untrained trunk"
    if weights in mobilenetv2.DECLARATION.editions:
        return mobilenetv2.weights(weights, source), mobilenetv2.DECLARATION.editions[weights].note
    if not (path := Path(weights)).is_file():
        editions = ", ".join(mobilenetv2.DECLARATION.editions)
        raise SpecError(f"model.weights: no file {path}, expected {editions}, random or an .npz file's path")
    names = arrays_of(network())
    arrays = dict(zip(names, read_npz(path, *names), strict=True))
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
            raise SpecError(f"model.weights: '{name}' in {path} is not finite numbers")
    return arrays, f"MobileNetV2 weights of {path.name}"


PLUGIN = Plugin(
    "mobilenetv2_head",
    MobileNetOptions,
    build,
    "MobileNetV2 with a fixed trunk; last block, last convolution and classifier are trained",
    "RADFed, Section IV-B (CIFAR-10)",
    multiplications=multiplications,
)
