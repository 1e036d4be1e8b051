"""Which data are declared, which of them are here, and whether they are intact."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache as remember
from types import MappingProxyType

from fedcore.base.errors import DataError, MissingPackage
from fedcore.base.options import suggestion
from fedcore.base.registry import plugins
from fedcore.data import Source
from fedcore.data.download import Edition, Entry, File, cache, fetch

PACKAGES = ("fedcore.data.datasets.", "fedcore_plugins.datasets.")


@dataclass(frozen=True)
class EditionCheck:
    """What verification found of one edition.

    ``status`` is ``ok``, ``wrong`` or ``absent`` (none or not all of its files are here), ``files`` how
    many were verified by checksum, ``counts`` what loading found, and ``note`` what a reader should know.
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
    by_name: dict[str, Entry] = {}
    for module in [module for name, module in sorted(sys.modules.items()) if name.startswith(PACKAGES)]:
        declared = (*getattr(module, "ENTRIES", ()), getattr(module, "ENTRY", None))
        by_name |= {entry.declaration.name: entry for entry in declared if entry}
    return MappingProxyType(dict(sorted(by_name.items())))


def entry(name: str) -> Entry:
    """Return one declared data set, or raise DataError with the nearest name."""
    known = entries()
    if name not in known:
        raise DataError(f"no data set named '{name}'{suggestion(name, known)}")
    return known[name]


def verify(data: Entry, source: Source) -> Iterator[EditionCheck]:
    """Check every edition that is here: checksums of all files, then what loading counts. Never downloads."""
    for name, edition in data.declaration.editions.items():
        yield _verify(data, name, edition, replace(source, offline=True))


def unclaimed(mirror: str) -> list[str]:
    """Return the files of a mirror folder that no declaration knows, by path below it."""
    folder = fetch.mirror_folder(mirror)
    editions = [edition for data in entries().values() for edition in data.declaration.editions.values()]
    claimed = {fetch.mirrored(file, mirror) for each in editions for file in (*each.files, *each.extras)}
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path not in claimed
    )


def _verify(data: Entry, name: str, edition: Edition, source: Source) -> EditionCheck:
    found = EditionCheck(data.declaration.name, name, edition.state, "absent")
    if missing := [file.name for file in edition.files if not _here(file, source)]:
        part = f"{len(missing)} of {len(edition.files)} files missing: {missing[0]}"
        return replace(found, note=part if len(missing) < len(edition.files) else "")
    try:
        paths = fetch.obtain(data.declaration, name, source)
        extras = [file for file in edition.extras if _here(file, source)]
        for file in extras:
            fetch.obtain_file(data.declaration, name, file, source)
        found = replace(found, files=len(paths) + len(extras))
        counts = data.counts(name, source)
    except fetch.OtherEdition as error:
        return replace(found, note=str(error))
    except MissingPackage as error:
        return replace(found, status="ok", note=f"checksums only: {error}")
    except DataError as error:
        return replace(found, status="wrong" if edition.files else "absent", note=str(error))
    wrong = {key: want for key, want in edition.counts.items() if counts.get(key) != want}
    note = ", ".join(f"{key} is {counts.get(key)}, expected {want}" for key, want in wrong.items())
    return replace(found, status="wrong" if wrong else "ok", counts=counts, note=note)


def _here(file: File, source: Source) -> bool:
    """Say whether a file is in the cache or (as far as that can be seen without asking it) in the mirror."""
    if cache.place(file, source).is_file() or fetch.is_url(source.mirror or ""):
        return True
    return bool(source.mirror) and fetch.mirrored(file, source.mirror or "") is not None
