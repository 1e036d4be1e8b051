"""From a partition's options to the checked partition: built, held out, split by client."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import BrokenContract, DataError, SpecError
from fedcore.base.rng import Streams
from fedcore.data import Dataset, Partition
from fedcore.partitions import Fold, Indices, PartitionOptions, Plugin, cut, even, floor_share, joined


def make(plugin: Plugin, options: PartitionOptions, dataset: Dataset, seed: int) -> Partition:
    """Build a partition, hold rows out as its options say, and check it.

    Args:
        plugin: the partition plug-in.
        options: its validated options; their ``seed`` comes before ``seed``.
        dataset: what to split; only ``train`` is.
        seed: the run's seed.

    Returns:
        Disjoint sorted row numbers of ``dataset.train``, all but ``dropped``; ``note`` names empty clients.

    Raises:
        DataError: there are no rows to deal out.
        SpecError: the options don't fit the data, or (``BrokenContract``) the plug-in broke its contract.
    """
    streams = Streams(options.seed_or(seed))
    if any(options.from_pool().values()):
        partition = _after_pool(plugin, options, dataset, streams)
    else:
        partition = _built(plugin, options, dataset, streams)
    if options.fold is not None:
        partition = _by_client(partition, options.fold, streams)
    elif options.validation > 0 and options.validation_from == "clients":
        partition = _hold_out(partition, options.validation, streams)
    return _tidy(partition)


def _built(plugin: Plugin, options: PartitionOptions, dataset: Dataset, streams: Streams) -> Partition:
    if not len(dataset.train):
        raise DataError(f"data '{dataset.name}': no training rows, expected some to deal out")
    where = str(getattr(options, "path", None) or f"partition '{plugin.name}'")  # a user's file, by its name
    built = plugin.build(options, dataset, streams.get("partition"))
    if not isinstance(built, Partition):
        raise BrokenContract(f"{where}: returned {type(built).__name__}, expected a Partition")
    clients = (_numbers(rows, f"{where}: client {client}") for client, rows in enumerate(built.clients))
    partition = replace(built, clients=tuple(clients))
    check(partition, len(dataset.train), where)
    return partition


def _numbers(rows: Any, where: str) -> Indices:
    """Return a client's row numbers as int64 [n]; refuse anything else."""
    numbers = np.asarray(rows)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and len(numbers)):
        found = f"{numbers.dtype} of shape {list(numbers.shape)}"
        raise BrokenContract(f"{where}: {found}, expected a list of row numbers")
    return numbers.astype(np.int64)


def check(partition: Partition, rows: int, where: str) -> None:
    """Make sure that each of ``rows`` rows is held once or dropped, and a held-out client's is held out.

    Raises BrokenContract where a row is out of range, held twice, or missing; the line names who holds it,
    and ``where``, the file or the plug-in that the partition comes from.
    """
    clients = [(f"client {client}", held) for client, held in enumerate(partition.clients)]
    sets = partition.sets()
    times = _times([*clients, *sets.items()], rows, where)
    if (times == 0).any():
        row = int(np.argmin(times))
        raise BrokenContract(f"{where}: row {row} is neither held nor dropped, expected each of {rows} once")
    held_out = [(f"held-out client {client}", held) for client, held in enumerate(partition.held_out)]
    served = np.isin(np.arange(rows), joined(held for name, held in sets.items() if name != "dropped"))
    if (lost := (_times(held_out, rows, where) > 0) & ~served).any():
        row = int(np.argmax(lost))
        who = next(name for name, held in held_out if row in held)
        raise BrokenContract(f"{where}: {who}: row {row} is neither a validation nor a test row")


def _times(parts: list[tuple[str, Indices]], rows: int, where: str) -> NDArray[np.int64]:
    """Return how often each of ``rows`` rows is held, [rows], 0 or 1; refuse any other."""
    held = joined(part for _, part in parts)
    owner = np.repeat(np.arange(len(parts)), np.array([len(part) for _, part in parts], np.int64))
    outside = (held < 0) | (held >= rows)
    if outside.any():
        place = int(np.argmax(outside))
        raise BrokenContract(
            f"{where}: {parts[owner[place]][0]}: row {held[place]} is out of range, the data have {rows} rows"
        )
    times = np.bincount(held, minlength=rows)
    if (times > 1).any():
        row = int(np.argmax(times > 1))
        first, second = (parts[owner[place]][0] for place in np.flatnonzero(held == row)[:2])
        raise BrokenContract(
            f"{where}: row {row} is held more than once, by {first} and {second}, expected each row once"
        )
    return times


def noisy(x: NDArray[Any], clients: Sequence[Indices], variance: float, streams: Streams) -> NDArray[Any]:
    """Return the inputs [n, ...], which must be real numbers and not indices of tokens, with Gaussian noise
    of ``variance`` k / N on the rows of client k of N.
    """
    if x.dtype.kind != "f":
        raise SpecError(f"partition.noise: inputs are {x.dtype}, expected real numbers to add noise to")
    x = x.copy()
    for client, rows in enumerate(clients):
        drawn = streams.get("input noise", client=client).standard_normal((len(rows), *x.shape[1:]))
        x[rows] += (math.sqrt(variance * (client + 1) / len(clients)) * drawn).astype(x.dtype)
    return x


def fold_sets(clients: int, fold: Fold, rng: np.random.Generator) -> tuple[Indices, Indices, Indices]:
    """Deal client ids into ``fold.of`` sets and return those that train, validate and test, sorted.

    With one ``rng`` state, each client is tested in exactly one of the folds 0..of-1 and validated in
    exactly one. Larger sets come first: 143 clients give 85, 29 and 29 in fold 0. Fewer clients than sets are
    a SpecError. Source: RADFed, section IV-C.
    """
    if clients < fold.of:
        raise SpecError(f"partition.fold.of: got {fold.of}, expected at most {clients} (all clients)")
    sets = cut(rng.permutation(clients), even(clients, fold.of))
    train = np.concatenate([ids for i, ids in enumerate(sets) if i not in {fold.index, fold.validation}])
    return np.sort(train), np.sort(sets[fold.validation]), np.sort(sets[fold.index])


def _after_pool(plugin: Plugin, options: PartitionOptions, dataset: Dataset, streams: Streams) -> Partition:
    """Take validation, selection and test rows out of all rows first, then partition the others."""
    total = len(dataset.train)
    shares = options.from_pool()
    sizes = [floor_share(share, total) for share in shares.values()]
    for name, size in zip(shares, sizes, strict=True):
        if name != "validation" and shares[name] and not size:
            raise SpecError(f"partition.{name}: got {shares[name]:g}, which is no row of {total}")
    ends = np.cumsum(sizes)
    validation, selection, test, kept = np.split(streams.get("partition/validation").permutation(total), ends)
    kept = np.sort(kept)
    features = {key: column[kept] for key, column in dataset.client_features.items()}
    rest = replace(dataset, train=dataset.train.take(kept), client_features=features)
    inner = _each(_built(plugin, options, rest, streams), lambda rows: kept[rows])
    tested = [] if inner.test is None else [inner.test]
    notes = (f"; {100 * share:g}% of all rows held out for {name}" for name, share in shares.items() if share)
    return replace(
        inner,
        validation=joined([validation, inner.validation]),
        selection=joined([selection, inner.selection]),
        test=joined([test, *tested]) if options.test else inner.test,
        note=inner.note + "".join(notes),
    )


def _hold_out(partition: Partition, share: float, streams: Streams) -> Partition:
    kept, taken = [], [partition.validation]
    for client, rows in enumerate(partition.clients):
        order = streams.get("partition/validation", client=client).permutation(np.sort(rows))
        count = floor_share(share, len(rows))
        taken.append(order[:count])
        kept.append(order[count:])
    note = f"{partition.note}; {100 * share:g}% of each client's rows held out for validation"
    return replace(partition, clients=tuple(kept), validation=np.concatenate(taken), note=note)


def _by_client(partition: Partition, fold: Fold, streams: Streams) -> Partition:
    clients = partition.clients
    train, validation, test = fold_sets(len(clients), fold, streams.get("partition/fold"))
    note = (
        f"{partition.note}; fold {fold.index} of {fold.of}: {len(train)} training, "
        f"{len(validation)} validation and {len(test)} test clients"
    )
    test_rows = [] if partition.test is None else [partition.test]
    return replace(
        partition,
        clients=tuple(clients[i] for i in train),
        validation=joined([partition.validation, *(clients[i] for i in validation)]),
        test=joined([*test_rows, *(clients[i] for i in test)]),
        note=note,
        held_out=tuple(clients[i] for i in np.sort([*validation, *test])),
    )


def _tidy(partition: Partition) -> Partition:
    empty = [client for client, rows in enumerate(partition.clients) if len(rows) == 0]
    note = partition.note
    if empty:
        listed = ", ".join(map(str, empty[:10])) + (", ..." if len(empty) > 10 else "")
        note += f"; {len(empty)} of {len(partition.clients)} clients are empty ({listed})"
    return _each(replace(partition, note=note), lambda rows: np.sort(rows).astype(np.int64))


def _each(partition: Partition, change: Callable[[Indices], Indices]) -> Partition:
    sets: dict[str, Any] = {name: change(rows) for name, rows in partition.sets().items()}
    clients, held_out = (tuple(map(change, parts)) for parts in (partition.clients, partition.held_out))
    return replace(partition, clients=clients, held_out=held_out, **sets)
