"""FedADC: server momentum, part of it inside the local steps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveFloat

from fedcore.algorithms import AlgorithmOptions, recipe
from fedcore.base.registry import Plugin
from fedcore.parts import Recipe
from fedcore.parts.server import DriftControl
from fedcore.parts.update import EmbeddedMomentum
from fedcore.spec import Spec


class FedAdcOptions(AlgorithmOptions):
    """``server_lr``: alpha. ``beta``: the server's momentum. ``beta_local``: the part of it that the clients
    follow; all of it by default.
    """

    server_lr: PositiveFloat = 1.0
    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta_local: Annotated[float, Field(ge=0, lt=1)] | None = None


def build(options: FedAdcOptions, spec: Spec) -> Recipe:
    """Local steps along g + beta_local m / tau_k, m <- -D / eta + (beta - beta_local) m."""
    local = options.beta if options.beta_local is None else options.beta_local
    return recipe(
        update=EmbeddedMomentum(local),
        server=DriftControl(options.server_lr, options.beta, local),
    )


PLUGIN = Plugin(
    "fedadc",
    FedAdcOptions,
    build,
    "server momentum, normalised and embedded into local steps",
    "Ozfatura et al. (FedADC); ComFed, Table I",
)
