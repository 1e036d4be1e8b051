"""A scalar model on quadratic losses: the smallest federated problem with a known answer."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedcore.base.lazy import Tensor
from fedcore.models import Arrays, Layout, Model, ModelOptions, Parameters, Plugin, Shape, SpecError


class QuadraticOptions(ModelOptions):
    """Keys of the scalar model; it starts at zero by default."""

    init: str = "zeros"


@dataclass(frozen=True)
class ScalarQuadratic(Model):
    """Loss (h/2) (w - c)^2 of one parameter w, for a sample x = (h, c)."""

    head: str = "w"
    classifies = False

    @cached_property
    def trainable(self) -> Layout:
        """One number, ``w`` [1]."""
        return Layout({"w": (1,)})

    def initial(self, rng: np.random.Generator) -> Arrays:
        """Draw w from a standard normal."""
        return {"w": rng.standard_normal(1)}

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return the sample (h, c) itself [batch, 2]."""
        return x

    def scores(self, p: Parameters, phi: Tensor) -> Tensor:
        """Return sqrt(h/2) (w - c) [batch, 1], whose square is the loss."""
        return (phi[:, :1] / 2).sqrt() * (p["w"] - phi[:, 1:])

    def losses(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return (h/2) (w - c)^2 of each sample [batch]."""
        return scores.square().sum(dim=-1)

    def correct(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return False for each sample: there is nothing to classify."""
        return scores[..., 0] != scores[..., 0]


def build(options: QuadraticOptions, shape: Shape) -> ScalarQuadratic:
    """Make the scalar model for data of (curvature, centre) pairs."""
    if shape.inputs != (2,):
        raise SpecError(f"model.name: 'scalar_quadratic' takes data 'quadratics', found {shape.inputs}")
    return ScalarQuadratic()


PLUGIN = Plugin(
    "scalar_quadratic",
    QuadraticOptions,
    build,
    "one parameter, quadratic loss",
    "rFedAvg, Section V (strongly convex case)",
)
