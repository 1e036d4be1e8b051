"""Client sizes that follow a power law, each client with a few labels or with all of them."""

from typing import Annotated

import numpy as np
from pydantic import Field, PositiveInt

from fedcore.base.errors import SpecError
from fedcore.base.options import Clients
from fedcore.base.registry import Plugin
from fedcore.data import Dataset, Partition
from fedcore.partitions import PartitionOptions, deal_classes, integers, rows_of_classes


class Options(PartitionOptions):
    """How many clients, how heavy the tail is, and how many labels a client has.

    Attributes:
        exponent: tail exponent a of the density x^-a; smaller is heavier.
        labels_per_client: labels of a client; None is all, so that sizes alone are skewed.
    """

    clients: Clients
    exponent: Annotated[float, Field(gt=1)] = 2.0
    labels_per_client: PositiveInt | None = None


def build(options: Options, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Deal each label's rows out over the clients that have it, in proportion to power-law weights.

    Weights are Pareto variates with density proportional to x^-exponent, x >= 1. Client k (after a random
    renumbering) has ``labels_per_client`` consecutive labels starting at label k, cyclically; raises
    SpecError where all clients together have fewer labels than there are. (FedProx has two digits a device.)
    """
    clients, exponent, per_client = options.clients, options.exponent, options.labels_per_client
    present = [rows for rows in rows_of_classes(dataset.train.y, rng) if len(rows)]
    width = len(present) if per_client is None else min(per_client, len(present))
    if clients + width - 1 < len(present):
        raise SpecError(
            f"partition.labels_per_client: got {width} for {clients} clients, expected enough "
            f"to cover {len(present)} labels"
        )
    weights = rng.pareto(exponent - 1, clients) + 1
    number = rng.permutation(clients)
    holders = ((label - number) % len(present) < width for label in range(len(present)))
    counts = [integers(weights * has, len(rows)) for has, rows in zip(holders, present, strict=True)]
    note = f"power-law sizes (exponent {exponent:g}), {per_client or 'all'} labels a client"
    return Partition(tuple(deal_classes(present, counts, clients)), note=note)


PLUGIN = Plugin(
    "power_law",
    Options,
    build,
    "sizes from a power law, with all labels or a few of them",
    "FedProx (Li et al. 2020), section 5.1",
)
