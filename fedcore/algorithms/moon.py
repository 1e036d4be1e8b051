"""MOON: model-contrastive federated learning."""

from pydantic import NonNegativeFloat, PositiveFloat

from fedcore.algorithms import AlgorithmOptions, Plugin, recipe
from fedcore.parts.objective import Contrastive


class MoonOptions(AlgorithmOptions):
    """``mu``: weight of the contrastive term. ``temperature``: of its softmax.

    The features are the model's own, those that feed its output layer.
    """

    mu: NonNegativeFloat = 1.0
    temperature: PositiveFloat = 0.5


PLUGIN = Plugin(
    "moon",
    MoonOptions,
    lambda options, spec: recipe(objective=(Contrastive(options.mu, options.temperature),)),
    "a contrastive term on features: near the global model, far from the client's last one",
    "Li et al. (MOON), Section 3.3 and Algorithm 1; ComFed, Table I",
    label="MOON",
)
