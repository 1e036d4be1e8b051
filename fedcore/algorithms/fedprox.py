"""FedProx: averaging with a proximal local objective."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fedcore.objective.proximal import Proximal
from fedcore.parts import Recipe
from fedcore.recipes import AlgorithmOptions, recipe
from fedcore.registry import Plugin
from fedcore.spec import Spec


class FedProxOptions(AlgorithmOptions):
    """``mu``: weight of the proximal term."""

    mu: Annotated[float, Field(ge=0)] = 1.0


def build(options: FedProxOptions, spec: Spec) -> Recipe:
    """FedAvg plus (mu/2) ||w - w_t||^2 in the local loss."""
    return recipe(objective=(Proximal(options.mu, half=spec.variant == "paper"),))


PLUGIN = Plugin(
    "fedprox",
    FedProxOptions,
    build,
    "a proximal term keeps local models near the global one",
    "Li et al., eq. (2); rFedAvg, Section VI-A",
    released="rFedAvg's code adds mu ||w - w_t||^2, without the 1/2",
)
