"""Whether results are whole and unchanged: hashes that the files of a run carry, and their check.

``provenance.json`` lists the SHA-256 of a run's result files. It and ``timing.json`` hold a hash of their own
content, so that a changed byte anywhere in a run's folder is found.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os.path import isfile
from pathlib import Path
from typing import Any

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError, reason
from fedcore.base.files import digest, read_object, sha256_file

SEAL = "sha256"
SPEC, SUMMARY, CHECKPOINT = "spec.yaml", "summary.json", "checkpoint.npz"
PROVENANCE, TIMING = "provenance.json", "timing.json"
HISTORY, CLIENTS, PARAMETERS = "history.csv", "clients.csv", "model.npz"
PARTITION, STATISTICS = "partition.npz", "stats.json"
KEYS = {"spec_sha256", "files", SEAL}  # of provenance.json, besides the caller's
SUPERSEDED = ".superseded"
MODEL = "model_sha256"


@dataclass(frozen=True)
class IntegrityIssue:
    """The folder, and what is wrong there."""

    folder: Path
    what: str

    def __str__(self) -> str:
        return f"{self.folder}: {self.what}"


@dataclass(frozen=True)
class Report:
    """What a tree of results holds: folders, and what is wrong."""

    runs: tuple[Path, ...]  # finished ones, sound or not
    partitions: tuple[Path, ...]
    unfinished: tuple[Path, ...]  # runs that began and did not end; no problem by itself
    problems: tuple[IntegrityIssue, ...]


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with the hash of its own content."""
    return {**value, SEAL: digest(dict(value))}


def read_sealed(path: Path) -> dict[str, Any]:
    """Return what was sealed in a JSON file; raises as ``read_object``, and ValueError if it was changed."""
    content = read_object(path)
    if content.pop(SEAL, None) != digest(content):
        raise ValueError("its content is not what was written")
    return content


def sealed_or_empty(path: Path) -> dict[str, Any]:
    """Return what was sealed in a JSON file; nothing where it can't be read or was changed."""
    with suppress(OSError, ValueError):
        return read_sealed(path)
    return {}


def finished(folder: Path, expected: Mapping[str, Any]) -> bool:
    """Whether a folder holds a finished, unchanged result of the same provenance and files of a model."""
    try:
        provenance = read_sealed(folder / PROVENANCE)
        files = provenance.pop("files")
        read_sealed(folder / TIMING)
        if provenance != expected or any(file_changes(folder, files, PROVENANCE)):
            return False
        model = read_object(folder / SUMMARY).get(MODEL, {})
        return bool(hashes(model) == model)
    except (OSError, ValueError, KeyError, AttributeError):
        return False


def hashes(paths: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of those of the paths that are files."""
    return {path: sha256_file(Path(path)) for path in paths if isfile(path)}


def changed(folder: Path) -> str:
    """Describe problems of the files of a finished run or a partition; empty if they are unchanged."""
    return next(_all_changes(folder), "")


def check(root: Path) -> Report:
    """Check every run and partition below a folder."""
    runs, partitions, unfinished = [], [], []
    problems: list[IntegrityIssue] = []
    marks = below(root, PROVENANCE, SUMMARY, CHECKPOINT, PARTITION, STATISTICS)
    for folder in sorted({path.parent for path in marks}):
        if _is_partition(folder):
            partitions.append(folder)
        elif (folder / SUMMARY).exists() or (folder / PROVENANCE).exists():
            runs.append(folder)
        else:
            unfinished.append(folder)
            continue
        problems += [IntegrityIssue(folder, what) for what in _all_changes(folder)]
    problems += _mixed(runs)
    return Report(tuple(runs), tuple(partitions), tuple(unfinished), tuple(problems))


def code_of(folder: Path) -> str:
    """Return the code hash that a run's provenance states; nothing where it states none or is damaged."""
    return str(sealed_or_empty(folder / PROVENANCE).get("code", ""))


def listed(folder: Path) -> set[str]:
    """Return the names of the files that a run's provenance lists; none where it is damaged."""
    files = sealed_or_empty(folder / PROVENANCE).get("files")
    return set(files) if isinstance(files, dict) else set()


def file_changes(folder: Path, files: Mapping[str, str], by: str) -> Iterator[str]:
    """Say which files are missing, can't be read, or have another SHA-256 than the file ``by`` states."""
    for name, sha256 in files.items():
        try:
            if Path(name).name != name:
                yield f"{name[:100]!r} is no file of this folder, but {by} lists it"
            elif not (folder / name).is_file():
                yield f"{name} is missing"
            elif sha256_file(folder / name) != sha256:
                yield f"{name} is changed (its SHA-256 is not the one in {by})"
        except OSError as error:
            yield f"{name} can't be read ({reason(error)})"


def _all_changes(folder: Path) -> Iterator[str]:
    """Describe a folder's problem; a folder that can't be checked completely hides no other."""
    try:
        yield from _partition_changes(folder) if _is_partition(folder) else _changes(folder)
    except Exception as error:
        yield f"can't be checked further ({type(error).__name__}: {reason(error)})"


def _is_partition(folder: Path) -> bool:
    def holds(*names: str) -> bool:
        return any((folder / name).exists() for name in names)

    return holds(PARTITION, STATISTICS) and not holds(PROVENANCE, SUMMARY)


def _changes(folder: Path) -> Iterator[str]:
    try:
        provenance = read_sealed(folder / PROVENANCE)
        files: Mapping[str, str] = provenance["files"]
    except FileNotFoundError:
        yield f"{PROVENANCE} is missing"
        return
    except (OSError, ValueError, KeyError, AttributeError) as error:
        yield f"{PROVENANCE} is changed or damaged ({reason(error)})"
        return
    yield from file_changes(folder, files, PROVENANCE)
    try:
        spec = core_yaml.parsed((folder / SPEC).read_bytes(), SPEC)
        if digest(spec) != str(provenance.get("spec_sha256", "")):
            yield f"{SPEC} is not the specification that {PROVENANCE} states"
    except (OSError, ValueError, TypeError, SpecError):
        yield f"{SPEC} is missing or damaged"
    try:
        read_sealed(folder / TIMING)
    except (OSError, ValueError):
        yield f"{TIMING} is missing, changed or damaged"
    for path in sorted(folder.iterdir()):
        if path.name not in {*files, PROVENANCE, TIMING, CHECKPOINT} and not path.name.startswith("."):
            yield f"{path.name} is not listed in {PROVENANCE}"


def _partition_changes(folder: Path) -> Iterator[str]:
    try:
        sha256 = read_sealed(folder / STATISTICS)[f"{PARTITION}_sha256"]
    except (OSError, ValueError, KeyError, AttributeError) as error:
        yield f"{STATISTICS} is missing, changed or damaged ({reason(error)})"
        return
    yield from file_changes(folder, {PARTITION: sha256}, STATISTICS)


def _mixed(runs: list[Path]) -> Iterator[IntegrityIssue]:
    """Find runs of one method, in one setting, that were made by different code, where they say by which."""
    codes: dict[Path, dict[str, list[str]]] = {}
    for folder in runs:
        if code := code_of(folder):
            codes.setdefault(folder.parent, {}).setdefault(code, []).append(folder.name)
    for group, by_code in codes.items():
        if len(by_code) > 1:
            versions = [f"{', '.join(names)} by {code[:12]}" for code, names in by_code.items()]
            yield IntegrityIssue(group, f"mixed versions of the code: {'; '.join(versions)}")


def below(root: Path, *names: str) -> Iterator[Path]:
    """Yield the files of these names below a folder, without those that were set aside."""
    for name in names:
        yield from (path for path in root.rglob(name) if SUPERSEDED not in path.relative_to(root).parts)
