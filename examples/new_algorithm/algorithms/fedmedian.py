"""FedMedian: the server moves by the coordinate-wise median of the clients' changes."""

from dataclasses import dataclass

from fedcore.algorithms import AlgorithmOptions, Plugin, Recipe, Spec, recipe
from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Upload
from fedcore.parts import Aggregation, Run, State


class FedMedianOptions(AlgorithmOptions):
    """``weighted_by_size``: a client with twice the rows counts twice."""

    weighted_by_size: bool = False


@dataclass(frozen=True)
class Median(Aggregation):
    """The lower median of each coordinate of Delta_k; Yin et al., ICML 2018."""

    weighted_by_size: bool
    label: str = "coordinate-wise median"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Return the median change [d]."""
        values, order = torch.sort(torch.stack([upload.model - model for upload in uploads]), dim=0)
        sizes = [upload.samples if self.weighted_by_size else 1 for upload in uploads]
        weights = torch.tensor(sizes, dtype=values.dtype, device=values.device)[order]
        reached = weights.cumsum(0) >= weights.sum(0) / 2
        return values.gather(0, reached.to(torch.uint8).argmax(0, keepdim=True)).squeeze(0)


def build(options: FedMedianOptions, spec: Spec) -> Recipe:
    """FedAvg with the median in the mean's place."""
    return recipe(aggregate=Median(options.weighted_by_size))


PLUGIN = Plugin(
    "fedmedian",
    FedMedianOptions,
    build,
    "coordinate-wise median",
    "Yin et al., ICML 2018",
    label="FedMedian",
)
PAPERS = {"rfedavg": {}}
