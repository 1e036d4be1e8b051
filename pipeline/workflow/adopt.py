"""Files that came from elsewhere, as by ``dvc pull``: which of them may be believed.

Snakemake decides by its own records and by times. In a fresh clone there are no records, and times are
arbitrary. Here hashes decide: a partition, a run or a report is believed if it is unchanged and states the
specification, the code and the inputs that params.yaml and the code describe now. ``inspect`` only looks.
``apply`` is called when work begins: believed files get the time of now, the others are moved out of the way.
Snakemake keeps its records of jobs in .snakemake, and locks that a killed one leaves behind.
"""

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

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
            (self.believed if good and self.stale.keys().isdisjoint(made_of) else self.stale)[name] = files


def inspect(catalogue: Catalogue, root: Path = Path()) -> Decision:
    """Check all partitions, finished runs and reports that are here; changes nothing."""
    decision = Decision()
    for paper, declared in catalogue.papers.items():
        if not any((root / place / paper).exists() for place in (RESULTS, REPORTS)):
            continue
        runs, _, divisions = catalogue.planned(paper)
        for folder, division in divisions.items():
            place = root / folder
            good = not changed(place) and read_object(place / STATISTICS).get("code") == division.code
            decision.judge(folder, _files(place), good)
        for folder, run in runs.items():
            if (root / folder / SUMMARY).exists():
                good = finished(root / folder, stated(run))
                decision.judge(folder, _files(root / folder), good, [run.partition])
        for name in declared.targets:
            files = [path for path in (root / REPORTS / paper).glob(f"{name}.*") if path.is_file()]
            if is_partial(files):
                continue
            sources = catalogue.sources(paper, name, root)
            decision.judge(f"reports/{paper}/{name}", files, is_sound(sources), sources.owners)
        tables = [name for name, target in declared.targets.items() if target.kind == "table"]
        path = root / REPORTS / paper / dvc.METRICS
        files = [path] if path.is_file() else []
        reports = [f"reports/{paper}/{name}" for name in tables]
        decision.judge(f"reports/{paper}/{dvc.METRICS}", files, _sound_metrics(path, tables), reports)
    return decision


def apply(decision: Decision, root: Path = Path()) -> str:
    """Give believed files the time of now, and set the others aside.

    It returns one line that says where these are and how to get them back; nothing if all are believed.
    """
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


def _files(folder: Path) -> list[Path]:
    """Return the files of a result; a checkpoint knows itself what it may be used for."""
    return [path for path in folder.glob("*") if path.is_file() and path.name != CHECKPOINT]


def _sound_metrics(path: Path, tables: Iterable[str]) -> bool:
    try:
        metrics = dvc.means_json(path.with_name(f"{name}.csv") for name in tables)
        return path.read_text(encoding="utf-8") == metrics
    except OSError:
        return False


FOLDER = Path(".snakemake")


def unrecorded(root: Path = Path()) -> bool:
    """Whether Snakemake knows nothing of the files here, and isn't at work."""
    folder = root / FOLDER
    locked = any((folder / "locks").glob("*"))
    known = (folder / "metadata.db").exists() or any((folder / "metadata").rglob("*"))
    return not locked and not known


def forget(root: Path = Path()) -> None:
    """Delete Snakemake's records, so that hashes decide about all files."""
    shutil.rmtree(root / FOLDER / "metadata", ignore_errors=True)
    (root / FOLDER / "metadata.db").unlink(missing_ok=True)


def forget_dead() -> None:
    """Show that this process lives, and remove Snakemake's locks if no other process does.

    The sign is a lock that the system takes back when the process ends, however it ends. Snakemake's own
    locks, which keep two processes from the same files, are left alone as long as anyone may hold them.
    `snakemake --unlock` would remove them too, but a user has to know that nobody is at work.
    """
    with suppress(OSError):
        FOLDER.mkdir(exist_ok=True)
        sign = os.open(FOLDER / "alive", os.O_RDWR | os.O_CREAT, 0o666)
        with suppress(BlockingIOError):
            fcntl.flock(sign, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if left := list((FOLDER / "locks").glob("*.lock")):
                for path in left:
                    path.unlink(missing_ok=True)
                print("A Snakemake was killed in this folder; its locks are removed.", file=sys.stderr)
        fcntl.flock(sign, fcntl.LOCK_SH)
