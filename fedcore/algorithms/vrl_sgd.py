"""VRL-SGD: variance-reduced local SGD."""

from __future__ import annotations

from fedcore.algorithms import AlgorithmOptions, recipe
from fedcore.base.registry import Plugin
from fedcore.parts import Recipe
from fedcore.parts.aggregate import Weights, averaging
from fedcore.parts.update import Deviations
from fedcore.spec import Spec


class VrlSgdOptions(AlgorithmOptions):
    """``averaging``: clients weigh by sample counts (``nk``, as ComFed averages) or all alike (``uniform``,
    as the paper does).
    """

    averaging: Weights = "nk"


def build(options: VrlSgdOptions, spec: Spec) -> Recipe:
    """FedAvg with local steps along g - Delta_k."""
    return recipe(update=Deviations(), aggregate=averaging(options.averaging))


PLUGIN = Plugin(
    "vrl_sgd",
    VrlSgdOptions,
    build,
    "local gradients corrected by the client's deviation from the mean model",
    "Liang et al., Algorithm 1; ComFed, Table I",
)
