"""What any partition must do: hold every row once, draw the same again, leave the data as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from fedcore.base.errors import SpecError
from fedcore.base.options import keys_of, validate
from fedcore.base.registry import Plugin
from fedcore.conformance import Check, Skipped, disturb
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
    given = {"clients": clients} if "clients" in keys_of(plugin.options) else {}
    valid = validate(plugin.options, {**given, **options, **more}, "partition")
    assert isinstance(valid, PartitionOptions)
    return valid


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
                partition = make(plugin, chosen(plugin, options, clients), toy(rows), rows + clients)
            except SpecError as error:
                if str(error).startswith(f"partition '{plugin.name}': row "):  # it broke its contract
                    raise
            else:
                yield toy(rows), clients, partition


def _covers(plugin: Plugin, options: Mapping[str, Any]) -> str:
    tried = list(_tried(plugin, options))
    if not tried:
        return f"no data of {', '.join(map(str, SIZES))} rows could be dealt out; the options may not fit any"
    for dataset, _, partition in tried:
        dropped, note = len(partition.dropped), partition.note
        if dropped and "dropped" not in note and "left out" not in note:
            return f"{dropped} of {len(dataset.train)} rows are dropped, but the note doesn't say so"
    return ""


def _as_many(plugin: Plugin, options: Mapping[str, Any]) -> str:
    if options.get("clients", 1) is None:
        raise Skipped("clients is null: the partition decides")
    for dataset, clients, partition in _tried(plugin, options):
        asked = options.get("clients", clients)
        if len(partition.clients) != asked:
            return f"{len(partition.clients)} clients of {len(dataset.train)} rows, {asked} were asked for"
    return ""


def _again(plugin: Plugin, options: Mapping[str, Any]) -> str:
    for seed in range(SEEDS):
        drawn = set()
        for disturbed in (1, 2):
            disturb(disturbed)
            drawn.add(_rows(plugin, options, seed))
        if len(drawn) > 1:
            return f"seed {seed} gave two partitions; draw only from the generator that build receives"
    return ""


def _seeds(plugin: Plugin, options: Mapping[str, Any]) -> str:
    drawn = {_rows(plugin, options, seed) for seed in range(SEEDS)}
    if len(drawn) == 1:
        raise Skipped(f"{SEEDS} seeds give one partition: nothing is drawn")
    return "" if len(drawn) == SEEDS else f"{SEEDS} seeds gave {len(drawn)} partitions"


def _rows(plugin: Plugin, options: Mapping[str, Any], seed: int) -> bytes:
    return b"|".join(rows.tobytes() for rows in _largest(plugin, options, seed).clients)


def _largest(plugin: Plugin, options: Mapping[str, Any], seed: int = 0, **more: Any) -> Partition:
    """Return a partition of the largest data."""
    return make(plugin, chosen(plugin, options, CLIENTS[1], **more), toy(SIZES[-1]), seed)


def _harmless(plugin: Plugin, options: Mapping[str, Any]) -> str:
    dataset = toy(SIZES[-1])
    before = dataset.sha256()
    make(plugin, chosen(plugin, options, CLIENTS[1]), dataset, 0)
    return "" if dataset.sha256() == before else "build writes into the data that it is given"


def _holds_out(plugin: Plugin, options: Mapping[str, Any]) -> str:
    for more in ({"validation": 0.2}, {"validation": 0.2, "validation_from": "pool"}, FOLD):
        if any(key in options for key in more):
            raise Skipped("the options hold rows out themselves")
        partition = _largest(plugin, options, **more)
        if not (partition.held_out if more == FOLD else len(partition.validation)):
            return f"with {more} nothing is held out"
    return ""


def _note(plugin: Plugin, options: Mapping[str, Any]) -> str:
    return "" if _largest(plugin, options).note.strip() else "the note is empty; captions print it"
