"""rFedAvg and rFedAvg+: local objectives regularised towards the other clients' feature distributions."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat

from fedcore.algorithms import AlgorithmOptions, Pen, Plugin, Recipe, Spec, given, omit_default, recipe
from fedcore.parts.aggregate import PlainMean
from fedcore.parts.exchange import BatchMeans, FeatureMeans, When
from fedcore.parts.objective import MmdToOthers


class RFedAvgOptions(AlgorithmOptions):
    """``lambda``: weight of the distribution regulariser.

    ``noise_sigma`` and ``clip`` (C_0): Gaussian noise of standard deviation noise_sigma * clip / L on
    each delta, L the batch size. ``delta_start``: the first deltas come from the initial ``model`` or are
    ``zero``. ``delta_precision: bf16`` computes the features that a delta is the mean of in bfloat16.
    ``deltas_of``: the others are ``all`` clients with their last deltas, or those of the round's ``cohort``.
    ``delta_before``: the round's clients compute delta on one batch before they train, and models are
    averaged plainly, as in ``variant: released``, whose default it is; ``delta_start``, ``deltas_of``,
    ``delta_model`` and ``include_self`` then don't count.
    """

    lam: Annotated[float, Field(alias="lambda", ge=0)] = 1e-4
    noise_sigma: NonNegativeFloat = 0.0
    clip: PositiveFloat = 1.0
    delta_start: Literal["model", "zero"] = "model"
    delta_precision: Literal["fp32", "bf16"] = omit_default("fp32")
    deltas_of: Literal["all", "cohort"] = omit_default("all")
    delta_before: bool | None = omit_default(None)


class PairwiseOptions(RFedAvgOptions):
    """``delta_model``: a client's delta comes from its ``local`` model after training, or from the model
    that it ``received``. ``distances``: their ``mean`` over the other clients counts, or their ``sum``.
    """

    delta_model: Literal["local", "received"] = "local"
    distances: Literal["mean", "sum"] = "mean"


class PlusOptions(RFedAvgOptions):
    """``include_self``: the mean of the others' deltas includes the client's own."""

    include_self: bool = False


def build_rfedavg(options: PairwiseOptions, spec: Spec) -> Recipe:
    """FedAvg plus lambda/(N-1) sum_{j != k} ||delta_k - delta_j||^2, delta_j from local models."""
    term = MmdToOthers(options.lam, pairwise=True, summed=options.distances == "sum")
    return _recipe("local", options, spec, term, at_start=options.delta_model == "received")


def build_plus(options: PlusOptions, spec: Spec) -> Recipe:
    """FedAvg plus lambda ||delta_k - mean_{j != k} delta_j||^2, delta_j from the new global model."""
    include = options.include_self or _before(options, spec)
    return _recipe("global", options, spec, MmdToOthers(options.lam, pairwise=False, include_self=include))


def _before(options: RFedAvgOptions, spec: Spec) -> bool:
    return given(options.delta_before, spec.variant == "released")


def _recipe(
    when: When, options: RFedAvgOptions, spec: Spec, term: MmdToOthers, at_start: bool = False
) -> Recipe:
    shared = (when, options.noise_sigma * options.clip, options.delta_precision)
    if _before(options, spec):
        return recipe(objective=(term,), exchange=(BatchMeans(*shared),), aggregate=PlainMean())
    zero, cohort_only = options.delta_start == "zero", options.deltas_of == "cohort"
    means = FeatureMeans(*shared, at_start=at_start, zero=zero, cohort_only=cohort_only)
    return recipe(objective=(term,), exchange=(means,))


PLUGINS = (
    Plugin(
        "rfedavg",
        PairwiseOptions,
        build_rfedavg,
        "MMD regulariser on mean features of all local models",
        "rFedAvg, Algorithm 1",
        released="before a round each client of the cohort computes delta on one batch under its own model "
        "of its last round (a random start of its own in its first); the others are those of the cohort; "
        "models are averaged plainly",
        label="rFedAvg",
        pen=Pen("#009E73", "D", "--"),
    ),
    Plugin(
        "rfedavg_plus",
        PlusOptions,
        build_plus,
        "MMD regulariser on mean features of the global model, sent in a second synchronisation",
        "rFedAvg, Algorithm 2",
        released="before a round each client of the cohort computes delta on one batch under the global "
        "model; the target is the cohort's mean, the client's own included; models are averaged plainly",
        label="rFedAvg+",
        pen=Pen("#D55E00", "P"),
    ),
)
