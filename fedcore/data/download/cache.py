"""The cache of verified data files: plain files, each with a marker of when and against what it was checked.

A file whose size or time differs from its marker is hashed again, so a changed file is never believed.
Files are stored plain, compressed (gz, bz2, xz) or as a member of an archive, which their content tells.
"""

import bz2
import contextlib
import gzip
import hashlib
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.base.files import atomic, read_or_empty, sha256_file, sha256_text, write_json
from fedcore.data import Source
from fedcore.data.download import File

PACKERS: Mapping[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"": open,
}
SUFFIXES = ("", ".xz", ".gz", ".bz2")
DAMAGE = (OSError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError, zipfile.BadZipFile)


def inside(folder: Path, relative: str) -> Path:
    """Return ``folder / relative``, refusing a path that is absolute or climbs out of the folder."""
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
    recorded = read_or_empty(_marker(path))
    if recorded == _facts(path, file, recorded.get("sha256", "")):
        return True
    sha256 = sha256_file(path)
    unchanged = not file.sha256 and sha256 == recorded.get("sha256")
    if not unchanged and not right(file, sha256, path):
        return False
    with contextlib.suppress(OSError):  # nothing can be written to a read-only cache
        mark(file, path, sha256)
    return True


def right(file: File, sha256: str, stored: Path, member: str = "") -> bool:
    """Say whether the content of ``stored`` is the file's by its ``sha256``, or (text) by its rows."""
    if file.sha256 and sha256 == file.sha256:
        return True
    if not file.sha256 or not file.rows_sha256:
        return False
    with opened(stored, member) as lines:
        return rows_sha256(lines) == file.rows_sha256


def mark(file: File, path: Path, sha256: str) -> None:
    """Record that ``path`` was verified and has this SHA-256."""
    write_json(_marker(path), _facts(path, file, sha256))


def _facts(path: Path, file: File, sha256: str) -> dict[str, object]:
    stat = path.stat()
    return {
        "bytes": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "sha256": sha256,
        "expected": file.sha256,
        "expected_rows": file.rows_sha256,
    }


def _marker(path: Path) -> Path:
    return path.with_name(f".{path.name}.verified.json")


def derived(
    source: Source, name: str, files: Mapping[str, Path], make: Callable[[], dict[str, NDArray[Any]]]
) -> dict[str, NDArray[Any]]:
    """Return arrays that are slow to ``make`` of verified files, kept beside the cache under their checksums.

    Their ``name`` changes when ``make`` does.
    """
    sha256s = (read_or_empty(_marker(path)).get("sha256") or sha256_file(path) for path in files.values())
    path = inside(source.root / "fetched" / "derived", f"{name}-{sha256_text(''.join(sha256s))[:16]}.npz")
    if path.is_file():
        with contextlib.suppress(*DAMAGE, ValueError, KeyError), np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    arrays = make()
    with contextlib.suppress(OSError), atomic(path) as handle:
        np.savez(handle, allow_pickle=False, **arrays)
    return arrays


@contextlib.contextmanager
def opened(stored: Path, member: str = "") -> Iterator[IO[bytes]]:
    """Open the plain content of a stored file, or of one member of the archive that it is.

    Nothing else of an archive is unpacked, and no name from it is ever used as a path. Raises KeyError where
    it has no such file, and one of ``DAMAGE`` where it can't be read; also later, while reading.
    """
    with stored.open("rb") as handle:
        magic = handle.read(6)
    with contextlib.ExitStack() as within:
        if not member:
            unpack = next(packer for start, packer in PACKERS.items() if magic.startswith(start))
            content = unpack(stored, "rb")
        elif magic.startswith(b"PK\x03\x04"):
            content = within.enter_context(zipfile.ZipFile(stored)).open(member)
            content = gzip.GzipFile(fileobj=content) if member.endswith(".gz") else content
        else:
            content = within.enter_context(tarfile.open(stored)).extractfile(member)
        if content is None:
            raise KeyError(member)
        yield within.enter_context(content)


def rows_sha256(lines: Iterable[bytes]) -> str:
    """Return the SHA-256 of a text's words: single spaces, one line per row, no blank lines."""
    digest = hashlib.sha256()
    for line in lines:
        if words := line.split():
            digest.update(b" ".join(words) + b"\n")
    return digest.hexdigest()
