"""FedAsync: asynchronous federated optimisation."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt

from fedcore.algorithms import AlgorithmOptions, Pen, Plugin, Recipe, Spec, given, recipe
from fedcore.base.errors import SpecError
from fedcore.parts.aggregate import StaleMixing, StalenessDecay
from fedcore.parts.objective import Proximal
from fedcore.parts.schedule import Asynchronous

DEFAULT_A = {"constant": 0.0, "polynomial": 0.5, "hinge": 10.0}


class FedAsyncOptions(AlgorithmOptions):
    """``alpha``: share of a fresh update in the model; ``rho``: weight of the proximal term.

    ``staleness``: how the share decays with the staleness d: not, as (d + 1)^-a, or as 1 / (a (d - b) + 1)
    beyond d = b. ``a`` is .5 (polynomial) or 10 (hinge) unless given. ``max_staleness``: the largest that is
    drawn; ``fresh``: that of an update trained on the newest version. ``participation.fraction`` is unused.
    """

    alpha: Annotated[float, Field(gt=0, le=1)] = 0.6
    staleness: StalenessDecay = "polynomial"
    a: NonNegativeFloat | None = None
    b: NonNegativeFloat = 4.0
    max_staleness: NonNegativeInt = 18
    rho: NonNegativeFloat = 0.01
    fresh: Literal[0, 1] = 0


def build(options: FedAsyncOptions, spec: Spec) -> Recipe:
    """w <- (1 - a_s) w + a_s w_k for one client at a time, trained on an old version with a proximal term."""
    if spec.participation.cohorts or spec.participation.assignments:
        raise SpecError("participation: 'fedasync' has no cohorts, expected events [client, staleness], ...")
    a = given(options.a, DEFAULT_A[options.staleness])
    return recipe(
        schedule=Asynchronous(options.max_staleness),
        aggregate=StaleMixing(options.alpha, options.staleness, a, options.b, options.fresh),
        objective=(Proximal(options.rho),),
    )


PLUGIN = Plugin(
    "fedasync",
    FedAsyncOptions,
    build,
    "one stale client update at a time, mixed in by its staleness",
    "Xie et al., Algorithm 1; RADFed, Section IV-E",
    label="FedAsync",
    pen=Pen("#8C6D1F", "<", ":"),
)
