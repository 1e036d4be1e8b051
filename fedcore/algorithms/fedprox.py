"""FedProx: averaging with a proximal local objective."""

from typing import Literal

from pydantic import NonNegativeFloat

from fedcore.algorithms import AlgorithmOptions, Pen, Plugin, Recipe, Spec, given, omit_default, recipe
from fedcore.parts.objective import Proximal
from fedcore.parts.schedule import Chained, Synchronous


class FedProxOptions(AlgorithmOptions):
    """``mu``: weight of the proximal term.

    ``norm: plain`` and ``chained`` (clients one after another, each from the model that the one before it
    left) make it the baseline that DL-opt's and FedOMW's code runs. ``half``: the squared distance counts
    half, as in ``variant: paper``, whose default it is.
    """

    mu: NonNegativeFloat = 1.0
    norm: Literal["squared", "plain"] = "squared"
    chained: bool = False
    half: bool | None = omit_default(None)


def build(options: FedProxOptions, spec: Spec) -> Recipe:
    """FedAvg plus (mu/2) ||w - w_t||^2 in the local loss."""
    half = given(options.half, spec.variant == "paper")
    prox = Proximal(options.mu, half=half, squared=options.norm == "squared")
    return recipe(objective=(prox,), schedule=Chained() if options.chained else Synchronous())


PLUGIN = Plugin(
    "fedprox",
    FedProxOptions,
    build,
    "a proximal term keeps local models near the global one",
    "Li et al. (FedProx), eq. (2); rFedAvg, Section VI-A",
    released="rFedAvg's code adds mu ||w - w_t||^2, without the 1/2 (FedOMW's is norm: plain, chained: true)",
    label="FedProx",
    pen=Pen("#E69F00", "s"),
)
