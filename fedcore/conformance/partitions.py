"""What any partition must do: hold every row once, draw the same again, leave the data as they are."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from fedcore.base.errors import BrokenContract, SpecError
from fedcore.base.options import keys_of, validate
from fedcore.base.registry import Plugin
from fedcore.conformance import Checks, Skipped, disturb, require
from fedcore.data import Dataset, Partition, Rows
from fedcore.partitions.build import make

SIZES = (1, 2, 7, 60, 300)
CLIENTS = (1, 3, 20)
CLASSES, GROUPS, SEEDS = 6, 7, 8
FOLD: Mapping[str, Any] = {"fold": {"of": 3, "index": 0}}


def checks(plugin: Plugin, options: Mapping[str, Any]) -> Checks:
    """Yield the requirements of a partition, each with its check; refuse wrong options."""
    for clients in CLIENTS:
        _chosen(plugin, options, clients)
    dealt = partial(_dealt, plugin, options)
    yield "every row is held once, or listed as dropped", partial(_covers, plugin, options)
    if "clients" in keys_of(plugin.options):
        yield "there are as many clients as asked for", partial(_as_many, plugin, options)
    yield "the same seed gives the same rows", partial(_again, dealt)
    yield "other seeds give other rows", partial(_seeds, dealt)
    yield "the data are unchanged", partial(_harmless, dealt)
    yield "folds and validation rows can be held out", partial(_holds_out, dealt, options)
    empty = "the note is empty; captions print it"
    yield "a note describes the partition", lambda: require(dealt().note.strip(), empty)


def _chosen(plugin: Plugin, options: Mapping[str, Any], clients: int, **more: Any) -> Any:
    """Return the options with a number of clients, where there is such an option."""
    given = {"clients": clients} if "clients" in keys_of(plugin.options) else {}
    return validate(plugin.options, {**given, **options, **more}, "partition")


def _toy(rows: int) -> Dataset:
    """Return rows with random labels, of which a class may be empty, and natural clients."""
    rng = np.random.default_rng([rows, 0])
    x = rng.standard_normal((rows, 3)).astype(np.float32)
    train = Rows(x, rng.integers(CLASSES, size=rows), rng.integers(GROUPS, size=rows))
    kinds = {"colour": rng.integers(3, size=rows), "size": rng.integers(2, size=rows)}
    names = tuple(map(str, range(GROUPS)))
    test = Rows(x[:1], train.y[:1], None)
    return Dataset("toy", train, test, CLASSES, "synthetic", "made", group_names=names, client_features=kinds)


def _dealt(
    plugin: Plugin, options: Mapping[str, Any], seed: int = 0, data: Dataset | None = None, **more: Any
) -> Partition:
    return make(plugin, _chosen(plugin, options, CLIENTS[1], **more), data or _toy(SIZES[-1]), seed)


def _tried(plugin: Plugin, options: Mapping[str, Any]) -> Iterator[tuple[int, int, Partition]]:
    """Yield rows, clients and partition of all sizes; one that the plug-in refuses in words is no fault."""
    for rows in SIZES:
        for clients in CLIENTS:
            try:
                partition = make(plugin, _chosen(plugin, options, clients), _toy(rows), rows + clients)
            except BrokenContract:
                raise
            except SpecError:
                continue
            yield rows, clients, partition


def _covers(plugin: Plugin, options: Mapping[str, Any]) -> None:
    tried = list(_tried(plugin, options))
    sizes = ", ".join(map(str, SIZES))
    require(tried, f"no data of {sizes} rows could be dealt out; the options may not fit any")
    for rows, _, partition in tried:
        noted = "dropped" in partition.note or "left out" in partition.note
        dropped = len(partition.dropped)
        require(noted or not dropped, f"{dropped} of {rows} rows are dropped, but the note doesn't say so")


def _as_many(plugin: Plugin, options: Mapping[str, Any]) -> None:
    if options.get("clients", 1) is None:
        raise Skipped("clients is null: the partition decides")
    for rows, clients, partition in _tried(plugin, options):
        expected, count = options.get("clients", clients), len(partition.clients)
        require(count == expected, f"{count} clients of {rows} rows, {expected} were asked for")


def _again(dealt: partial[Partition]) -> None:
    draws = "draw only from the generator that build receives"
    for seed in range(SEEDS):
        drawn = set()
        for disturbed in (1, 2):
            disturb(disturbed)
            drawn.add(_bytes(dealt(seed)))
        require(len(drawn) == 1, f"seed {seed} gave two partitions; {draws}")


def _seeds(dealt: partial[Partition]) -> None:
    drawn = {_bytes(dealt(seed)) for seed in range(SEEDS)}
    if len(drawn) == 1:
        raise Skipped(f"{SEEDS} seeds give one partition: nothing is drawn")
    require(len(drawn) == SEEDS, f"{SEEDS} seeds gave {len(drawn)} partitions")


def _bytes(partition: Partition) -> bytes:
    return b"|".join(rows.tobytes() for rows in partition.clients)


def _harmless(dealt: partial[Partition]) -> None:
    dataset = _toy(SIZES[-1])
    before = dataset.sha256()
    dealt(data=dataset)
    require(dataset.sha256() == before, "build writes into the data that it is given")


def _holds_out(dealt: partial[Partition], options: Mapping[str, Any]) -> None:
    for more in ({"validation": 0.2}, {"validation": 0.2, "validation_from": "pool"}, FOLD):
        if any(key in options for key in more):
            raise Skipped("the options hold rows out themselves")
        try:
            partition = dealt(**more)
        except BrokenContract:
            raise
        except SpecError as refused:
            raise Skipped(f"with {more}: {refused}") from None
        held_out = partition.held_out if more == FOLD else partition.validation
        require(len(held_out), f"with {more} nothing is held out")
