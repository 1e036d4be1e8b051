"""A partition given as lists of rows, in the specification or in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import NonNegativeInt, model_validator

from fedcore.base.errors import DataError, SpecError
from fedcore.base.files import is_file, read_json, sha256_file
from fedcore.base.options import shown
from fedcore.base.registry import Plugin
from fedcore.data import Dataset, Partition
from fedcore.partitions import PartitionOptions
from fedcore.partitions.file import load


class Options(PartitionOptions):
    """Where the lists are.

    Attributes:
        rows: one list of row numbers a client, in the specification itself.
        path: a .json file with such lists, or an .npz file that ``fedcore partition`` wrote.
        sha256: the hash of that file, so that the specification says what the run computes.
        drop_rest: leave rows that no list names out; else they are an error.
    """

    rows: tuple[tuple[NonNegativeInt, ...], ...] | None = None
    path: str | None = None
    sha256: str | None = None
    drop_rest: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> Options:
        if (self.rows is None) == (self.path is None):
            raise ValueError("expected either 'rows' or 'path'")
        if self.rows == ():
            raise ValueError("rows: expected one list a client, got none")
        return self


def from_lists(lists: object, total: int, drop_rest: bool, where: str) -> Partition:
    """Check lists of row numbers and make them a partition of ``total`` rows.

    Raises:
        SpecError: no lists of row numbers, or (unless ``drop_rest``) a row is in none of them.
    """
    if not isinstance(lists, list | tuple) or not lists:
        raise SpecError(f"{where}: expected a list of rows for each client")
    for client, rows in enumerate(lists):
        if not isinstance(rows, list | tuple) or any(type(row) is not int or row < 0 for row in rows):
            raise SpecError(f"{where}: client {client}: expected a list of row numbers")
        if rows and max(rows) >= total:
            raise SpecError(f"{where}: client {client}: row {max(rows)}, but the data have {total} rows")
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
    if not is_file(path):
        raise DataError(f"partition.path: no such file: {shown(options.path)}")
    found = sha256_file(path)
    if options.sha256 != found:
        raise SpecError(f"partition.sha256: got {options.sha256}, but {path} has {found}")
    if path.suffix == ".npz":
        return load(path)[0]
    try:
        lists = read_json(path)
    except (ValueError, OSError):
        raise DataError(f"{path}: not a JSON file of row lists") from None
    return from_lists(lists, total, options.drop_rest, str(path))


PLUGIN = Plugin(
    name="file",
    options=Options,
    build=build,
    summary="Row lists given in the specification, a JSON file or a partition file.",
    source="the user",
)
