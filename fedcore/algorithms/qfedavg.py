"""q-FedAvg: a fair objective that gives clients with a larger loss more weight."""

from __future__ import annotations

from pydantic import NonNegativeFloat, PositiveFloat

from fedcore.algorithms import AlgorithmOptions, recipe
from fedcore.base.options import omit_default
from fedcore.base.registry import Plugin
from fedcore.parts import Recipe
from fedcore.parts.aggregate import Fair, Weights
from fedcore.spec import Spec


class QFedAvgOptions(AlgorithmOptions):
    """``q``: how much a larger loss counts; 0 is the plain mean. ``weights``: plain or n_k-weighted sums.

    ``lipschitz``: L; 1 / learning rate unless given.
    """

    q: NonNegativeFloat = 1.0
    weights: Weights = "uniform"
    lipschitz: PositiveFloat | None = omit_default(None)


def build(options: QFedAvgOptions, spec: Spec) -> Recipe:
    """FedAvg's local steps, merged by q-FFL's rule."""
    return recipe(aggregate=Fair(options.q, options.weights, options.lipschitz, spec.variant == "released"))


PLUGIN = Plugin(
    "qfedavg",
    QFedAvgOptions,
    build,
    "fair aggregation by powers of the clients' losses",
    "Li et al. (q-FFL), Algorithm 2; rFedAvg, Section VI-A",
    released="in rFedAvg's code h_k has the squared norm of the change scaled by F_k^q, and L is a value of "
    "its own (lipschitz)",
    label="q-FedAvg",
    colour="#CC79A7",
    marker="v",
)
