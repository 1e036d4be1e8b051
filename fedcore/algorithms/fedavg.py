"""Federated averaging."""

from fedcore.algorithms import AlgorithmOptions, Pen, Plugin, recipe
from fedcore.parts.aggregate import Weights, averaging
from fedcore.parts.schedule import Chained, Synchronous


class FedAvgOptions(AlgorithmOptions):
    """``averaging``: clients weigh by sample counts (``nk``) or all alike (``uniform``).

    ``chained``: clients train one after another, each from the model that the one before it left, and
    all their models are averaged. That is the baseline which DL-opt's and FedOMW's code runs.
    """

    averaging: Weights = "nk"
    chained: bool = False


PLUGIN = Plugin(
    "fedavg",
    FedAvgOptions,
    lambda options, spec: recipe(
        schedule=Chained() if options.chained else Synchronous(), aggregate=averaging(options.averaging)
    ),
    "weighted averaging of local models",
    "McMahan et al.; rFedAvg, Section IV-A",
    label="FedAvg",
    pen=Pen("#000000", "o"),
)
