"""Reading stored files: plain, compressed (gz, bz2, xz) or one member of an archive, told by content."""

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

PACKERS: Mapping[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"": open,
}
SUFFIXES = ("", ".xz", ".gz", ".bz2")
DAMAGE = (OSError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError, zipfile.BadZipFile)


@contextlib.contextmanager
def opened(stored: Path, member: str = "") -> Iterator[IO[bytes]]:
    """Open the plain content of a stored file, or of one member of the archive that it is.

    Nothing else of an archive is unpacked, and no name from it is ever used as a path.

    Raises:
        KeyError: the archive has no such file.
        One of ``DAMAGE``: it cannot be read; also later, while reading.
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
            archive = within.enter_context(tarfile.open(stored))
            content = archive.extractfile(archive.getmember(member))
        if content is None:
            raise KeyError(member)
        yield within.enter_context(content)


def rows_sha256(lines: Iterable[bytes]) -> str:
    """Return the SHA-256 of a text's words: single spaces, one line per row, no blank lines."""
    digest = hashlib.sha256()
    for line in lines:
        words = line.split()
        if words:
            digest.update(b" ".join(words) + b"\n")
    return digest.hexdigest()
