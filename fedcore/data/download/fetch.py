"""Verified files of a data set: from the cache, else a mirror (folder or URL), else upstream.

Files appear in the cache by rename only and under a lock, so parallel jobs may ask for the same one.
Downloads are resumed, retried, and under a temporary name until whole.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from fedcore.base.errors import DataError, fault_message, reason
from fedcore.base.files import atomic, read_object, sha256_file, sha256_text, write_json
from fedcore.base.lazy import filelock, pooch, requests
from fedcore.data import Source
from fedcore.data.download import Declaration, File, Form, cache

CHUNK = 1 << 16
NO_CONNECTION = "no connection (is there a network?)"
SLACK, LARGEST = 1.1, 4 << 30  # of a file's size, and bytes of one that declares none
CONNECT, READ = 10.0, 60.0  # seconds to connect, and between bytes
ATTEMPTS, PAUSE = 4, 1.0  # of a download; the pause before the second one, in seconds, doubles with each
ACCEPT = "FEDCORE_ACCEPT_TERMS"
MANIFEST = "MANIFEST.json"
PACKAGED = Path(__file__).parents[1] / "demo"  # where pyproject.toml puts some of CHECKOUT's into a wheel
CHECKOUT = Path(__file__).parents[3] / "data" / "demo"


class NotThere(DataError):
    """The server answers that it has no such file."""


class Unreachable(DataError):
    """No connection could be made: no network, no such host, or nobody listens."""


class OtherEdition(DataError):
    """A file is a known one, but of another edition than the one asked for."""


def obtain(data: Declaration, edition: str, source: Source, progress: bool = False) -> dict[str, Path]:
    """Return the plain, verified files of an edition by their names, fetching what is not in the cache.

    Raises OtherEdition where the mirror's file is that of another one, else DataError where a file is nowhere
    to be had, truncated, not what it should be, or under terms not accepted.
    """
    files = data.edition(edition).files
    paths = {file.name: obtain_file(data, edition, file, source, progress) for file in files}
    for file in files:
        for form in file.forms:
            archive = _downloaded(paths[file.name], form)
            if form.member and archive.is_file():
                with _alone(archive.parent):
                    archive.unlink(missing_ok=True)
    return paths


def obtain_file(data: Declaration, edition: str, file: File, source: Source, progress: bool = False) -> Path:
    """Return one file of an edition, plain and verified; raises as ``obtain`` does."""
    path = cache.place(file, source)
    if cache.holds(file, source):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path.parent):
            if not cache.holds(file, source):
                _fill(_Request(data, edition, source, progress), file, path)
    except OSError as error:
        raise DataError(f"{path}: cannot write to the cache ({error.strerror or error})") from None
    return path


def demo_file(source: Source, relative: str) -> Path:
    """Return a file of the demo data that ships with the code, checked against its manifest.

    It is the data folder's, or where that has no demo data the package's own: in a wheel some data sets, else
    all of the checkout. Raises DataError where it is missing, unlisted or damaged.
    """
    folders = (source.root / "demo", PACKAGED, CHECKOUT)
    folder = next((place for place in folders if (place / MANIFEST).is_file()), folders[0])
    path = cache.inside(folder, relative)
    try:
        listed = read_object(folder / MANIFEST)["files"]
        checksums = {str(name): str(facts["sha256"]) for name, facts in listed.items()}
    except FileNotFoundError:
        raise DataError(
            f"{folder}: no demo data there ({MANIFEST} is missing); name the data folder by --root"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f"{folder}/{MANIFEST}: damaged, expected each file's SHA-256; restore it from the repository"
        ) from None
    if relative in checksums and folder == PACKAGED and not path.is_file():
        raise DataError(f"{path}: not in the installed package; name a checkout's data folder by --root")
    if relative not in checksums or not path.is_file():
        raise DataError(f"{path}: demo file is missing; restore it from the repository")
    if sha256_file(path) != checksums[relative]:
        raise DataError(f"{path}: checksum differs from {MANIFEST}; restore it from the repository")
    return path


def accept_terms(declaration: Declaration, source: Source) -> None:
    """Record that the user accepts the conditions of a data set."""
    terms = {name: edition.terms for name, edition in declaration.editions.items() if edition.terms}
    write_json(_accepted(declaration, source), terms)


def is_url(place: str) -> bool:
    """Say whether a place is an address, not a path."""
    return place.startswith(("http://", "https://"))


def mirror_folder(mirror: str) -> Path:
    """Return a mirror's folder, which may be written as a ``file://`` address."""
    return Path(unquote(mirror[7:]) if mirror.startswith("file://") else mirror).expanduser()


def mirrored(file: File, mirror: str) -> Path | None:
    """Return where a mirror folder holds a file (in any form), or None."""
    candidates = (mirror_folder(mirror) / relative for relative, _ in _candidates(file))
    return next((path for path in candidates if path.is_file()), None)


@dataclass(frozen=True)
class _Request:
    declaration: Declaration
    edition: str
    source: Source
    progress: bool


def _accepted(declaration: Declaration, source: Source) -> Path:
    return source.root / "fetched" / f".{declaration.name}.terms.json"


def _open_terms(request: _Request) -> str:
    """Say which terms a download would need accepted, if any. A mirror's copies are the user's own."""
    name, edition = request.declaration.name, request.edition
    terms = request.declaration.edition(edition).terms
    accepted = os.environ.get(ACCEPT, "").replace(",", " ").split()
    if not terms or name in accepted or _accepted(request.declaration, request.source).is_file():
        return ""
    command = f"fedcore data fetch {name} --edition {edition} --accept-terms"
    return f"{terms}: to accept, run `{command}` or set {ACCEPT}={name}"


def _fill(request: _Request, file: File, path: Path) -> None:
    problems = [DataError("the cached copy is damaged")] if path.is_file() else []
    source = request.source
    if not source.offline and (terms := _open_terms(request)):
        problems.append(DataError(terms))
        source = replace(source, offline=True)
    unreachable: set[str] = set()
    for place, form in _places(file, source):
        host = urlsplit(place).netloc
        if host and host in unreachable:
            continue
        try:
            stored = _stored(request, place, form, path)
            cache.mark(file, path, _unpack(request, stored, form, file, path))
            return
        except NotThere as error:
            if place in form.urls:
                problems.append(error)
        except DataError as error:
            unreachable |= {host} if isinstance(error, Unreachable) else set()
            problems.append(error)
            if is_url(place):
                _downloaded(path, form).unlink(missing_ok=True)
        finally:
            if is_url(place) and not form.member:
                _downloaded(path, form).unlink(missing_ok=True)
    other = any(isinstance(problem, OtherEdition) for problem in problems)
    raise (OtherEdition if other else DataError)(_advice(request, file, problems))


def _places(file: File, source: Source) -> Iterator[tuple[str, Form]]:
    """Yield every place to look at, in order: the mirror's candidates, then upstream's addresses."""
    mirror = source.mirror or ""
    for relative, form in _candidates(file) if mirror else ():
        address = f"{mirror.rstrip('/')}/{quote(relative)}"
        yield address if is_url(mirror) else str(mirror_folder(mirror) / relative), form
    for form in () if source.offline else file.forms:
        yield from ((url, form) for url in form.urls)


def _candidates(file: File) -> list[tuple[str, Form]]:
    """List the names under which a mirror may hold a file: known forms first, then compressed or plain."""
    folder = file.path.rpartition("/")[0]
    forms = {name: form for form in file.forms for name in (f"{folder}/{form.name}", form.name)}
    packed = [base + suffix for base in (file.path, file.name) for suffix in cache.SUFFIXES]
    return list((forms | {name: Form(name) for name in packed if name not in forms}).items())


def _alone(folder: Path) -> "filelock.BaseFileLock":
    return filelock.FileLock(folder / ".lock", mode=0o666)


def _downloaded(path: Path, form: Form) -> Path:
    """Return where a download goes; an archive of several files is shared by them."""
    return path.with_name(f".{form.name}" if form.member else f".{path.name}.download")


def _stored(request: _Request, place: str, form: Form, path: Path) -> Path:
    if not is_url(place):
        if not Path(place).is_file():
            raise NotThere(place)
        return Path(place)
    target = _downloaded(path, form)
    if form.member and form.digest and target.is_file() and not _differs(target, form.digest):
        return target
    return download(place, target, form.digest if form.member else "", request.progress)


def _unpack(request: _Request, stored: Path, form: Form, file: File, path: Path) -> str:
    """Write the plain content of a stored file to the cache if it is the right one; return its SHA-256."""
    if not file.sha256 and form.digest and (problem := _differs(stored, form.digest)):
        raise DataError(f"{stored}: {problem}")
    verifiable = ", ".join(known.name for known in file.forms if known.digest)
    digest = hashlib.sha256()
    size, expected = 0, file.bytes or LARGEST
    try:
        with cache.opened(stored, form.member) as content, atomic(path) as out:
            while chunk := content.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
                if size > expected * SLACK:
                    raise DataError(f"{stored}: much longer than the {expected:,} bytes expected")
                out.write(chunk)
            _check(request, file, stored, form.member, digest.hexdigest())
            if verifiable and not (file.sha256 or form.digest):
                raise DataError(f"{stored}: can only be verified as {verifiable}")
    except KeyError:
        raise DataError(f"{stored}: no {form.member} in this archive") from None
    except cache.DAMAGE as error:
        if fault_message(error):
            raise
        raise DataError(f"{stored}: damaged or truncated ({reason(error)})") from None
    return digest.hexdigest()


def _differs(stored: Path, digest: str) -> str:
    """Say how a stored file differs from ``sha256:...`` or ``md5:...`` of its bytes (or their beginning)."""
    kind, _, expected = digest.partition(":")
    found = pooch.file_hash(str(stored), kind)
    return "" if found.startswith(expected) else f"{kind} is {found}, expected {expected}"


def _check(request: _Request, file: File, stored: Path, member: str, sha256: str) -> None:
    """Refuse content that is not the file's."""
    if cache.right(file, sha256, stored, member):
        return
    for name, edition in request.declaration.editions.items():
        if name != request.edition and any(listed.sha256 == sha256 for listed in edition.files):
            raise OtherEdition(f"{stored}: not upstream's file but the edition '{name}'")
    if file.sha256:
        raise DataError(f"{stored}: sha256 of the content is {sha256}, expected {file.sha256}")
    if file.rows:
        with cache.opened(stored, member) as lines:
            rows = sum(1 for line in lines if line.strip())
        if rows != file.rows:
            raise DataError(f"{stored}: {rows:,} rows, expected {file.rows:,}")


def _advice(request: _Request, file: File, problems: list[DataError]) -> str:
    declaration, source = request.declaration, request.source
    nowhere = f"not found in the mirror {source.mirror}" if source.mirror else "not in the cache"
    if source.mirror and not is_url(source.mirror) and not mirror_folder(source.mirror).is_dir():
        problems = [DataError(f"{source.mirror}: no such folder, so no mirror"), *problems]
    why = "; ".join(map(str, problems[:2])) or nowhere
    todo = ["set data.mirror, or FEDCORE_MIRROR, to a folder or URL that holds it"]
    if any(form.urls for form in file.forms):
        todo.append("allow downloads" if source.offline else "try again with a network")
    if others := [name for name in declaration.editions if name != request.edition]:
        todo.append(f"use edition: {' | '.join(others)}")
    how = declaration.edition(request.edition).how
    advice = f"{how}; or {', '.join(todo)}" if how else ", ".join(todo)
    return f"{declaration.name} ({request.edition}): cannot get {file.name}: {why}; {advice}"


def download(url: str, target: Path, digest: str = "", progress: bool = False) -> Path:
    """Download ``url`` to ``target``, which appears only when complete and (with ``digest``) verified.

    A download that broke off goes on from the ``.part`` file beside it, where the server allows ranges.
    ``digest`` is ``sha256:...`` or ``md5:...`` of the bytes (or their beginning). Raises NotThere (404, 410),
    Unreachable (no connection at all), or DataError: a stall, too short a file, another status or checksum.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{sha256_text(url)[:8]}.part")
    try:
        _complete(url, part, progress)
    finally:
        if part.exists() and not part.stat().st_size:
            part.unlink()
    if digest and _differs(part, digest):
        part.unlink()
        raise DataError(f"{url}: what was downloaded does not have the checksum {digest}")
    return part.replace(target)


def _complete(url: str, part: Path, progress: bool) -> None:
    problem = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            return _go_on(url, part, progress)
        except requests.RequestException as error:
            problem = _why(error)
            if problem == NO_CONNECTION and attempt:
                raise Unreachable(f"{url}: {problem}") from None
    raise DataError(f"{url}: {problem} (tried {ATTEMPTS} times)")


def _go_on(url: str, part: Path, progress: bool) -> None:
    """Append the rest of the file to ``part``, or write it anew where the server sends all of it."""
    with part.open("ab") as handle:
        have = handle.tell()

        def begin(response: Any, **_: object) -> None:
            status, sent = response.status_code, response.headers.get("Content-Range", "")
            if status in {404, 410}:
                raise NotThere(f"{url}: not there (HTTP {status})")
            if status in {200, 416} or (status == 206 and not sent.startswith(f"bytes {have}-")):
                handle.truncate(0)

        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        how = {"timeout": (CONNECT, READ), "headers": headers, "hooks": {"response": begin}}
        pooch.HTTPDownloader(progress, CHUNK, **how)(url, handle, None)


def _why(error: Exception) -> str:
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"HTTP {error.response.status_code}"
    stalled = isinstance(error, requests.ReadTimeout) or "timed out" in str(error)
    if stalled and not isinstance(error, requests.ConnectTimeout):
        return "the server stalled"
    if isinstance(error, requests.exceptions.ChunkedEncodingError) or "aborted" in str(error):
        return "the connection broke off"
    if isinstance(error, requests.ConnectionError):
        return NO_CONNECTION
    return reason(error)
