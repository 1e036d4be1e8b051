"""Natural clients: the users, writers, roles or hospitals that the data name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from fedcore.data import Dataset, Partition
from fedcore.errors import SpecError
from fedcore.partition.iid import iid
from fedcore.partitioning.base import PartitionOptions, Rows
from fedcore.registry import Plugin


class Options(PartitionOptions):
    """Which natural clients.

    Attributes:
        clients: how many to sample; None takes all.
        min_rows: how many rows a client needs to be taken.
        shuffled: shuffle the rows of the chosen clients and deal them out evenly to as many clients, the
            IID counterpart of a natural split.
    """

    clients: PositiveInt | None = None
    min_rows: PositiveInt = 1
    shuffled: bool = False


def by_group(groups: NDArray[np.int64], count: int) -> list[Rows]:
    """Return the rows of each group 0..count-1, in row order; a group without rows gives an empty array."""
    order = np.argsort(groups, kind="stable").astype(np.int64)
    sizes = np.bincount(groups, minlength=count)
    return np.split(order, np.cumsum(sizes)[:-1])


def natural(
    groups: NDArray[np.int64], count: int, clients: int | None, min_rows: int, rng: np.random.Generator
) -> list[Rows]:
    """Return the rows of the natural clients, or of ``clients`` sampled ones, in order of their ids.

    Args:
        groups: the natural client of each row, [n], below ``count``.
        count: number of natural clients.
        clients: how many to sample without replacement among the eligible, or None for all of them.
        min_rows: how many rows a client needs to be eligible.
        rng: used for the sampling alone.

    Source: rFedAvg, section VI-A (users of Sent140, writers of FEMNIST); RADFed, section IV-B (speaking
    roles, hospitals).

    Raises:
        SpecError: fewer eligible clients than asked for.
    """
    rows = by_group(groups, count)
    eligible = [own for own in rows if len(own) >= min_rows]
    if clients is None:
        chosen = list(range(len(eligible)))
    elif clients > len(eligible):
        raise SpecError(
            f"partition.clients: got {clients}, expected at most {len(eligible)} "
            f"(natural clients with {min_rows} or more rows)"
        )
    else:
        chosen = sorted(rng.choice(len(eligible), clients, replace=False).tolist())
    return [eligible[i] for i in chosen]


def groups_of(dataset: Dataset, name: str) -> tuple[NDArray[np.int64], int]:
    """Return each training row's natural client and how many there are.

    Raises:
        SpecError: the data name no clients.
    """
    groups = dataset.train.groups
    if groups is None:
        raise SpecError(
            f"partition.name: '{name}' needs data that name their clients; '{dataset.name}' has none"
        )
    return groups, max(len(dataset.group_names), int(groups.max(initial=-1)) + 1, 1)


def build(options: Options, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Give each natural client its rows; rows of clients left out are dropped."""
    groups, count = groups_of(dataset, "natural")
    clients = natural(groups, count, options.clients, options.min_rows, rng)
    if not clients:
        raise SpecError(f"partition.min_rows: no natural client has {options.min_rows} rows")
    held = np.concatenate(clients)
    if options.shuffled:
        clients = [held[rows] for rows in iid(len(held), len(clients), rng)]
    dropped = np.setdiff1d(np.arange(len(groups)), held)
    note = f"{len(clients)} natural clients" + (", rows shuffled between them" if options.shuffled else "")
    if len(dropped):
        note += f"; {len(dropped)} rows of clients left out"
    return Partition(clients=tuple(clients), dropped=dropped, note=note)


PLUGIN = Plugin(
    name="natural",
    options=Options,
    build=build,
    summary="By user, writer, role or hospital, as the data name them; all or a sample.",
    source="rFedAvg, section VI-A; RADFed, section IV-B",
)
