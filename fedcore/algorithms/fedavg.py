"""Federated averaging."""

from fedcore.algorithms import AlgorithmOptions, Pen, Plugin, Recipe, Spec, recipe
from fedcore.parts.aggregate import Weights, averaging
from fedcore.parts.schedule import Chained, Synchronous


class FedAvgOptions(AlgorithmOptions):
    """``averaging``: clients weigh by sample counts (``nk``) or all alike (``uniform``).

    ``chained``: clients train one after another, each from the model that the one before it left, and
    all their models are averaged. That is the baseline which DL-opt's and FedOMW's code runs.
    """

    averaging: Weights = "nk"
    chained: bool = False


def build(options: FedAvgOptions, spec: Spec) -> Recipe:
    """w <- sum_k p_k w_k over the cohort."""
    schedule = Chained() if options.chained else Synchronous()
    return recipe(schedule=schedule, aggregate=averaging(options.averaging))


PLUGIN = Plugin(
    "fedavg",
    FedAvgOptions,
    build,
    "weighted averaging of local models",
    "McMahan et al.; rFedAvg, Section IV-A",
    label="FedAvg",
    pen=Pen("#000000", "o"),
)
