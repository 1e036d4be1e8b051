"""rFedAvg and rFedAvg+: local objectives regularised towards the other clients' feature distributions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fedcore.aggregate.mean import PlainMean, WeightedMean
from fedcore.exchange.feature_means import FeatureMeans
from fedcore.objective.mmd import MmdToOthers
from fedcore.parts import Recipe
from fedcore.recipes import AlgorithmOptions, recipe
from fedcore.registry import Plugin
from fedcore.spec import Spec


class RFedAvgOptions(AlgorithmOptions):
    """``lambda``: weight of the distribution regulariser.

    ``noise_sigma`` and ``clip`` (C_0): Gaussian noise of standard deviation noise_sigma * clip / L on
    each delta, L the batch size.
    """

    lam: Annotated[float, Field(alias="lambda", ge=0)] = 1e-4
    noise_sigma: Annotated[float, Field(ge=0)] = 0.0
    clip: Annotated[float, Field(gt=0)] = 1.0


def build_rfedavg(options: RFedAvgOptions, spec: Spec) -> Recipe:
    """FedAvg plus lambda/(N-1) sum_{j != k} ||delta_k - delta_j||^2, delta_j from local models."""
    released = spec.variant == "released"
    return recipe(
        objective=(MmdToOthers(options.lam, pairwise=True),),
        exchange=(FeatureMeans("local", options.noise_sigma * options.clip, one_batch=released),),
        aggregate=PlainMean() if released else WeightedMean(),
    )


def build_plus(options: RFedAvgOptions, spec: Spec) -> Recipe:
    """FedAvg plus lambda ||delta_k - mean_{j != k} delta_j||^2, delta_j from the new global model."""
    released = spec.variant == "released"
    return recipe(
        objective=(MmdToOthers(options.lam, pairwise=False, include_self=released),),
        exchange=(FeatureMeans("global", options.noise_sigma * options.clip, one_batch=released),),
        aggregate=PlainMean() if released else WeightedMean(),
    )


PLUGINS = (
    Plugin(
        "rfedavg",
        RFedAvgOptions,
        build_rfedavg,
        "MMD regulariser on mean features of all local models",
        "rFedAvg, Algorithm 1",
        released="delta comes from one batch under an old model; models are averaged plainly",
    ),
    Plugin(
        "rfedavg_plus",
        RFedAvgOptions,
        build_plus,
        "MMD regulariser on mean features of the global model, sent in a second synchronisation",
        "rFedAvg, Algorithm 2",
        released="delta comes from one batch under an old model, the average includes the client itself; "
        "models are averaged plainly",
    ),
)
