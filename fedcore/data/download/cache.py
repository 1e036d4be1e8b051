"""The cache of verified data files: plain files, each with a marker of when and against what it was checked.

A file whose size or time differs from its marker is hashed again, so a changed file is never believed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.base.files import atomic, read_object, sha256_file, sha256_text, write_json
from fedcore.data import Source
from fedcore.data.download import File
from fedcore.data.download.unpack import DAMAGE, opened, rows_sha256


def inside(folder: Path, relative: str) -> Path:
    """Return ``folder / relative``, refusing a path that would lead out of the folder.

    Raises:
        DataError: ``relative`` is absolute or climbs out.
    """
    path = folder / relative
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{relative}: leads out of {folder}")
    return path


def place(file: File, source: Source) -> Path:
    """Return where the cache keeps a file."""
    return inside(source.root / "fetched", file.path)


def holds(file: File, source: Source) -> bool:
    """Say whether the cache holds the file, verified now, or earlier and unchanged since."""
    path = place(file, source)
    if not path.is_file():
        return False
    recorded = _recorded(path)
    if recorded == _facts(path, file, recorded.get("sha256", "")):
        return True
    found = sha256_file(path)
    if not right(file, found, path) and not (not file.sha256 and found == recorded.get("sha256")):
        return False
    mark(file, path, found)
    return True


def right(file: File, found: str, stored: Path, member: str = "") -> bool:
    """Say whether the content of ``stored`` is the file's by its SHA-256 ``found``, or (text) by its rows."""
    if not file.sha256 or found == file.sha256:
        return bool(file.sha256)
    if not file.rows_sha256:
        return False
    with opened(stored, member) as lines:
        return rows_sha256(lines) == file.rows_sha256


def mark(file: File, path: Path, found: str) -> None:
    """Record that ``path`` was verified and has the SHA-256 ``found``."""
    write_json(_marker(path), _facts(path, file, found))


def _facts(path: Path, file: File, found: str) -> dict[str, object]:
    stat = path.stat()
    return {
        "bytes": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "sha256": found,
        "expected": file.sha256,
        "expected_rows": file.rows_sha256,
    }


def _recorded(path: Path) -> dict[str, str]:
    try:
        return read_object(_marker(path))
    except (OSError, ValueError):
        return {}


def _marker(path: Path) -> Path:
    return path.with_name(f".{path.name}.verified.json")


def derived(
    source: Source, name: str, files: Mapping[str, Path], make: Callable[[], dict[str, NDArray[Any]]]
) -> dict[str, NDArray[Any]]:
    """Return arrays that are slow to read from their files, kept beside the cache under their checksums.

    Args:
        source: whose cache.
        name: what the arrays are; changes when ``make`` does.
        files: the verified files that ``make`` reads.
        make: reads them.
    """
    found = "".join(_recorded(path).get("sha256") or sha256_file(path) for path in files.values())
    path = inside(source.root / "fetched" / "derived", f"{name}-{sha256_text(found)[:16]}.npz")
    if path.is_file():
        with contextlib.suppress(*DAMAGE, ValueError, KeyError), np.load(path, allow_pickle=False) as kept:
            return {key: kept[key] for key in kept.files}
    arrays = make()
    with contextlib.suppress(OSError), atomic(path) as handle:
        np.savez(handle, allow_pickle=False, **arrays)
    return arrays
