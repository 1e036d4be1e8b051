"""From options to a checked partition, and from a partition to a file and back."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.data import Dataset, Partition
from fedcore.data import Rows as DataRows
from fedcore.errors import DataError, SpecError
from fedcore.files import atomic, canonical_json
from fedcore.partition_base import Fold, PartitionOptions, Rows, even
from fedcore.registry import Plugin
from fedcore.rng import Streams

FORMAT = 1
EPOCH = (1980, 1, 1, 0, 0, 0)


def make(plugin: Plugin, options: PartitionOptions, dataset: Dataset, seed: int) -> Partition:
    """Build a partition, hold rows out as its options say, and check it.

    Args:
        plugin: the partition plug-in.
        options: its validated options; their ``seed`` comes before ``seed``.
        dataset: what to split; only ``train`` is.
        seed: the run's seed.

    Returns:
        Disjoint sorted index arrays into ``dataset.train`` that cover every row but ``dropped``; empty
        clients and held-out rows are named in ``note``.

    Raises:
        SpecError: the options don't fit the data, or the plug-in broke the contract.
    """
    streams = Streams(seed if options.seed is None else options.seed)
    if options.validation_from == "pool" and options.validation > 0:
        partition = _after_pool(plugin, options, dataset, streams)
    else:
        partition = plugin.build(options, dataset, streams.get("partition"))
    check(partition, len(dataset.train), plugin.name)
    if options.fold is not None:
        partition = _by_client(partition, options.fold, streams)
    elif options.validation > 0 and options.validation_from == "clients":
        partition = _hold_out(partition, options.validation, streams)
    return _tidy(partition)


def check(partition: Partition, rows: int, name: str) -> None:
    """Make sure that each of ``rows`` rows is held once or dropped.

    Raises:
        SpecError: a row is out of range, held twice, or missing.
    """
    held = np.concatenate([*partition.clients, *_others(partition)])
    if held.size and (held.min() < 0 or held.max() >= rows):
        raise SpecError(f"partition '{name}': row {held.max()} is out of range, the data have {rows} rows")
    times = np.bincount(held, minlength=rows)
    if (times > 1).any():
        raise SpecError(f"partition '{name}': row {int(np.argmax(times > 1))} is held more than once")
    if (times == 0).any():
        raise SpecError(f"partition '{name}': row {int(np.argmin(times))} is neither held nor dropped")


def fold_sets(clients: int, fold: Fold, rng: np.random.Generator) -> tuple[Rows, Rows, Rows]:
    """Deal client ids into ``fold.of`` sets and return those that train, validate and test, sorted.

    With one ``rng`` state, each client is tested in exactly one of the folds 0..of-1 and validated in
    exactly one. Larger sets come first: 143 clients give 85, 29 and 29 in fold 0.

    Source: RADFed, section IV-C.

    Raises:
        SpecError: fewer clients than sets.
    """
    if clients < fold.of:
        raise SpecError(
            f"partition.fold.of: got {fold.of}, expected at most {clients} (the number of clients)"
        )
    sets = np.split(rng.permutation(clients), np.cumsum(even(clients, fold.of))[:-1])
    held_out = fold.index, (fold.index + fold.rotation) % fold.of
    train = np.concatenate([own for i, own in enumerate(sets) if i not in held_out])
    return np.sort(train), np.sort(sets[held_out[1]]), np.sort(sets[held_out[0]])


def save(partition: Partition, path: Path, identity: dict[str, Any]) -> None:
    """Write a partition and what it was made from as an .npz file.

    Equal input gives equal bytes: entries are stored uncompressed with a fixed time.

    Args:
        partition: what to write.
        path: the file, replaced atomically.
        identity: plain JSON values, see ``identity``.
    """
    sizes = np.array([len(rows) for rows in partition.clients], dtype="<i8")
    arrays: dict[str, NDArray[Any]] = {
        "format": np.array(FORMAT, dtype="<i8"),
        "sizes": sizes,
        "rows": _joined(partition.clients),
        "validation": partition.validation.astype("<i8"),
        "dropped": partition.dropped.astype("<i8"),
        "note": np.frombuffer(partition.note.encode(), dtype=np.uint8),
        "identity": np.frombuffer(canonical_json(identity).encode(), dtype=np.uint8),
    }
    if partition.test is not None:
        arrays["test"] = partition.test.astype("<i8")
    with atomic(path) as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", EPOCH), buffer.getvalue())


def load(path: Path) -> tuple[Partition, dict[str, Any]]:
    """Read what ``save`` wrote: the partition and its identity.

    Raises:
        DataError: the file is missing, damaged, or no partition of this format.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise DataError(f"{path}: no such partition file") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, TypeError, AttributeError) as error:
        raise DataError(f"{path}: damaged, or not a partition file ({type(error).__name__})") from None
    missing = {"format", "sizes", "rows", "validation", "dropped", "note", "identity"} - set(found)
    if missing:
        raise DataError(f"{path}: not a partition file ('{min(missing)}' is missing)")
    if int(found["format"]) != FORMAT:
        raise DataError(f"{path}: partition format {int(found['format'])}, expected {FORMAT}")
    if int(found["sizes"].sum()) != len(found["rows"]):
        raise DataError(f"{path}: damaged ({len(found['rows'])} rows, expected {int(found['sizes'].sum())})")
    partition = Partition(
        clients=tuple(np.split(found["rows"].astype(np.int64), np.cumsum(found["sizes"])[:-1])),
        validation=found["validation"].astype(np.int64),
        test=found["test"].astype(np.int64) if "test" in found else None,
        dropped=found["dropped"].astype(np.int64),
        note=found["note"].tobytes().decode(),
    )
    return partition, json.loads(found["identity"].tobytes())


def identity(partition: dict[str, Any], data: dict[str, Any], seed: int, data_sha256: str) -> dict[str, Any]:
    """Return what decides a partition: its section, the data, and the seed it was drawn with.

    A partition with a seed of its own has the same identity in runs of any seed.
    """
    own = partition.get("seed")
    return {
        "partition": partition,
        "data": data,
        "seed": seed if own is None else own,
        "data_sha256": data_sha256,
    }


def refuse_other(path: Path, found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Refuse a partition file that was made from something else.

    Raises:
        SpecError: names the first part that differs.
    """
    for key in expected:
        if found.get(key) != expected[key]:
            raise SpecError(
                f"{path}: made for another specification: {key} is {canonical_json(found.get(key))}, "
                f"expected {canonical_json(expected[key])}"
            )


def _after_pool(plugin: Plugin, options: PartitionOptions, dataset: Dataset, streams: Streams) -> Partition:
    """Take the validation rows out of all rows first, then partition the others."""
    total = len(dataset.train)
    order = streams.get("partition/validation").permutation(total)
    taken, kept = np.split(order, [int(options.validation * total)])
    kept = np.sort(kept)
    groups = dataset.train.groups
    rest = replace(
        dataset,
        train=DataRows(
            dataset.train.x[kept], dataset.train.y[kept], None if groups is None else groups[kept]
        ),
        client_features={key: column[kept] for key, column in dataset.client_features.items()},
    )
    inner = plugin.build(options, rest, streams.get("partition"))
    check(inner, len(kept), plugin.name)
    return Partition(
        clients=tuple(kept[rows] for rows in inner.clients),
        validation=np.concatenate([taken, kept[inner.validation]]),
        test=None if inner.test is None else kept[inner.test],
        dropped=kept[inner.dropped],
        note=f"{inner.note}; {options.validation:.0%} of all rows held out for validation",
    )


def _hold_out(partition: Partition, share: float, streams: Streams) -> Partition:
    kept, taken = [], [partition.validation]
    for client, rows in enumerate(partition.clients):
        order = streams.get("partition/validation", client=client).permutation(np.sort(rows))
        count = int(share * len(rows))
        taken.append(order[:count])
        kept.append(order[count:])
    note = f"{partition.note}; {share:.0%} of each client's rows held out for validation"
    return replace(partition, clients=tuple(kept), validation=np.concatenate(taken), note=note)


def _by_client(partition: Partition, fold: Fold, streams: Streams) -> Partition:
    train, validation, test = fold_sets(len(partition.clients), fold, streams.get("partition/fold"))
    own = partition.clients
    note = (
        f"{partition.note}; fold {fold.index} of {fold.of}: {len(train)} training, "
        f"{len(validation)} validation and {len(test)} test clients"
    )
    return Partition(
        clients=tuple(own[i] for i in train),
        validation=_joined([partition.validation, *(own[i] for i in validation)]),
        test=_joined([*([] if partition.test is None else [partition.test]), *(own[i] for i in test)]),
        dropped=partition.dropped,
        note=note,
    )


def _tidy(partition: Partition) -> Partition:
    empty = [client for client, rows in enumerate(partition.clients) if len(rows) == 0]
    note = partition.note
    if empty:
        listed = ", ".join(map(str, empty[:10])) + (", ..." if len(empty) > 10 else "")
        note += f"; {len(empty)} of {len(partition.clients)} clients are empty ({listed})"
    return Partition(
        clients=tuple(np.sort(rows).astype(np.int64) for rows in partition.clients),
        validation=np.sort(partition.validation).astype(np.int64),
        test=None if partition.test is None else np.sort(partition.test).astype(np.int64),
        dropped=np.sort(partition.dropped).astype(np.int64),
        note=note,
    )


def _others(partition: Partition) -> list[Rows]:
    test = [] if partition.test is None else [partition.test]
    return [partition.validation, partition.dropped, *test]


def _joined(arrays: Any) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *arrays]).astype("<i8")
