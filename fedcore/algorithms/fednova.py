"""FedNova: clients' changes are normalised by how much work went into them."""

from typing import Any

from pydantic import NonNegativeFloat

from fedcore.algorithms import AlgorithmOptions, Pen, Plugin, Spec, linear, recipe
from fedcore.parts.aggregate import Effective, NormalisedMean
from fedcore.parts.objective import Proximal


class FedNovaOptions(AlgorithmOptions):
    """``mu``: weight of a proximal term in the local loss. Local momentum is ``training.momentum``.

    ``tau_eff``: the effective number of steps is the mean ``norm`` ||a_k||_1, the mean number of ``steps``,
    or ``one``, where the mean of the normalised changes is not scaled again.
    """

    mu: NonNegativeFloat = 0.0
    tau_eff: Effective = "norm"


def normalised(options: FedNovaOptions, spec: Spec) -> dict[str, Any]:
    """Return the averaging, for optimizers that accumulate gradients linearly, and any proximal term."""
    mean = linear(spec, "normalised averaging", NormalisedMean(options.mu, options.tau_eff))
    return {"objective": (Proximal(options.mu),) if options.mu else (), "aggregate": mean}


PLUGIN = Plugin(
    "fednova",
    FedNovaOptions,
    lambda options, spec: recipe(**normalised(options, spec)),
    "changes normalised by the clients' numbers and kinds of local steps",
    "Wang et al. (FedNova); ComFed, Section III-D",
    label="FedNova",
    pen=Pen("#7F7F7F", "d", ":"),
)
