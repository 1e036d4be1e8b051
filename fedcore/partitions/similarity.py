"""Clients of equal size: all of the data dealt out IID, or a share of them and the rest sorted by label."""

import numpy as np

from fedcore.data import Dataset, Partition
from fedcore.partitions import Clients, Fraction, Indices, PartitionOptions, Plugin, by_label, cut, even


class IidOptions(PartitionOptions):
    """How many clients."""

    clients: Clients


class Options(IidOptions):
    """``similarity`` is a fraction: 0 is sorted by label throughout, 0.1 the paper's 10%, 1 is IID."""

    similarity: Fraction


def iid(rows: int, clients: int, rng: np.random.Generator) -> list[Indices]:
    """Shuffle ``rows`` rows and deal them out evenly; sizes differ by one at most."""
    return cut(rng.permutation(rows).astype(np.int64), even(rows, clients))


def build_iid(options: IidOptions, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Deal the training rows out."""
    return Partition(clients=tuple(iid(len(dataset.train), options.clients, rng)), note="IID, equal sizes")


def build(options: Options, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Deal the share out IID; sort the other rows by label and deal them out evenly in order.

    Client sizes differ by one at most. Rows of one label are in random order before they are dealt out.
    (rFedAvg has it from SCAFFOLD, Karimireddy et al. 2020, section 7.)
    """
    labels, share, clients = dataset.train.y, options.similarity, options.clients
    uniform, rest = np.split(rng.permutation(len(labels)).astype(np.int64), [round(share * len(labels))])
    rest = rest[by_label(labels[rest], rng)]
    iid_counts = even(len(uniform), clients)
    pairs = zip(cut(uniform, iid_counts), cut(rest, even(len(labels), clients) - iid_counts), strict=True)
    return Partition(tuple(map(np.concatenate, pairs)), note=f"similarity {100 * share:g}%, equal sizes")


PLUGINS = (
    Plugin("iid", IidOptions, build_iid, "shuffled and dealt out evenly", "McMahan et al. 2017, section 3"),
    Plugin(
        "similarity",
        Options,
        build,
        "a share s dealt out IID, the rest sorted by label and dealt out evenly in order",
        "rFedAvg, section VI-A",
    ),
)
