"""Random Fourier features with a linear head: fixed features, or trained ones."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import pi, sqrt
from typing import Literal

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from fedcore.base.lazy import Tensor, torch
from fedcore.models import Arrays, Layout, Model, ModelOptions, Parameters, Plugin, Shape, flat_numbers
from fedcore.models.dense import linear


class RffOptions(ModelOptions):
    """Keys of the random-feature model.

    ``scale`` multiplies the cosine: ``inv_sqrt_d`` is 1/sqrt(D) (DL-opt), ``sqrt2`` is sqrt(2)
    (FedAvgR), ``sqrt_2_over_d`` is Rahimi and Recht's, or a number. ``sigma`` is the standard deviation
    of omega, the kernel's parameter. ``learnable`` trains omega and phase together with the head.
    """

    features: PositiveInt = 2000
    scale: Literal["inv_sqrt_d", "sqrt2", "sqrt_2_over_d"] | PositiveFloat = "inv_sqrt_d"
    sigma: PositiveFloat = 0.1
    learnable: bool = False


@dataclass(frozen=True)
class RffLinear(Model):
    """f(x) = W phi(x), phi(x) = scale cos(x omega + phase); no bias."""

    inputs: int
    classes: int
    width: int
    scale: float
    sigma: float
    learnable: bool
    head: str = "weight"

    @cached_property
    def trainable(self) -> Layout:
        """W [classes, D]; with learnable features omega [inputs, D] and phase [D] too."""
        shapes: dict[str, tuple[int, ...]] = {"weight": (self.classes, self.width)}
        phi = {"omega": (self.inputs, self.width), "phase": (self.width,)}
        return Layout(shapes | (phi if self.learnable else {}))

    def initial(self, rng: np.random.Generator) -> Arrays:
        """Draw omega ~ N(0, sigma^2), phase ~ U[0, 2 pi], W Xavier-uniform."""
        bound = sqrt(6.0 / (self.classes + self.width))
        return {
            "omega": rng.normal(0.0, self.sigma, (self.inputs, self.width)),
            "phase": rng.uniform(0.0, 2 * pi, self.width),
            "weight": rng.uniform(-bound, bound, (self.classes, self.width)),
        }

    def split(self) -> tuple[Callable[[Parameters, Tensor], Tensor], Model] | None:
        """With fixed features the rest is a linear model on them."""
        return None if self.learnable else (self.features, linear(self.width, self.classes, bias=False))

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return scale cos(x omega + phase) [batch, D]."""
        return torch.addmm(p["phase"], x.reshape(len(x), -1), p["omega"]).cos().mul_(self.scale)


def build(options: RffOptions, shape: Shape) -> RffLinear:
    """Make the random-feature model for the data's shape."""
    width = options.features
    scales = {"inv_sqrt_d": 1 / sqrt(width), "sqrt2": sqrt(2), "sqrt_2_over_d": sqrt(2 / width)}
    scale = scales[options.scale] if isinstance(options.scale, str) else options.scale
    return RffLinear(flat_numbers(shape), shape.classes, width, scale, options.sigma, options.learnable)


PLUGIN = Plugin(
    "rff_linear",
    RffOptions,
    build,
    "random Fourier features and a linear head",
    "DL-opt / FedOMW, Section 5.1; FedAvgR, Section 5",
)
