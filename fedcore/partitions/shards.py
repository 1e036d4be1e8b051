"""Label-sorted shards, a few of them to each client."""

import numpy as np
from pydantic import PositiveInt

from fedcore.data import Dataset, Partition
from fedcore.partitions import Clients, PartitionOptions, Plugin, by_label, cut, even, joined


class Options(PartitionOptions):
    """How many clients, and how many shards each."""

    clients: Clients
    shards_per_client: PositiveInt = 2


def build(options: Options, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Sort rows by label, cut them into shards, and deal these out at random.

    Where the rows can't be divided evenly, shards differ by one row, so that none is dropped.
    """
    labels, each = dataset.train.y, options.shards_per_client
    count = options.clients * each
    pieces = cut(by_label(labels, rng), even(len(labels), count))
    dealt = rng.permutation(count).reshape(options.clients, each)
    note = f"{each} label-sorted shards a client"
    if uneven := len(labels) % count:
        note += f"; {uneven} shards hold one row more than the others"
    return Partition(tuple(joined(pieces[shard] for shard in chosen) for chosen in dealt), note=note)


PLUGIN = Plugin(
    "shards",
    Options,
    build,
    "sorted by label, cut into shards, a few shards to each client",
    "McMahan et al. 2017, section 3; FedAvgR, section 5",
)
