"""Which data are declared, which of them are here, and whether they are intact."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache as remember
from pathlib import Path
from types import MappingProxyType

from fedcore.base.errors import DataError, MissingPackage
from fedcore.base.options import nearest
from fedcore.base.registry import plugins
from fedcore.data import Source
from fedcore.data.download import Edition, Entry, File, cache, fetch

PACKAGES = ("fedcore.data.datasets.", "fedcore_plugins.datasets.")


@dataclass(frozen=True)
class Finding:
    """What verification found of one edition.

    Attributes:
        status: ``ok``; ``absent`` (none or not all of its files are here); or ``wrong``.
        files: how many files were verified by checksum.
        counts: what loading found.
        note: what a reader should know.
    """

    data: str
    edition: str
    state: str
    status: str
    files: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    note: str = ""


@remember
def entries() -> Mapping[str, Entry]:
    """Return every declared data set by name, model data and the user's own plug-ins included."""
    plugins("data")
    found: dict[str, Entry] = {}
    for name in sorted(sys.modules):
        if not name.startswith(PACKAGES):
            continue
        module = sys.modules[name]
        declared = (*getattr(module, "ENTRIES", ()), *filter(None, [getattr(module, "ENTRY", None)]))
        found |= {entry.declaration.name: entry for entry in declared}
    return MappingProxyType(dict(sorted(found.items())))


def entry(name: str) -> Entry:
    """Return one declared data set.

    Raises:
        DataError: no data set has that name.
    """
    known = entries()
    if name not in known:
        hint = nearest(name, known) or f"; known: {', '.join(known)}"
        raise DataError(f"no data set named '{name}'{hint}")
    return known[name]


def verify(found: Entry, source: Source) -> Iterator[Finding]:
    """Check every edition that is here: checksums of all files, then what loading counts. Never downloads."""
    local = replace(source, offline=True)
    for name, edition in found.declaration.editions.items():
        yield _verify(found, name, edition, local)


def unclaimed(mirror: str) -> list[str]:
    """Return the files of a mirror folder that no declaration knows, by path below it."""
    folder = Path(mirror.removeprefix("file://")).expanduser()
    claimed = {fetch.mirrored(file, mirror) for file in _all_files()}
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path not in claimed
    )


def _all_files() -> Iterator[File]:
    for found in entries().values():
        for edition in found.declaration.editions.values():
            yield from (*edition.files, *edition.extras)


def _verify(found: Entry, name: str, edition: Edition, source: Source) -> Finding:
    blank = Finding(found.declaration.name, name, edition.state, "absent")
    missing = [file.name for file in edition.files if not _here(file, source)]
    if missing:
        part = f"{len(missing)} of {len(edition.files)} files missing: {missing[0]}"
        return replace(blank, note=part if len(missing) < len(edition.files) else "")
    try:
        paths = fetch.obtain(found.declaration, name, source)
        extras = [file for file in edition.extras if _here(file, source)]
        for file in extras:
            fetch.obtain_file(found.declaration, name, file, source)
    except fetch.OtherEdition as error:
        return replace(blank, note=str(error))
    except DataError as error:
        return replace(blank, status="wrong", note=str(error))
    return _counted(found, replace(blank, files=len(paths) + len(extras)), edition, source)


def _counted(found: Entry, verified: Finding, edition: Edition, source: Source) -> Finding:
    try:
        counts = found.counts(verified.edition, source)
    except MissingPackage as error:
        return replace(verified, status="ok", note=f"checksums only: {error}")
    except DataError as error:
        return replace(verified, status="wrong" if edition.files else "absent", note=str(error))
    wrong = {key: want for key, want in edition.counts.items() if counts.get(key) != want}
    note = ", ".join(f"{key} is {counts.get(key)}, expected {want}" for key, want in wrong.items())
    return replace(verified, status="wrong" if wrong else "ok", counts=counts, note=note)


def _here(file: File, source: Source) -> bool:
    """Say whether a file is in the cache or (as far as that can be seen without asking it) in the mirror."""
    if cache.place(file, source).is_file() or (source.mirror or "").startswith("http"):
        return True
    return bool(source.mirror) and fetch.mirrored(file, source.mirror or "") is not None
