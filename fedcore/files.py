"""Files that are either there in full or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

PART = ".part"


@contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """Open ``path`` for writing so that readers see the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PART)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold a folder for this process alone, and wait while another one holds it.

    The system ends the hold when the process ends, however it ends; what a killed one had half written is
    removed. On a file system that can't lock, nobody is kept out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        if _locked(handle, folder):
            for left in folder.glob(f".*{PART}"):
                left.unlink(missing_ok=True)
        yield
    finally:
        os.close(handle)


def _locked(handle: int, folder: Path) -> bool:
    """Lock an open folder, sooner or later; return whether its file system can."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"{folder}: another process works here; waiting for its end", file=sys.stderr, flush=True)
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def write_text(path: Path, text: str) -> None:
    """Write a text file (UTF-8, ``\\n`` line ends) atomically."""
    with atomic(path) as handle:
        handle.write(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write JSON with sorted keys, so that equal values are equal bytes."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256_text(text: str) -> str:
    """Return the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
