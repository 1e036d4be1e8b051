"""What any partition must do: hold every row once, draw the same again, leave the data as they are."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from fedcore.base.errors import SpecError
from fedcore.base.options import keys_of, validate
from fedcore.base.registry import Plugin
from fedcore.conformance import Check, Skipped
from fedcore.data import Dataset, Partition, Rows
from fedcore.partitions import PartitionOptions
from fedcore.partitions.build import make

SIZES = (1, 2, 7, 60, 300)
CLIENTS = (1, 3, 20)
CLASSES, GROUPS, SEEDS = 6, 7, 8
FOLD: Mapping[str, Any] = {"fold": {"of": 3, "index": 0}}


def checks(plugin: Plugin, options: Mapping[str, Any]) -> Iterator[tuple[str, Check]]:
    """Yield the requirements of a partition, each with its check.

    Args:
        plugin: the partition.
        options: values of its options, where a default is missing or another is wanted.

    Raises:
        SpecError: the options are wrong.
    """
    for clients in CLIENTS:
        chosen(plugin, options, clients)
    yield "every row is held once, or listed as dropped", partial(_covers, plugin, options)
    if "clients" in keys_of(plugin.options):
        yield "there are as many clients as asked for", partial(_as_many, plugin, options)
    yield "the same seed gives the same rows", partial(_again, plugin, options)
    yield "other seeds give other rows", partial(_seeds, plugin, options)
    yield "the data are unchanged", partial(_harmless, plugin, options)
    yield "folds and validation rows can be held out", partial(_holds_out, plugin, options)
    yield "a note describes the partition", partial(_note, plugin, options)


def chosen(plugin: Plugin, options: Mapping[str, Any], clients: int, **more: Any) -> PartitionOptions:
    """Return the options with a number of clients, where there is such an option."""
    own = {"clients": clients} if "clients" in keys_of(plugin.options) and "clients" not in options else {}
    found = validate(plugin.options, {**own, **options, **more}, "partition")
    assert isinstance(found, PartitionOptions)
    return found


def toy(rows: int, seed: int = 0) -> Dataset:
    """Return rows with random labels, of which a class may be empty, and natural clients."""
    rng = np.random.default_rng([rows, seed])
    x = rng.standard_normal((rows, 3)).astype(np.float32)
    train = Rows(x, rng.integers(CLASSES, size=rows), rng.integers(GROUPS, size=rows))
    features = {"colour": rng.integers(3, size=rows), "size": rng.integers(2, size=rows)}
    names = tuple(map(str, range(GROUPS)))
    test = Rows(x[:1], train.y[:1], None)
    return Dataset(
        "toy", train, test, CLASSES, "synthetic", "made", group_names=names, client_features=features
    )


def _tried(plugin: Plugin, options: Mapping[str, Any]) -> Iterator[tuple[Dataset, int, Partition]]:
    """Yield partitions of data of all sizes; where the plug-in refuses a size in words, that is no fault."""
    for rows in SIZES:
        for clients in CLIENTS:
            try:
                yield (
                    toy(rows),
                    clients,
                    make(plugin, chosen(plugin, options, clients), toy(rows), rows + clients),
                )
            except SpecError as error:
                if _broken(error, plugin):
                    raise


def _broken(error: SpecError, plugin: Plugin) -> bool:
    """Whether an error says that the plug-in broke its contract, and not that it refuses these data."""
    return str(error).startswith(f"partition '{plugin.name}': row ")


def _covers(plugin: Plugin, options: Mapping[str, Any]) -> str:
    made = list(_tried(plugin, options))
    if not made:
        return f"no data of {', '.join(map(str, SIZES))} rows could be dealt out; the options may not fit any"
    for dataset, _, found in made:
        if len(found.dropped) and "dropped" not in found.note and "left out" not in found.note:
            return (
                f"{len(found.dropped)} of {len(dataset.train)} rows are dropped, but the note doesn't say so"
            )
    return ""


def _as_many(plugin: Plugin, options: Mapping[str, Any]) -> str | Skipped:
    if options.get("clients", 1) is None:
        return Skipped("clients is null: the partition decides")
    for dataset, clients, found in _tried(plugin, options):
        asked = options.get("clients", clients)
        if len(found.clients) != asked:
            return f"{len(found.clients)} clients of {len(dataset.train)} rows, {asked} were asked for"
    return ""


def _again(plugin: Plugin, options: Mapping[str, Any]) -> str:
    for seed in range(SEEDS):
        found = []
        for disturbed in (1, 2):
            random.seed(disturbed)
            np.random.seed(disturbed)
            found.append(_rows(plugin, options, seed))
        if found[0] != found[1]:
            return f"seed {seed} gave two partitions; draw only from the generator that build receives"
    return ""


def _seeds(plugin: Plugin, options: Mapping[str, Any]) -> str | Skipped:
    found = {_rows(plugin, options, seed) for seed in range(SEEDS)}
    if len(found) == 1:
        return Skipped(f"{SEEDS} seeds give one partition: nothing is drawn")
    return "" if len(found) == SEEDS else f"{SEEDS} seeds gave {len(found)} partitions"


def _rows(plugin: Plugin, options: Mapping[str, Any], seed: int) -> bytes:
    made = make(plugin, chosen(plugin, options, CLIENTS[1]), toy(SIZES[-1]), seed)
    return b"|".join(rows.tobytes() for rows in made.clients)


def _harmless(plugin: Plugin, options: Mapping[str, Any]) -> str:
    dataset = toy(SIZES[-1])
    before = dataset.sha256()
    make(plugin, chosen(plugin, options, CLIENTS[1]), dataset, 0)
    return "" if dataset.sha256() == before else "build writes into the data that it is given"


def _holds_out(plugin: Plugin, options: Mapping[str, Any]) -> str | Skipped:
    for more in ({"validation": 0.2}, {"validation": 0.2, "validation_from": "pool"}, FOLD):
        if any(key in options for key in more):
            return Skipped("the options hold rows out themselves")
        made = make(plugin, chosen(plugin, options, CLIENTS[1], **more), toy(SIZES[-1]), 0)
        if not (made.held_out if more == FOLD else len(made.validation)):
            return f"with {more} nothing is held out"
    return ""


def _note(plugin: Plugin, options: Mapping[str, Any]) -> str:
    made = make(plugin, chosen(plugin, options, CLIENTS[1]), toy(SIZES[-1]), 0)
    return "" if made.note.strip() else "the note is empty; captions print it"
