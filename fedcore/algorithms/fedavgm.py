"""FedAvgM: momentum on the server."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveFloat

from fedcore.algorithms import AlgorithmOptions, recipe
from fedcore.base.registry import Plugin
from fedcore.parts import Recipe
from fedcore.parts.server import ServerMomentum
from fedcore.spec import Spec


class MomentumOptions(AlgorithmOptions):
    """``server_lr``: the server's learning rate. ``beta``: how much of the past a round keeps."""

    server_lr: PositiveFloat = 1.0
    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9


def build(options: MomentumOptions, spec: Spec) -> Recipe:
    """v <- beta v + D, w <- w + server_lr v."""
    return recipe(server=ServerMomentum(options.server_lr, options.beta))


PLUGIN = Plugin(
    "fedavgm",
    MomentumOptions,
    build,
    "momentum on the averaged change",
    "Hsu et al.; ComFed, Table I",
)
