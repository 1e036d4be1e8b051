"""Recurrent classifiers of token sequences."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from fedcore.base.errors import SpecError
from fedcore.base.lazy import Tensor, functional, torch
from fedcore.base.options import omit_default
from fedcore.base.registry import Plugin
from fedcore.models import Arrays, Layout, Model, ModelOptions, Parameters, Shape, Shapes, draw, layers

GATES = 500  # multiplications that take as long as the gates of a unit do


class LstmOptions(ModelOptions):
    """Keys of the LSTM: width of its state, number of layers, width of a trained embedding.

    ``dense`` is the width of a dense ReLU layer before the head, whose output is the feature then, if any.

    ``embedding`` is for data without token vectors of their own; where the data bring pre-trained
    vectors, those are used and stay fixed.
    """

    hidden: PositiveInt = 256
    layers: PositiveInt = 2
    embedding: PositiveInt = 8
    dense: PositiveInt | None = omit_default(None)


@dataclass(frozen=True, eq=False)
class Lstm(Model):
    """Token embedding, stacked LSTM layers, a dense ReLU layer if asked for, linear head.

    The features are what feeds the head: the dense layer's activations, or the last LSTM output.
    ``vectors`` are fixed token vectors [vocabulary, width], None if they are trained.
    """

    vocabulary: int
    classes: int
    width: int
    hidden: int = 256
    layers: int = 2
    vectors: NDArray[np.float32] | None = None
    dense: int | None = None
    head: str = "fc.weight"

    @cached_property
    def trainable(self) -> Layout:
        """``embedding.weight`` if trained, ``lstm.*_l0``, ``lstm.*_l1``, ..., ``fc.weight``, ``fc.bias``."""
        embedding = {"embedding.weight": (self.vocabulary, self.width)} if self.vectors is None else {}
        return Layout({**embedding, **self._cells(), **self._dense()})

    def initial(self, rng: np.random.Generator) -> Arrays:
        """Draw the embedding from N(0, 1), cells from U(+-1/sqrt(hidden)), the head from U(+-1/sqrt(fan in)).

        Fixed token vectors come as they are.
        """
        vectors = self.vectors
        embedding = rng.standard_normal((self.vocabulary, self.width)) if vectors is None else vectors
        bound = 1.0 / float(np.sqrt(self.hidden))
        cells = {name: rng.uniform(-bound, bound, shape) for name, shape in self._cells().items()}
        return {"embedding.weight": embedding, **cells, **draw(rng, self._dense())}

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return the features [batch, hidden or dense] at the last token, for tokens [batch, length]."""
        steps = functional.embedding(x.T, p["embedding.weight"])
        zeros = steps.new_zeros(self.layers, len(x), self.hidden)
        weights = [p[name] for name in self._cells()]
        state = (zeros, zeros)
        last = torch._VF.lstm(steps, state, weights, True, self.layers, 0.0, False, False, False)[0][-1]
        return functional.linear(last, p["dense.weight"], p["dense.bias"]).relu() if self.dense else last

    def _dense(self) -> Shapes:
        """Return names and shapes of the dense layer, if there is one, and of the head."""
        dense = {"dense": (self.dense, self.hidden)} if self.dense else {}
        return layers({**dense, "fc": (self.classes, self.dense or self.hidden)})

    def _cells(self) -> Shapes:
        """Return names and shapes of the LSTM's weights in PyTorch's order: gates i, f, g, o."""
        shapes: Shapes = {}
        gates = 4 * self.hidden
        for depth in range(self.layers):
            shapes |= {
                f"lstm.weight_ih_l{depth}": (gates, self.hidden if depth else self.width),
                f"lstm.weight_hh_l{depth}": (gates, self.hidden),
                f"lstm.bias_ih_l{depth}": (gates,),
                f"lstm.bias_hh_l{depth}": (gates,),
            }
        return shapes


def multiplications(model: Lstm, inputs: tuple[int, ...]) -> tuple[float, float]:
    """Return those of the layers after the last token, and of the cells at each token with their gates."""
    cells, dense = (
        sum(prod(shape) for shape in shapes.values() if len(shape) > 1)
        for shapes in (model._cells(), model._dense())
    )
    return dense, (cells + GATES * model.layers * model.hidden) * inputs[0]


def build(options: LstmOptions, shape: Shape) -> Lstm:
    """Make the LSTM for token sequences, with the data's token vectors if they have any."""
    if shape.vocabulary is None or len(shape.inputs) != 1:
        raise SpecError(f"model.name: 'lstm' takes sequences of tokens, the data are numbers {shape.inputs}")
    fixed = shape.embeddings
    width = options.embedding if fixed is None else fixed.shape[1]
    return Lstm(shape.vocabulary, shape.classes, width, options.hidden, options.layers, fixed, options.dense)


PLUGIN = Plugin(
    "lstm",
    LstmOptions,
    build,
    "token embedding, two LSTM layers of 256, linear head",
    "rFedAvg, Section VI-A (Sent140); RADFed, Section IV-B (Shakespeare)",
    multiplications=multiplications,
)
