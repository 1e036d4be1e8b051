"""The clients that come with the data, every one of them, in order."""

from __future__ import annotations

import numpy as np

from fedcore.base.registry import Plugin
from fedcore.data import Dataset, Partition
from fedcore.partitions import PartitionOptions
from fedcore.partitions.natural import by_group, groups_of


def build(options: PartitionOptions, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Return the groups of the data as clients; a group without rows stays as an empty client."""
    groups, count = groups_of(dataset, "given")
    return Partition(clients=tuple(by_group(groups, count)), note=f"{count} clients as given")


PLUGIN = Plugin(
    name="given",
    options=PartitionOptions,
    build=build,
    summary="The clients that come with the data, all of them, in the order of their ids.",
    source="the data set",
)
