"""Files that are either there in full or not at all: written under a temporary name, then renamed."""

import errno
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, wraps
from pathlib import Path
from stat import S_ISDIR
from typing import IO, Any, TypeVar

from fedcore.base.errors import DataError, say

PART = ".part"
Stamps = tuple[tuple[int, ...], ...]
Content = TypeVar("Content")
NO_FOLDER = (errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, unless it is there; DataError if something is in the way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except ValueError as error:
        raise DataError(f"{folder}: cannot be a folder ({error})") from None
    except OSError as error:
        if error.errno not in NO_FOLDER:
            raise
        raise DataError(f"{folder}: cannot be a folder ({error.strerror})") from None


@contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """Open ``path`` for writing so that readers see the old file or the whole new one."""
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
    with temporary.open("xb") as handle:
        try:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Lock a folder for this process, and wait while another process holds it.

    The system ends the hold when the process ends, however it ends; what a killed one had half written is
    removed. On a file system that can't lock, nobody is kept out.
    """
    make_folder(folder)
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
        say(f"{folder}: another process works here; waiting for its end", error=True)
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def walked(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield a path and all below it, in order, behind links but no folder twice; nothing where none is."""
    pending, folders = [str(path)], set[tuple[int, int]]()
    for place in pending:
        with suppress(OSError, ValueError):
            stat = os.stat(place)
            if (inode := (stat.st_dev, stat.st_ino)) in folders:
                continue
            yield place, stat
            if S_ISDIR(stat.st_mode):
                folders.add(inode)
                pending += sorted(entry.path for entry in os.scandir(place))


def stamps(path: Path) -> Stamps:
    """Return numbers that change with a file, or with any below a folder: inodes, sizes and times."""
    stats = [stat for _, stat in walked(path)]
    return tuple(sorted({(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in stats}))


def until_changed(read: Callable[[Path], Content]) -> Callable[[Path], Content]:
    """Return a reader of a file or folder that reads it again only when its stamps have changed."""
    known = cache(lambda path, now: read(path))
    return wraps(read)(lambda path: known(path, stamps(path)))


def write_text(path: Path, text: str) -> None:
    r"""Write a text file (UTF-8, ``\n`` line ends) atomically."""
    with atomic(path) as handle:
        handle.write(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write JSON with sorted keys, so that equal values are equal bytes."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Return what a JSON file says; raises OSError where it can't be read, and ValueError: no UTF-8, no JSON
    (which has no NaN), nested too deep, or a key is given twice.
    """
    try:
        return json.loads(path.read_text("utf-8"), object_pairs_hook=_each_once, parse_constant=_refused)
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_object(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds; raises as ``read_json``, and ValueError for anything else."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {type(value).__name__}")
    return value


def read_or_empty(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds; an empty one where it can't be read or is none."""
    with suppress(OSError, ValueError):
        return read_object(path)
    return {}


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"the key {key[:100]!r} is given twice")
        values[key] = value
    return values


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON, in hex."""
    return sha256_text(canonical_json(value))


def sha256_text(text: str) -> str:
    """Return the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
