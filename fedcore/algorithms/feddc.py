"""FedDC: local drift, decoupled from the model and corrected."""

from __future__ import annotations

from pydantic import NonNegativeFloat

from fedcore.algorithms import AlgorithmOptions, recipe
from fedcore.base.registry import Plugin
from fedcore.parts import Recipe
from fedcore.parts.aggregate import DriftCorrectedMean
from fedcore.parts.objective import DriftPenalty
from fedcore.parts.update import ControlVariates
from fedcore.spec import Spec


class FedDcOptions(AlgorithmOptions):
    """``alpha``: weight of the penalty on model plus drift."""

    alpha: NonNegativeFloat = 0.01


def build(options: FedDcOptions, spec: Spec) -> Recipe:
    """A drift penalty, gradients corrected by mean less own update, and the mean of drift-corrected models.

    The correction 1/(tau_k eta) <w, g_k - g> with g_k the client's and g the mean update is kept as the
    authors' code keeps it: g_k counts what the client moved without its own correction, which is
    SCAFFOLD's second option with controls weighted by sample counts.
    """
    return recipe(
        objective=(DriftPenalty(options.alpha),),
        update=ControlVariates(option=2, averaging="nk"),
        aggregate=DriftCorrectedMean(),
    )


PLUGIN = Plugin(
    "feddc",
    FedDcOptions,
    build,
    "a drift variable a client: penalised locally, added before averaging",
    "Gao et al., Algorithm 1; ComFed, Table I",
)
