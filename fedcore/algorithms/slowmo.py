"""SlowMo: slow momentum between rounds of local steps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fedcore.algorithms import recipe
from fedcore.algorithms.fedavgm import MomentumOptions
from fedcore.base.registry import Plugin
from fedcore.parts import Recipe
from fedcore.parts.server import SlowMomentum
from fedcore.spec import Spec


class SlowMoOptions(MomentumOptions):
    """``server_lr``: alpha, the slow learning rate. ``beta``: the slow momentum."""

    beta: Annotated[float, Field(ge=0, lt=1)] = 0.7


def build(options: SlowMoOptions, spec: Spec) -> Recipe:
    """u <- beta u - D / gamma, w <- w - server_lr gamma u, gamma the round's local learning rate."""
    return recipe(server=SlowMomentum(options.server_lr, options.beta))


PLUGIN = Plugin(
    "slowmo",
    SlowMoOptions,
    build,
    "slow momentum, in units of the local learning rate",
    "Wang et al. (SlowMo), Algorithm 1; ComFed, Table I",
)
