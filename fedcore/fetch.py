"""Verified files of a data set: from the cache, else a mirror (folder or URL), else upstream.

The cache ``root/fetched`` holds each file plain (decompressed) with a small marker beside it that
records the checksum, size and time at which it was verified; a file that differs from its marker is
hashed again. Files appear in the cache by rename only, so parallel jobs may fetch the same one.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import json
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any
from urllib.parse import quote

from fedcore.data import Source
from fedcore.declaration import Declaration, File, Form
from fedcore.download import NotThere, Policy, download
from fedcore.errors import DataError
from fedcore.files import atomic, sha256_file, write_json

PACKERS: Mapping[bytes, Callable[[Path], Any]] = MappingProxyType(
    {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
)
SUFFIXES = ("", ".xz", ".gz", ".bz2")
ACCEPT = "FEDCORE_ACCEPT_TERMS"
DAMAGE = (OSError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError, zipfile.BadZipFile)


def obtain(
    declaration: Declaration,
    edition: str,
    source: Source,
    policy: Policy | None = None,
    progress: bool = False,
) -> dict[str, Path]:
    """Return the plain, verified files of an edition by their names, fetching what is not in the cache.

    Raises:
        DataError: terms not accepted; or a file is nowhere to be had, truncated or not what it should be.
    """
    request = _Request(declaration, edition, source, policy, progress)
    files = declaration.edition(edition).files
    _check_terms(request)
    found = {file.name: _file(request, file) for file in files}
    for file in files:
        for form in file.forms:
            if form.member:
                _downloaded(found[file.name], form).unlink(missing_ok=True)
    return found


def demo_file(source: Source, relative: str) -> Path:
    """Return a file of the demo data that ships with the code, checked against its manifest.

    Raises:
        DataError: the file is missing, unlisted or damaged.
    """
    folder = source.root / "demo"
    path = inside(folder, relative)
    try:
        listed = json.loads((folder / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError):
        raise DataError(
            f"{folder}: no demo data there; expected MANIFEST.json (is data.root the project's data folder?)"
        ) from None
    if relative not in listed or not path.is_file():
        raise DataError(f"{path}: demo file is missing; restore it from the repository")
    if sha256_file(path) != listed[relative]["sha256"]:
        raise DataError(
            f"{path}: checksum differs from data/demo/MANIFEST.json; restore it from the repository"
        )
    return path


def inside(folder: Path, relative: str) -> Path:
    """Return ``folder / relative``, refusing a path that would lead out of the folder.

    Raises:
        DataError: ``relative`` is absolute or climbs out.
    """
    path = folder / relative
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{relative}: leads out of {folder}")
    return path


def accept_terms(declaration: Declaration, source: Source) -> None:
    """Record that the user accepts the conditions of a data set."""
    terms = {name: edition.terms for name, edition in declaration.editions.items() if edition.terms}
    write_json(_accepted(declaration, source), terms)


def cached(file: File, source: Source) -> bool:
    """Say whether the cache holds the file, verified now or earlier and unchanged since."""
    path = inside(source.root / "fetched", file.path)
    if not path.is_file():
        return False
    stat = path.stat()
    try:
        marker = json.loads(_marker(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        marker = {}
    seen = {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    known = file.sha256 or marker.get("sha256", "")
    if known and marker == seen | {"sha256": known}:
        return True
    if not known or sha256_file(path) != known:
        return False
    write_json(_marker(path), seen | {"sha256": known})
    return True


def mirrored(file: File, mirror: str) -> Path | None:
    """Return where a mirror folder holds a file (in any form), or None."""
    folder = _folder(mirror)
    for relative, _ in _candidates(file):
        if (folder / relative).is_file():
            return folder / relative
    return None


@dataclass(frozen=True)
class _Request:
    """What is being asked for, and how."""

    declaration: Declaration
    edition: str
    source: Source
    policy: Policy | None
    progress: bool


def _accepted(declaration: Declaration, source: Source) -> Path:
    return source.root / "fetched" / f".{declaration.name}.terms.json"


def _check_terms(request: _Request) -> None:
    name, edition = request.declaration.name, request.edition
    terms = request.declaration.edition(edition).terms
    given = os.environ.get(ACCEPT, "").replace(",", " ").split()
    if not terms or name in given or _accepted(request.declaration, request.source).is_file():
        return
    command = f"fedcore data fetch {name} --edition {edition} --accept-terms"
    raise DataError(f"{name} ({edition}): {terms}; to accept this, run `{command}` or set {ACCEPT}={name}")


def _marker(path: Path) -> Path:
    return path.with_name(f".{path.name}.verified.json")


def _file(request: _Request, file: File) -> Path:
    path = inside(request.source.root / "fetched", file.path)
    if cached(file, request.source):
        return path
    from filelock import FileLock

    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(path.with_name(f".{path.name}.lock")))
        except OSError as error:
            raise DataError(f"{path}: cannot write to the cache ({error.strerror or error})") from None
        if not cached(file, request.source):
            _fill(request, file, path)
    return path


def _fill(request: _Request, file: File, path: Path) -> None:
    """Bring one file into the cache from the first place that has it, verified."""
    problems = ["the cached copy is damaged"] if path.is_file() else []
    for place, form in _places(file, request.source):
        try:
            stored = _stored(request, place, form, path)
            sha256 = _unpack(request, stored, form, file, path)
        except NotThere as error:
            if form is not None and place in form.urls:
                problems.append(str(error))
            continue
        except DataError as error:
            problems.append(str(error))
            continue
        finally:
            if _is_url(place) and not (form and form.member):
                _downloaded(path, form).unlink(missing_ok=True)
        stat = path.stat()
        write_json(_marker(path), {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": sha256})
        return
    raise DataError(_advice(request, file, problems))


def _places(file: File, source: Source) -> Iterator[tuple[str, Form | None]]:
    """Yield every place to look at, in order: the mirror's candidates, then upstream's addresses."""
    if source.mirror:
        for relative, form in _candidates(file):
            if _is_url(source.mirror):
                yield f"{source.mirror.rstrip('/')}/{quote(relative)}", form
            else:
                yield str(_folder(source.mirror) / relative), form
    if not source.offline:
        for form in file.forms:
            for url in form.urls:
                yield url, form


def _candidates(file: File) -> list[tuple[str, Form | None]]:
    """List the names under which a mirror may hold a file: known forms first, then compressed or plain."""
    folder = file.path.rpartition("/")[0]
    found: dict[str, Form | None] = {}
    for form in file.forms:
        found[f"{folder}/{form.name}"] = form
        found[form.name] = form
    for base in (file.path, file.name):
        for suffix in SUFFIXES:
            found.setdefault(base + suffix, None)
    return list(found.items())


def _is_url(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def _folder(mirror: str) -> Path:
    return Path(mirror.removeprefix("file://")).expanduser()


def _downloaded(path: Path, form: Form | None) -> Path:
    """Return where a download goes; an archive of several files is shared by them."""
    if form is not None and form.member:
        return path.with_name(f".{form.name}")
    return path.with_name(f".{path.name}.download")


def _stored(request: _Request, place: str, form: Form | None, path: Path) -> Path:
    """Return the file as stored at a place, downloaded if it is an address."""
    if not _is_url(place):
        if not Path(place).is_file():
            raise NotThere(place)
        return Path(place)
    target = _downloaded(path, form)
    if form is None or not form.member:
        return download(place, target, policy=request.policy, progress=request.progress)
    if not target.is_file():
        download(place, target, form.digest, request.policy, request.progress)
    return target


def _unpack(request: _Request, stored: Path, form: Form | None, file: File, path: Path) -> str:
    """Write the plain content of a stored file to the cache if it is the right one; return its SHA-256."""
    by_form = _check_form(stored, form, file)
    digest = hashlib.sha256()
    size = 0
    try:
        with _opened(stored, form) as content, atomic(path) as out:
            while chunk := content.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
                if file.bytes and size > file.bytes:
                    raise DataError(f"{stored}: longer than the {file.bytes:,} bytes expected")
                out.write(chunk)
            _check_content(request.declaration, stored, file, digest.hexdigest(), by_form)
    except KeyError:
        raise DataError(f"{stored}: no {form.member if form else file.name} in this archive") from None
    except DAMAGE as error:
        raise DataError(f"{stored}: damaged or truncated ({str(error) or type(error).__name__})") from None
    return digest.hexdigest()


def _check_form(stored: Path, form: Form | None, file: File) -> bool:
    """Check a stored file's own checksum where that is all there is; say whether it was checked."""
    if file.sha256 or form is None or not form.digest:
        return False
    kind, _, wanted = form.digest.partition(":")
    with stored.open("rb") as handle:
        found = hashlib.file_digest(handle, kind).hexdigest()
    if found != wanted:
        raise DataError(f"{stored}: {kind} is {found}, expected {wanted}")
    return True


def _check_content(declaration: Declaration, stored: Path, file: File, found: str, by_form: bool) -> None:
    if file.sha256:
        if found != file.sha256:
            raise DataError(f"{stored}: sha256 of the content is {found}, expected {file.sha256}")
        return
    other = declaration.edition_of(found)
    if other is not None:
        raise DataError(
            f"{stored}: this is not upstream's file but the edition '{other}'; set edition: {other}"
        )
    if not by_form and any(form.digest for form in file.forms):
        names = ", ".join(form.name for form in file.forms if form.digest)
        raise DataError(f"{stored}: can only be verified as {names}")


@contextlib.contextmanager
def _opened(stored: Path, form: Form | None) -> Iterator[IO[bytes]]:
    """Open the plain content of a stored file, whatever it is compressed with."""
    with stored.open("rb") as handle:
        magic = handle.read(6)
    if form is not None and form.member:
        with _member(stored, form.member, magic) as content:
            yield content
        return
    opener = next((unpack for start, unpack in PACKERS.items() if magic.startswith(start)), _plain)
    with opener(stored) as content:
        yield content


def _plain(path: Path) -> IO[bytes]:
    return path.open("rb")


@contextlib.contextmanager
def _member(stored: Path, member: str, magic: bytes) -> Iterator[IO[bytes]]:
    """Open one member of a zip or tar archive; nothing else is unpacked and no name from it is used."""
    if magic.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(stored) as archive, archive.open(member) as content:
            yield content
        return
    with tarfile.open(stored) as tar:
        extracted = tar.extractfile(tar.getmember(member))
        if extracted is None:
            raise KeyError(member)
        with extracted:
            yield extracted


def _advice(request: _Request, file: File, problems: list[str]) -> str:
    """Say in one line why a file could not be had and what to do."""
    declaration, source = request.declaration, request.source
    nowhere = f"not found in the mirror {source.mirror}" if source.mirror else "not in the cache"
    why = "; ".join(problems[:2]) or nowhere
    todo = ["set data.mirror to a folder or URL that holds it"]
    if any(form.urls for form in file.forms):
        todo.append("allow downloads" if source.offline else "try again with a network")
    others = [name for name in declaration.editions if name != request.edition]
    if others:
        todo.append(f"use edition: {' | '.join(others)}")
    how = declaration.edition(request.edition).how
    advice = f"{how}; or {', '.join(todo)}" if how else ", ".join(todo)
    return f"{declaration.name} ({request.edition}): cannot get {file.name}: {why}; {advice}"
