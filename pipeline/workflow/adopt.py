"""Files that came from elsewhere, as by ``dvc pull``: which of them may be believed.

Snakemake decides by its own records and by times. It has no record of a file that it did not make, whose time
is arbitrary. Here hashes decide: a partition, a run or a report is believed if it is unchanged and states the
specification, the code and the inputs that params.yaml and the code describe now. ``inspect`` only looks.
``apply`` is called when work begins: believed files get the time of now, the others are moved out of the way.
Snakemake keeps its records of jobs in .snakemake, and locks that a killed one leaves behind.
"""

import fcntl
import os
import shutil
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from fedcore.base.errors import DataError, SpecError
from fedcore.base.files import read_object
from fedcore.execution.integrity import CHECKPOINT, STATISTICS, SUMMARY, SUPERSEDED, changed, finished
from pipeline.catalogue import Catalogue
from pipeline.catalogue.targets import RESULTS
from pipeline.reports import REPORTS, is_partial, is_sound
from pipeline.workflow import dvc
from pipeline.workflow.expected import stated


@dataclass(frozen=True)
class Decision:
    """The files of each partition, run and report: of those that are believed, and of the others."""

    believed: dict[str, list[Path]] = field(default_factory=dict)
    stale: dict[str, list[Path]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return it as one line."""
        if not self.stale:
            return f"{len(self.believed)} results from elsewhere are what params.yaml and the code describe"
        first = ", ".join([*self.stale][:3]) + (", ..." if len(self.stale) > 3 else "")
        return f"{len(self.believed)} results from elsewhere are believed; {len(self.stale)} are not: {first}"

    def judge(self, name: str, files: list[Path], good: bool, made_of: Iterable[str] = ()) -> None:
        """Note whether a result is believed, which it is only if all that it was made of may be."""
        if files:
            may_be = good and self.stale.keys().isdisjoint(made_of)
            (self.believed if may_be else self.stale)[name] = files


def inspect(catalogue: Catalogue, root: Path = Path(), records: frozenset[str] = frozenset()) -> Decision:
    """Check partitions, finished runs and reports that are here but not in ``records``; changes nothing."""
    decision = Decision()
    for paper, declared in catalogue.papers.items():
        results, reports = root / RESULTS / paper / catalogue.params.scale_of(paper), root / REPORTS / paper
        found = [path for name in (SUMMARY, STATISTICS) for path in results.glob(f"*/*/*/{name}")]
        known = {*declared.targets, dvc.METRICS.partition(".")[0]}
        found += [path for path in reports.glob("*") if path.name.partition(".")[0] in known]
        if all(_recorded(path, root, records) for path in found):
            continue
        runs, _, partitions = catalogue.planned(paper)
        for folder, partition in partitions.items():
            path = root / folder
            if files := _files(path.glob("*"), root, records):
                good = not changed(path) and read_object(path / STATISTICS).get("code") == partition.code
                decision.judge(folder, files, good)
        for folder, run in runs.items():
            here = (root / folder / SUMMARY).exists()
            if here and (files := _files((root / folder).glob("*"), root, records)):
                decision.judge(folder, files, finished(root / folder, stated(run)), [run.partition])
        for name in declared.targets:
            files = _files(reports.glob(f"{name}.*"), root, records)
            if files and not is_partial(files):
                sources = catalogue.sources(paper, name, root)
                decision.judge(f"reports/{paper}/{name}", files, is_sound(sources), sources.owners)
        tables = [name for name, target in declared.targets.items() if target.kind == "table"]
        path = reports / dvc.METRICS
        if files := _files([path], root, records):
            made_of = [f"reports/{paper}/{name}" for name in tables]
            decision.judge(f"reports/{paper}/{dvc.METRICS}", files, _sound_metrics(path, tables), made_of)
    return decision


def apply(decision: Decision, root: Path = Path()) -> str:
    """Give believed files the time of now, and set the others aside; return where, in a line, if any."""
    now = time.time()
    for path in chain.from_iterable(decision.believed.values()):
        os.utime(path, (now, now))
    if not decision.stale:
        return ""
    aside = Path(RESULTS, SUPERSEDED, time.strftime("%Y%m%dT%H%M%S", time.gmtime(now)))
    for path in chain.from_iterable(decision.stale.values()):
        target = root / aside / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
    return f"{len(decision.stale)} results are set aside in {aside}; `cp -a {aside}/. .` brings them back"


def _files(paths: Iterable[Path], root: Path, records: frozenset[str]) -> list[Path]:
    """Return a result's files; none if one is recorded. A checkpoint knows itself what it may be used for."""
    files = [path for path in paths if path.is_file() and path.name != CHECKPOINT]
    return [] if any(_recorded(path, root, records) for path in files) else files


def _recorded(path: Path, root: Path, records: frozenset[str]) -> bool:
    return urlsafe_b64encode(path.relative_to(root).as_posix().encode()).decode() in records


def _sound_metrics(path: Path, tables: Iterable[str]) -> bool:
    try:
        metrics = dvc.means_json(path.with_name(f"{name}.csv") for name in tables)
        return path.read_text(encoding="utf-8") == metrics
    except (OSError, DataError):
        return False


RECORDS = Path(".snakemake")


def recorded(root: Path = Path()) -> frozenset[str] | None:
    """Return the files that Snakemake has records of, or began to make, as it names records.

    None where it is at work, so that files may be half made, or keeps its records in a database.
    """
    folder = root / RECORDS
    if any((folder / "locks").glob("*")) or (folder / "metadata.db").exists():
        return None
    walked = (entry for name in ("metadata", "incomplete") for entry in os.walk(folder / name))
    return frozenset(
        "".join(part.removeprefix("@") for part in (*Path(path).relative_to(folder).parts[1:], name))
        for path, _, names in walked
        for name in names
    )


def forget(root: Path = Path()) -> None:
    """Delete Snakemake's records, so that hashes decide about all files."""
    shutil.rmtree(root / RECORDS / "metadata", ignore_errors=True)
    (root / RECORDS / "metadata.db").unlink(missing_ok=True)


@contextmanager
def alone() -> Iterator[None]:
    """Keep each Snakemake that begins here waiting until the block ends; SpecError if one is at work."""
    RECORDS.mkdir(exist_ok=True)
    with (RECORDS / "alive").open("a") as sign:
        try:
            fcntl.flock(sign, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SpecError(f"{sign.name}: a Snakemake is at work in this folder; wait for it") from None
        yield


def leave_others(persistence: Any) -> None:
    """Let a Snakemake that ends remove its own locks, where it would remove those of one at work too."""
    if not hasattr(persistence, "_lockfile"):
        return

    def unlock() -> None:
        for path in persistence._lockfile.values():
            Path(path).unlink(missing_ok=True)
        persistence._lockfile.clear()

    persistence.unlock = unlock


def forget_dead() -> None:
    """Show that this process lives, and remove Snakemake's locks if no other process does.

    The sign is a lock that the system takes back when the process ends, however it ends. Snakemake's own
    locks, which keep two processes from the same files, are left alone as long as anyone may hold them.
    `snakemake --unlock` would remove them too, but a user has to know that nobody is at work.
    """
    with suppress(OSError):
        RECORDS.mkdir(exist_ok=True)
        sign = os.open(RECORDS / "alive", os.O_RDWR | os.O_CREAT, 0o666)
        with suppress(BlockingIOError):
            fcntl.flock(sign, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if left := list((RECORDS / "locks").glob("*.lock")):
                for path in left:
                    path.unlink(missing_ok=True)
                print("A Snakemake was killed in this folder; its locks are removed.", file=sys.stderr)
        fcntl.flock(sign, fcntl.LOCK_SH)
