"""A partition as a file: an .npz that says what it was made from, equal bytes for equal input."""

import io
import json
import zipfile
from os.path import isfile
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, model_validator

from fedcore.base.errors import DataError, SpecError, shown
from fedcore.base.files import atomic, canonical_json, read_json, sha256_file
from fedcore.base.options import differences
from fedcore.data import Dataset, Partition
from fedcore.data.readers import reading
from fedcore.partitions import Indices, PartitionOptions, Plugin, cut, joined

FORMAT = 1


def save(partition: Partition, path: Path, identity: dict[str, Any]) -> None:
    """Write a partition and its ``identity``, plain JSON values, as an .npz file, atomically.

    Equal input gives equal bytes: entries are stored uncompressed with the fixed time of ``ZipInfo``.
    """
    with atomic(path) as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_STORED) as archive:
        for name, array in _packed(partition, identity).items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue())


def load(path: Path) -> tuple[Partition, dict[str, Any]]:
    """Return what ``save`` wrote, partition and identity; DataError for another, damaged or missing file."""
    with reading(path, "a partition file, or damaged"), np.load(path, allow_pickle=False) as archive:
        arrays = dict(archive)
    if missing := set(_packed(Partition(()), {})) - set(arrays):
        raise DataError(f"{path}: not a partition file ('{min(missing)}' is missing)")
    if (version := arrays["format"].tolist()) != FORMAT:
        raise DataError(f"{path}: partition format {shown(version)}, expected {FORMAT}")
    try:
        note, origin = arrays["note"].tobytes().decode(), json.loads(arrays["identity"].tobytes())
    except (ValueError, RecursionError):
        raise DataError(f"{path}: damaged ('note' or 'identity' is no text)") from None
    if not isinstance(origin, dict):
        raise DataError(f"{path}: 'identity' is {shown(origin)}, expected keys and values")
    clients = _unpacked(path, arrays, "", "client")
    held_out = _unpacked(path, arrays, "held_out_", "held-out client")
    names = {"validation", "selection", "dropped", "test"} & arrays.keys()
    sets = {name: _rows(path, arrays, name) for name in sorted(names)}
    return Partition(clients, note=note, held_out=held_out, **sets), origin


def _packed(partition: Partition, identity: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file, by name and in order; ``selection`` and ``test`` if they are there."""
    arrays: dict[str, NDArray[Any]] = {"format": np.array(FORMAT, dtype="<i8")}
    for prefix, clients in (("", partition.clients), ("held_out_", partition.held_out)):
        arrays[f"{prefix}sizes"] = np.array([len(rows) for rows in clients], dtype="<i8")
        arrays[f"{prefix}rows"] = joined(clients).astype("<i8")
    arrays["validation"] = partition.validation.astype("<i8")
    arrays["dropped"] = partition.dropped.astype("<i8")
    arrays["note"] = np.frombuffer(partition.note.encode(), dtype=np.uint8)
    arrays["identity"] = np.frombuffer(canonical_json(identity).encode(), dtype=np.uint8)
    if len(partition.selection):
        arrays["selection"] = partition.selection.astype("<i8")
    return arrays if partition.test is None else {**arrays, "test": partition.test.astype("<i8")}


def _unpacked(path: Path, arrays: dict[str, NDArray[Any]], prefix: str, who: str) -> tuple[Indices, ...]:
    sizes = _rows(path, arrays, f"{prefix}sizes")
    if (sizes < 0).any():
        client = int(np.argmax(sizes < 0))
        raise DataError(f"{path}: {who} {client}: size {sizes[client]}, expected 0 or more")
    rows = _rows(path, arrays, f"{prefix}rows", who, sizes)
    if (total := sum(sizes.tolist())) != len(rows):
        raise DataError(f"{path}: damaged ({len(rows)} rows, expected {total})")
    return tuple(cut(rows, sizes))


def _rows(path: Path, arrays: dict[str, NDArray[Any]], name: str, who: str = "", sizes: Any = ()) -> Indices:
    """Return a list of whole numbers; any other value is refused, with the client that has it, if any."""
    array = arrays[name]
    if array.ndim == 1 and array.dtype.kind in "iu":
        if (largest := int(array.max(initial=0))) >= 2**63:
            raise DataError(f"{path}: {name}: got {largest}, expected whole numbers below 2**63")
        return array.astype(np.int64)
    numbers = array.ravel() if array.dtype.kind == "f" else np.zeros(0)
    place = int(np.argmax(numbers % 1 != 0)) if len(numbers) else 0
    holder = f"{who} {np.searchsorted(np.cumsum(sizes), place, side='right')}" if len(sizes) else name
    what = f"{numbers[place]:g}" if len(numbers) else f"{array.dtype} of shape {array.shape}"
    raise DataError(f"{path}: {holder}: got {what} in a list of {array.dtype}, expected whole numbers")


def identity(partition: dict[str, Any], data: dict[str, Any], seed: int, data_sha256: str) -> dict[str, Any]:
    """Return what decides a partition: its section, the data, and the seed it was drawn with.

    A partition with a seed of its own has the same identity in runs of any seed.
    """
    drawn_with = seed if partition.get("seed") is None else partition["seed"]
    return {"partition": partition, "data": data, "seed": drawn_with, "data_sha256": data_sha256}


def refuse_other(path: Path, origin: dict[str, Any], expected: dict[str, Any]) -> None:
    """Refuse a partition file that was made from something else, by the first part that differs."""
    for key, stored, current in differences(origin, expected)[:1]:
        raise SpecError(
            f"{path}: made for another specification: {key} is {shown(stored)}, expected {shown(current)}"
        )


class Options(PartitionOptions):
    """Where the lists are; their row numbers count the training rows, from 0.

    Attributes:
        rows: one list of row numbers per client, in the specification itself.
        path: a .json file with such lists, or an .npz file that ``fedcore partition`` wrote.
        sha256: the hash of that file, so that the specification says what the run computes.
        drop_rest: leave rows that no list names out; else they are an error.
    """

    rows: tuple[tuple[NonNegativeInt, ...], ...] | None = None
    path: str | None = None
    sha256: str | None = None
    drop_rest: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.rows is None) == (self.path is None):
            raise ValueError("expected either 'rows' or 'path'")
        if self.rows is not None and self.sha256 is not None:
            raise ValueError(f"sha256: got '{self.sha256}' beside 'rows', expected it beside 'path' alone")
        if taken := [name for name, share in self.from_pool().items() if share]:
            raise ValueError(f"{taken[0]}: takes rows of the pool, expected none beside 'rows' or 'path'")
        if self.rows == ():
            raise ValueError("rows: expected one list a client, got none")
        return self


def from_lists(lists: object, total: int, drop_rest: bool, where: str) -> Partition:
    """Return lists of row numbers as a partition; SpecError: a wrong one or, without ``drop_rest``, a gap."""
    if not isinstance(lists, list | tuple) or not lists:
        raise SpecError(f"{where}: expected a list of rows for each client")
    for client, rows in enumerate(lists):
        if not isinstance(rows, list | tuple) or any(type(row) is not int or row < 0 for row in rows):
            raise SpecError(f"{where}: client {client}: expected a list of row numbers")
        if rows and max(rows) >= total:
            raise SpecError(
                f"{where}: client {client}: row {max(rows)}, but the data have {total} training rows"
            )
    clients = tuple(np.array(rows, dtype=np.int64) for rows in lists)
    rest = np.setdiff1d(np.arange(total), np.concatenate(clients))
    if len(rest) and not drop_rest:
        raise SpecError(f"{where}: {len(rest)} rows are in no list (the first is {rest[0]}); set drop_rest")
    note = f"{len(clients)} clients from lists" + (f"; {len(rest)} rows left out" if len(rest) else "")
    return Partition(clients=clients, dropped=rest, note=note)


def build(options: Options, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Read the lists."""
    total = len(dataset.train)
    if options.path is None:
        return from_lists(options.rows, total, options.drop_rest, "partition.rows")
    path = Path(options.path)
    if not isfile(path):
        raise DataError(f"partition.path: no such file: {shown(options.path)}")
    if options.sha256 != (sha256 := sha256_file(path)):
        raise SpecError(f"partition.sha256: got {options.sha256}, but {path} has {sha256}")
    if path.suffix == ".npz":
        partition, origin = load(path)
        if (made_for := origin.get("data_sha256", "")) not in {"", sha256 := dataset.sha256()}:
            raise SpecError(f"{path}: made for data of data_sha256 {made_for}, expected {sha256}")
        return partition
    with reading(path, "a JSON file of row lists"):
        lists = read_json(path)
    return from_lists(lists, total, options.drop_rest, str(path))


PLUGIN = Plugin(
    "file",
    Options,
    build,
    "row lists given in the specification, a JSON file or a partition file",
    "the user",
)
