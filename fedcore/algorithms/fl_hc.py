"""FL+HC: federated averaging within clusters of similar clients."""

from typing import Self

from pydantic import NonNegativeFloat, NonNegativeInt, model_validator

from fedcore.algorithms import AlgorithmOptions, Pen, Plugin, recipe
from fedcore.parts.schedule import Clustered, Linkage, Metric


class FlHcOptions(AlgorithmOptions):
    """``cluster_round``: common rounds before the clustering (a run that ends before it is FedAvg).
    ``linkage``, ``metric``: of the agglomeration. ``threshold``: distance beyond which clusters stay apart
    (cosine: 0 to 2; else in units of the weights).
    """

    linkage: Linkage = "average"
    metric: Metric = "cosine"
    threshold: NonNegativeFloat = 1.0
    cluster_round: NonNegativeInt = 10

    @model_validator(mode="after")
    def _ward_is_euclidean(self) -> Self:
        if self.linkage == "ward" and self.metric != "euclidean":
            raise ValueError(f"metric: linkage 'ward' needs 'euclidean', got '{self.metric}'")
        return self


PLUGIN = Plugin(
    "fl_hc",
    FlHcOptions,
    lambda options, spec: recipe(
        schedule=Clustered(options.linkage, options.metric, options.threshold, options.cluster_round)
    ),
    "hierarchical clustering of the clients' updates, then averaging within clusters",
    "Briggs et al.; FedAvgR, Section 5",
    label="FL+HC",
    pen=Pen("#332288", "h", "-."),
)
