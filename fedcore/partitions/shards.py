"""Label-sorted shards, a few of them to each client."""

import numpy as np
from pydantic import PositiveInt

from fedcore.data import Dataset, Partition
from fedcore.partitions import Clients, Indices, Labels, PartitionOptions, Plugin, by_label, cut, even


class Options(PartitionOptions):
    """How many clients, and how many shards each."""

    clients: Clients
    shards_per_client: PositiveInt = 2


def shards(labels: Labels, clients: int, each: int, rng: np.random.Generator) -> list[Indices]:
    """Sort rows by label, cut them into ``clients * each`` shards, deal ``each`` to every client at random.

    Where the rows can't be divided evenly, shards differ by one row, so that none is dropped.

    Source: McMahan et al. 2017, section 3; FedAvgR, section 5.
    """
    count = clients * each
    pieces = cut(by_label(labels, rng), even(len(labels), count))
    dealt = rng.permutation(count).reshape(clients, each)
    return [np.concatenate([pieces[shard] for shard in chosen]) for chosen in dealt]


def build(options: Options, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Deal the shards of the training rows out."""
    labels, per_client = dataset.train.y, options.shards_per_client
    note = f"{per_client} label-sorted shards a client"
    if uneven := len(labels) % (options.clients * per_client):
        note += f"; {uneven} shards hold one row more than the others"
    return Partition(clients=tuple(shards(labels, options.clients, per_client, rng)), note=note)


PLUGIN = Plugin(
    "shards",
    Options,
    build,
    "sorted by label, cut into shards, a few shards to each client",
    "McMahan et al. 2017, section 3; FedAvgR, section 5",
)
