"""Natural clients: the users, writers, roles or hospitals that the data name; all, some or regrouped."""

from typing import Any, Self

import numpy as np
from pydantic import PositiveInt, model_validator

from fedcore.base.options import omit_default
from fedcore.data import Dataset, Partition
from fedcore.partitions import Clients, Indices, PartitionOptions, Plugin, Random, SpecError, cut
from fedcore.partitions.similarity import iid


class Options(PartitionOptions):
    """Which natural clients.

    Attributes:
        clients: how many to sample; None takes all.
        users: how many natural clients to sample and to group at random, in equal numbers but for one, into
            ``clients`` clients; None makes each natural client one of its own.
        min_rows: how many rows a natural client needs to be taken.
        shuffled: shuffle the rows of the chosen clients and deal them out evenly to as many clients, the
            IID counterpart of a natural split.
    """

    clients: Clients | None = None
    users: PositiveInt | None = omit_default(None)
    min_rows: PositiveInt = 1
    shuffled: bool = False

    @model_validator(mode="before")
    @classmethod
    def _one_user_each(cls, values: Any) -> Any:
        """Leave ``users`` out where it equals ``clients``, which is one natural client each."""
        if isinstance(values, dict) and values.get("users") == values.get("clients"):
            return {key: value for key, value in values.items() if key != "users"}
        return values

    @model_validator(mode="after")
    def _enough_users(self) -> Self:
        if self.users is not None and (self.clients is None or self.users < self.clients):
            raise ValueError(f"users: got {self.users}, expected clients, and no fewer users than clients")
        return self


def by_group(groups: Indices, count: int) -> list[Indices]:
    """Return the rows of each group 0..count-1, in row order; a group without rows gives an empty array."""
    return cut(np.argsort(groups, kind="stable").astype(np.int64), np.bincount(groups, minlength=count))


def natural(
    groups: Indices, count: int, clients: int | None, min_rows: int, rng: Random, key: str = "clients"
) -> list[Indices]:
    """Return the rows of natural clients with ``min_rows`` rows, in order of their ids: all, or a sample.

    ``groups`` [n] is each row's natural client, of ``count``. ``clients`` are drawn without replacement;
    SpecError, naming the option ``key``, where there are fewer.
    """
    eligible = [rows for rows in by_group(groups, count) if len(rows) >= min_rows]
    if clients is None:
        return eligible
    if clients > len(eligible):
        raise SpecError(
            f"partition.{key}: got {clients}, expected at most {len(eligible)} "
            f"(natural clients with {min_rows} or more rows)"
        )
    return [eligible[i] for i in sorted(rng.choice(len(eligible), clients, replace=False))]


def grouped(users: list[Indices], clients: int, rng: np.random.Generator) -> list[Indices]:
    """Deal users out at random to clients, so that numbers of users differ by one at most.

    rFedAvg, section VI-A, has 500 users of Sent140 on 20 clients (cross-silo).
    """
    return [np.concatenate([users[i] for i in members]) for members in iid(len(users), clients, rng)]


def groups_of(dataset: Dataset, name: str) -> tuple[Indices, int]:
    """Return each training row's natural client [n] and how many there are; SpecError if data name none."""
    groups = dataset.train.groups
    if groups is None:
        raise SpecError(f"partition.name: '{name}' needs client names, {dataset.name} has none")
    return groups, max(len(dataset.group_names), int(groups.max(initial=-1)) + 1, 1)


def build(options: Options, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Give each natural client its rows; rows of clients left out are dropped."""
    groups, count = groups_of(dataset, "natural")
    number, key = (options.users, "users") if options.users else (options.clients, "clients")
    clients = natural(groups, count, number, options.min_rows, rng, key)
    if not clients:
        raise SpecError(f"partition.min_rows: no natural client has {options.min_rows} rows")
    note = f"{len(clients)} natural clients"
    if options.users and options.clients:
        clients = grouped(clients, options.clients, rng)
        note += f" grouped into {options.clients}"
    held = np.concatenate(clients)
    if options.shuffled:
        clients = [held[rows] for rows in iid(len(held), len(clients), rng)]
        note += ", rows shuffled between them"
    dropped = np.setdiff1d(np.arange(len(groups)), held)
    if len(dropped):
        note += f"; {len(dropped)} rows of clients left out"
    return Partition(clients=tuple(clients), dropped=dropped, note=note)


def build_given(options: PartitionOptions, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Return the groups of the data as clients; a group without rows stays as an empty client."""
    groups, count = groups_of(dataset, "given")
    return Partition(clients=tuple(by_group(groups, count)), note=f"{count} clients as given")


PLUGINS = (
    Plugin(
        "natural",
        Options,
        build,
        "by user, writer, role or hospital, as the data name them; all or a sample",
        "rFedAvg, section VI-A; RADFed, section IV-B",
    ),
    Plugin(
        "given",
        PartitionOptions,
        build_given,
        "the clients that come with the data, all of them, in the order of their ids",
        "the data set",
    ),
)
