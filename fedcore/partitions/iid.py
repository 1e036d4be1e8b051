"""Independent and identically distributed clients of equal size."""

from __future__ import annotations

import numpy as np

from fedcore.base.options import Clients
from fedcore.base.registry import Plugin
from fedcore.data import Dataset, Partition
from fedcore.partitions import PartitionOptions, Rows, cut, even


class Options(PartitionOptions):
    """How many clients."""

    clients: Clients


def iid(rows: int, clients: int, rng: np.random.Generator) -> list[Rows]:
    """Shuffle ``rows`` rows and deal them out evenly; sizes differ by one at most.

    Source: McMahan et al., "Communication-efficient learning", section 3.
    """
    return cut(rng.permutation(rows).astype(np.int64), even(rows, clients))


def build(options: Options, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Deal the training rows out."""
    return Partition(clients=tuple(iid(len(dataset.train), options.clients, rng)), note="IID, equal sizes")


PLUGIN = Plugin(
    name="iid",
    options=Options,
    build=build,
    summary="Shuffled and dealt out evenly.",
    source="McMahan et al. 2017, section 3",
)
