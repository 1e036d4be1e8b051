"""What a model is: pure functions of named parameters. Each module beside this one holds models."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from os.path import isfile
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import SpecError as SpecError
from fedcore.base.errors import shown
from fedcore.base.lazy import Tensor, functional, torch
from fedcore.base.options import Options
from fedcore.base.registry import Plugin as Plugin
from fedcore.data import Source

Parameters = Mapping[str, "Tensor"]
Buffers = dict[str, Tensor]
Arrays = dict[str, NDArray[np.floating]]
Shapes = dict[str, tuple[int, ...]]


class ModelOptions(Options):
    """Keys of every model.

    ``init``: ``zeros``, ``default`` (the model's own random start) or the path of an .npz file with the
    parameters under their names.
    """

    init: str = "default"


@dataclass(frozen=True)
class Shape:
    """What a model must know of the data: one input's shape, classes, and token vocabulary if any.

    ``embeddings`` are token vectors [vocabulary, width]; ``source`` is where a model finds pre-trained
    weights; ``scaling`` names how the inputs were scaled, empty where the data do not say.
    """

    inputs: tuple[int, ...]
    classes: int
    vocabulary: int | None = None
    embeddings: NDArray[np.float32] | None = None
    source: Source = field(default_factory=Source)
    scaling: str = ""


def flat_numbers(shape: Shape) -> int:
    """Return how many numbers a row has; refuse indices of tokens."""
    if shape.vocabulary is not None:
        raise SpecError("model.name: the data are tokens, expected a model of tokens, such as 'lstm'")
    return prod(shape.inputs)


class Model(ABC):
    """A model as functions: unless it says otherwise a classifier with PyTorch's random start, a linear
    output layer, softmax cross-entropy and arg-max accuracy.

    ``head`` names the output layer's weight [classes, features]; ``classifies``: scores are those of classes.
    """

    head: str
    classifies: ClassVar[bool] = True

    @property
    @abstractmethod
    def trainable(self) -> "Layout":
        """Names and shapes of what is trained, averaged and sent; other arrays of ``initial`` are fixed."""

    def initial(self, rng: np.random.Generator) -> Arrays:
        """Draw start values of all parameters and buffers: each layer from U(+-1/sqrt(fan in))."""
        return draw(rng, self.trainable.shapes)

    @abstractmethod
    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return phi(x) [batch, features]: what feeds the output layer."""

    def scores(self, p: Parameters, phi: Tensor) -> Tensor:
        """Return the output [batch, classes] for features ``phi``, with a bias if there is one."""
        return functional.linear(phi, p[self.head], p.get(self.head.removesuffix("weight") + "bias"))

    def losses(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return the loss of each sample [batch]."""
        return functional.cross_entropy(scores, y, reduction="none")

    def correct(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return whether each sample is classified correctly: the largest score is the label's [batch]."""
        return scores.argmax(dim=-1) == y

    def split(self) -> "tuple[Callable[[Parameters, Tensor], Tensor], Model] | None":
        """Return the model in two parts: a trunk that maps rows [batch, ...] and is not trained, and a model
        that takes its output and has all that is trained; None if no part is fixed.
        """
        return None


def layers(weights: Shapes) -> Shapes:
    """Return the parameters of layers by name: each one's weight [out, in, ...] and bias [out]."""
    shapes: Shapes = {}
    for name, weight in weights.items():
        shapes |= {f"{name}.weight": weight, f"{name}.bias": weight[:1]}
    return shapes


def draw(rng: np.random.Generator, shapes: Shapes) -> Arrays:
    """Draw each weight, and the bias after it, from U(+-1/sqrt(fan in)), PyTorch's default."""
    arrays: Arrays = {}
    bound = 1.0
    for name, shape in shapes.items():
        if len(shape) > 1:
            bound = 1.0 / float(np.sqrt(np.prod(shape[1:])))
        arrays[name] = rng.uniform(-bound, bound, shape)
    return arrays


def initialise(
    model: Model, init: str, rng: np.random.Generator, dtype: "torch.dtype"
) -> tuple[Tensor, Buffers]:
    """Return a model's start vector [d] and fixed buffers; SpecError if a file ``init`` does not fit it."""
    arrays, shapes = model.initial(rng), model.trainable.shapes
    if init == "zeros":
        arrays |= {name: np.zeros(shape) for name, shape in shapes.items()}
    elif init != "default":
        arrays |= _read(Path(init), arrays, set(shapes))
    flat = model.trainable.flatten(arrays, dtype)
    fixed = {name: array for name, array in arrays.items() if name not in shapes}
    return flat, {name: torch.as_tensor(array, dtype=dtype) for name, array in fixed.items()}


def _read(path: Path, drawn: Arrays, needed: set[str]) -> Arrays:
    """Read the arrays of a file: all that are needed, and maybe others of those drawn, in their shapes."""
    if not isfile(path):
        raise SpecError(
            f"model.init: no file {shown(str(path))}, expected 'zeros', 'default' or the path of an .npz file"
        )
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except Exception as error:
        raise SpecError(f"model.init: {path} is no readable .npz file ({error})") from None
    unknown, missing = sorted(set(arrays) - set(drawn)), sorted(needed - set(arrays))
    if unknown or missing:
        found = f"holds '{unknown[0]}'" if unknown else f"lacks '{missing[0]}'"
        raise SpecError(f"model.init: {path} {found}, expected parameters {', '.join(sorted(drawn))}")
    for name, array in arrays.items():
        with np.errstate(over="ignore"):
            arrays[name] = array.astype(np.float64) if array.dtype.kind == "f" else np.array(np.nan)
        if not np.isfinite(arrays[name]).all():
            raise SpecError(f"model.init: '{name}' in {path} is not finite floating-point numbers")
        if array.shape != (shape := np.shape(drawn[name])):
            raise SpecError(f"model.init: '{name}' in {path} has shape {array.shape}, expected {shape}")
    return arrays


@dataclass(frozen=True)
class Layout:
    """Names and shapes of parameters, in their order in the flat vector."""

    shapes: Shapes

    @cached_property
    def size(self) -> int:
        """Length d of the flat vector."""
        return sum(self._lengths)

    @cached_property
    def _lengths(self) -> list[int]:
        return [prod(shape) for shape in self.shapes.values()]

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Return named views into ``flat`` [..., d]; writing to one writes to the vector."""
        lead = flat.shape[:-1]
        parts = zip(self.shapes.items(), flat.split_with_sizes(self._lengths, -1), strict=True)
        return {name: part.view((*lead, *shape)) for (name, shape), part in parts}

    def flatten(self, arrays: Mapping[str, NDArray[np.floating]], dtype: "torch.dtype") -> Tensor:
        """Copy named arrays into a new vector [d]; SpecError if one is missing or has another shape."""
        flat = torch.empty(self.size, dtype=dtype)
        for name, view in self.views(flat).items():
            found = arrays[name].shape if name in arrays else "nothing"
            if found != view.shape:
                raise SpecError(f"model: start of '{name}': found {found}, expected {tuple(view.shape)}")
            view.copy_(torch.as_tensor(arrays[name]))
        return flat

    def arrays(self, flat: Tensor) -> Arrays:
        """Copy a flat vector [d] out into named arrays."""
        return {name: view.detach().cpu().numpy().copy() for name, view in self.views(flat).items()}
