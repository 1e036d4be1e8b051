"""A partition as a file: an .npz that says what it was made from, equal bytes for equal input."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError, SpecError
from fedcore.base.files import atomic, canonical_json
from fedcore.base.options import differences, shown
from fedcore.data import Partition

FORMAT = 1
EPOCH = (1980, 1, 1, 0, 0, 0)


def save(partition: Partition, path: Path, identity: dict[str, Any]) -> None:
    """Write a partition and what it was made from as an .npz file.

    Equal input gives equal bytes: entries are stored uncompressed with a fixed time.

    Args:
        partition: what to write.
        path: the file, replaced atomically.
        identity: plain JSON values, see ``identity``.
    """
    arrays: dict[str, NDArray[Any]] = {
        "format": np.array(FORMAT, dtype="<i8"),
        **_packed("", partition.clients),
        **_packed("held_out_", partition.held_out),
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
    except Exception as error:
        raise DataError(f"{path}: damaged, or not a partition file ({type(error).__name__})") from None
    missing = {
        "format",
        "sizes",
        "rows",
        "held_out_sizes",
        "held_out_rows",
        "validation",
        "dropped",
        "note",
        "identity",
    } - set(found)
    if missing:
        raise DataError(f"{path}: not a partition file ('{min(missing)}' is missing)")
    if (version := found["format"].tolist()) != FORMAT:
        raise DataError(f"{path}: partition format {shown(version)}, expected {FORMAT}")
    try:
        note, origin = found["note"].tobytes().decode(), json.loads(found["identity"].tobytes())
    except (ValueError, RecursionError):
        raise DataError(f"{path}: damaged ('note' or 'identity' is no text)") from None
    if not isinstance(origin, dict):
        raise DataError(f"{path}: 'identity' is {shown(origin)}, expected keys and values")
    partition = Partition(
        clients=_unpacked(path, found, "", "client"),
        validation=_rows(path, found, "validation"),
        test=_rows(path, found, "test") if "test" in found else None,
        dropped=_rows(path, found, "dropped"),
        note=note,
        held_out=_unpacked(path, found, "held_out_", "held-out client"),
    )
    return partition, origin


def _packed(prefix: str, clients: tuple[NDArray[np.int64], ...]) -> dict[str, NDArray[Any]]:
    return {
        f"{prefix}sizes": np.array([len(rows) for rows in clients], dtype="<i8"),
        f"{prefix}rows": np.concatenate([np.empty(0), *clients]).astype("<i8"),
    }


def _unpacked(
    path: Path, found: dict[str, NDArray[Any]], prefix: str, who: str
) -> tuple[NDArray[np.int64], ...]:
    sizes = _rows(path, found, f"{prefix}sizes")
    if (sizes < 0).any():
        client = int(np.argmax(sizes < 0))
        raise DataError(f"{path}: {who} {client}: size {sizes[client]}, expected 0 or more")
    rows = _rows(path, found, f"{prefix}rows", who, sizes)
    if (total := sum(sizes.tolist())) != len(rows):
        raise DataError(f"{path}: damaged ({len(rows)} rows, expected {total})")
    return tuple(np.split(rows, np.cumsum(sizes)[:-1])) if len(sizes) else ()


def _rows(
    path: Path, found: dict[str, NDArray[Any]], name: str, who: str = "", sizes: Any = ()
) -> NDArray[np.int64]:
    """Return a list of whole numbers; one that is none is refused, with the client that has it, if any."""
    array = found[name]
    if array.ndim == 1 and array.dtype.kind in "iu":
        return array.astype(np.int64)
    numbers = array.ravel() if array.dtype.kind == "f" else np.zeros(0)
    place = int(np.argmax(numbers % 1 != 0)) if len(numbers) else 0
    client = int(np.searchsorted(np.cumsum(sizes), place, side="right")) if len(sizes) else None
    whose = name if client is None else f"{who} {client}"
    what = f"{numbers[place]:g}" if len(numbers) else f"{array.dtype} of shape {array.shape}"
    raise DataError(f"{path}: {whose}: got {what} in a list of {array.dtype}, expected whole numbers")


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
    if first := next(iter(differences(found, expected)), None):
        key, there, here = first
        raise SpecError(
            f"{path}: made for another specification: {key} is {shown(there)}, expected {shown(here)}"
        )
