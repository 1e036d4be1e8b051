"""Files that came from elsewhere, as by ``dvc pull``: which of them may be believed.

Snakemake decides by its own records and by times. In a fresh clone there are no records, and times are
arbitrary. Here hashes decide: a partition, a run or a report is believed if it is unchanged and states the
specification, the code and the inputs that params.yaml and the code describe now. Believed files all get the
time of now, and the others are made to look old, so that Snakemake does what is to be done and nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcore.files import canonical_json, sha256_file, sha256_text, write_json
from fedcore.integrity import PARTITION, PROVENANCE, STATISTICS, SUMMARY, finished, sealed, unsealed
from pipeline import metrics
from pipeline.catalogue import Catalogue, Division
from pipeline.plan import stated
from pipeline.targets import Table

REPORTS = Path("reports")
RECORDS = Path(".snakemake")
DECISIVE = (PARTITION, SUMMARY)
LONG_AGO = 1_000_000.0


@dataclass(frozen=True)
class Adopted:
    """What was found: how many files' owners are believed, and those that are not."""

    believed: int
    stale: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as one line."""
        if not self.stale:
            return f"{self.believed} results from elsewhere are what params.yaml and the code describe"
        first = ", ".join(self.stale[:3]) + (", ..." if len(self.stale) > 3 else "")
        return f"{self.believed} results from elsewhere are believed; {len(self.stale)} are not: {first}"


def unrecorded(root: Path = Path()) -> bool:
    """Whether Snakemake knows nothing of the files here, and isn't at work."""
    folder = root / RECORDS
    locked = any((folder / "locks").glob("*"))
    known = (folder / "metadata.db").exists() or any((folder / "metadata").rglob("*"))
    return not locked and not known


def forget(root: Path = Path()) -> None:
    """Delete Snakemake's records, so that hashes decide about all files."""
    shutil.rmtree(root / RECORDS / "metadata", ignore_errors=True)
    (root / RECORDS / "metadata.db").unlink(missing_ok=True)


def adopt(catalogue: Catalogue, root: Path = Path()) -> Adopted:
    """Check all partitions, runs and reports that are here, and let Snakemake see which are believed.

    A partition has no input that could be newer, so one that isn't believed is deleted, and with it the
    summaries and numbers that were made of it.
    """
    marks = _Marks(time.time(), [], {}, set())
    for folder, division in catalogue.divisions.items():
        marks.mark(folder, _files(root / folder), _sound_partition(root / folder, division), ())
    for folder, run in catalogue.index.items():
        marks.mark(folder, _files(root / folder), finished(root / folder, stated(run)), (run.partition,))
    for name in catalogue.names():
        paper, target = name.split("/")
        files = [path for path in (root / REPORTS / paper).glob(f"{target}.*") if path.is_file()]
        good = _sound_report(catalogue, paper, target, root)
        marks.mark(f"reports/{name}", files, good, _owners(catalogue, paper, target))
    for paper, about in catalogue.papers.items():
        tables = [name for name, target in about.targets.items() if isinstance(target, Table)]
        path = root / REPORTS / paper / metrics.FILE
        reports = [f"reports/{paper}/{name}" for name in tables]
        files = [path] if path.is_file() else []
        marks.mark(f"reports/{paper}/{metrics.FILE}", files, _sound_metrics(path, tables), reports)
    return Adopted(len(marks.believed), tuple(marks.stale))


@dataclass(frozen=True)
class _Marks:
    """What was found so far: names of what is believed, what is not, and what was deleted."""

    now: float
    believed: list[str]
    stale: dict[str, None]
    deleted: set[str]

    def mark(self, name: str, files: list[Path], good: bool, made_of: Iterable[str]) -> None:
        """Give the files of a partition, run or report the time that says whether it is believed."""
        made_of = tuple(made_of)
        good = good and not any(owner in self.stale for owner in made_of)
        if not files:
            return
        if good:
            self.believed.append(name)
        else:
            self.stale[name] = None
        for path in files:
            when = self.now if good else self.now - LONG_AGO
            os.utime(path, (when, when))
        if not good and (not made_of or not self.deleted.isdisjoint(made_of)):
            self.deleted.add(name)
            for path in files:
                if path.name in DECISIVE or path.suffix == ".csv":
                    path.unlink()


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.is_file()]


def _owners(catalogue: Catalogue, paper: str, target: str) -> list[str]:
    """Return the folders of what a report is made of."""
    partitions = catalogue.target(paper, target).needs == "partitions"
    return [run.partition if partitions else run.folder for run in catalogue.needed(paper, target)]


def seal_report(
    catalogue: Catalogue, paper: str, target: str, outputs: Iterable[Path], path: Path, root: Path = Path()
) -> None:
    """Write a report's provenance: its plan, what it was made of, and the hashes of its files."""
    files = {output.name: sha256_file(output) for output in outputs}
    made = {"plan": catalogue.plan(paper, target), "made_of": made_of(catalogue, paper, target, root)}
    write_json(path, sealed({**made, "files": files}))


def made_of(catalogue: Catalogue, paper: str, target: str, root: Path = Path()) -> str:
    """Return a hash of the results that a report shows.

    Raises:
        OSError, ValueError: one of them is missing or damaged.
    """
    runs = catalogue.needed(paper, target)
    if catalogue.target(paper, target).needs == "partitions":
        found: Any = {run.partition: sha256_file(root / run.partition / STATISTICS) for run in runs}
    else:
        found = {run.folder: _object(root / run.folder / PROVENANCE)["files"] for run in runs}
    return sha256_text(canonical_json(found))


def _sound_metrics(path: Path, tables: Iterable[str]) -> bool:
    try:
        return path.read_text(encoding="utf-8") == metrics.text(
            path.with_name(f"{name}.csv") for name in tables
        )
    except OSError:
        return False


def _sound_partition(folder: Path, division: Division) -> bool:
    try:
        found = unsealed(_object(folder / STATISTICS))
        digest = sha256_file(folder / PARTITION)
    except (OSError, ValueError):
        return False
    return found.get("code") == division.code and found.get(f"{PARTITION}_sha256") == digest


def _sound_report(catalogue: Catalogue, paper: str, target: str, root: Path) -> bool:
    """Whether a report is unchanged and its plan and all that it was made of are those of now."""
    folder = root / REPORTS / paper
    try:
        found = unsealed(_object(folder / f"{target}.{PROVENANCE}"))
        same = all(sha256_file(folder / name) == was for name, was in found["files"].items())
        now = made_of(catalogue, paper, target, root)
    except (OSError, ValueError, KeyError, AttributeError):
        return False
    return same and found["plan"] == catalogue.plan(paper, target) and found["made_of"] == now


def _object(path: Path) -> Mapping[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected an object")
    return value
