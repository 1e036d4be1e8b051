"""Mime and MimeLite: local steps with the server's momentum and a variance-reduced gradient."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fedcore.algorithms import AlgorithmOptions, recipe
from fedcore.base.registry import Plugin
from fedcore.parts import Recipe
from fedcore.parts.aggregate import Weights, averaging
from fedcore.parts.update import Mimicry
from fedcore.spec import Spec


class MimeOptions(AlgorithmOptions):
    """``beta``: momentum. ``lite``: without the variance reduction (MimeLite).

    ``averaging``: models and gradients of the cohort weigh by sample counts (``nk``, as ComFed averages) or
    all alike (``uniform``, as the paper prints it).
    """

    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9
    lite: bool = False
    averaging: Weights = "nk"


def build(options: MimeOptions, spec: Spec) -> Recipe:
    """FedAvg with local steps along (1 - beta) (g - g(w) + c) + beta s."""
    return recipe(
        update=Mimicry(options.beta, options.lite, options.averaging),
        aggregate=averaging(options.averaging),
    )


PLUGIN = Plugin(
    "mime",
    MimeOptions,
    build,
    "local steps mimic centralised training with momentum",
    "Karimireddy et al. (Mime), Algorithm 1; ComFed, Table I",
)
