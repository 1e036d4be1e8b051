"""The state of every run below a folder: read from its files, and counted."""

import os
import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from fedcore.base.errors import plain
from fedcore.base.files import read_or_empty
from fedcore.execution.forkserver import alive
from fedcore.execution.integrity import CHECKPOINT, PROVENANCE, SUMMARY, TIMING, below
from fedcore.execution.progress import RECORD

RunStatus = Literal["done", "diverged", "running", "waiting", "failed", "interrupted", "stale"]
STATES: tuple[RunStatus, ...] = get_args(RunStatus)
FINISHED = ("done", "diverged")
MEMORY = "out of memory"
SILENT_SECONDS = 300.0
LARGEST = 1e12
NUMBERS, TEXTS = ("round", "rounds", "began", "updated", "process"), ("state", "machine")


@dataclass(frozen=True)
class Status:
    """One run.

    ``diverged`` is finished with metrics that are not finite; ``waiting``: planned, nothing there;
    ``interrupted``: its process is gone; ``stale``: done, but the plan has another specification or code, or
    its summary can't be read.
    """

    folder: Path
    state: RunStatus
    round: int = 0
    rounds: int = 0
    accuracy: float | None = None  # of the test, measured last, a fraction
    seconds: float = 0.0  # that it took, or has taken
    log: Path | None = None  # where the messages of a failed run are
    command: str = ""  # what repeats it
    error: str = ""  # what it failed of
    first: int = 0  # the round that its process measured first; above 0 where it goes on from a checkpoint

    @property
    def left(self) -> float | None:
        """Seconds that a running run still needs, at the speed so far."""
        rounds = self.round - self.first
        return self.seconds / rounds * (self.rounds - self.round) if rounds > 0 else None


def survey(
    results: Path, planned: Mapping[str, Mapping[str, str]] | None = None, alone: bool = False
) -> list[Status]:
    """Return the state of every run below ``results``; where some are planned, of these and unfinished ones.

    ``planned`` has what provenance.json should state of each run by folder; those that are not there wait.
    ``alone`` leaves out unfinished runs that are not planned.
    """
    home = os.path.abspath(results)
    places = {Path(os.path.abspath(folder)): stated for folder, stated in (planned or {}).items()}
    known = {results / p.relative_to(home): places[p] for p in places if p.is_relative_to(home)}
    marks = () if alone else below(results, RECORD, CHECKPOINT, *(() if known else (PROVENANCE,)))
    others = {path.parent for path in marks} - {*known}
    return [_status(folder, known.get(folder, {})) for folder in (*known, *sorted(others))]


def cause(folder: Path) -> str:
    """Say in a few words why a run has no result: ``out of memory``, ``failed``; empty if it did not fail."""
    status = _status(folder, {})
    failed = MEMORY if status.error.startswith(MEMORY) else "failed"
    return failed if status.state == "failed" else ""


def counts(statuses: Iterable[Status]) -> dict[RunStatus, int]:
    """Return how many runs there are in each state; only states that occur."""
    numbers = Counter(status.state for status in statuses)
    return {state: numbers[state] for state in STATES if numbers[state]}


def seconds_left(statuses: Sequence[Status]) -> float | None:
    """Estimate the time until all runs are finished, with as many at once as now.

    Runs that have not begun are taken to need the mean time of those that are finished or running.
    """
    running = [status for status in statuses if status.state == "running"]
    ahead = [(status.seconds, status.left) for status in running if status.left is not None]
    durations = [status.seconds for status in statuses if status.state in FINISHED and status.seconds]
    durations += [seconds + left for seconds, left in ahead]
    to_begin = len(running) - len(ahead)
    to_begin += sum(status.state in {"waiting", "interrupted", "stale"} for status in statuses)
    if not running or not durations:
        return None
    return (sum(left for _, left in ahead) + to_begin * sum(durations) / len(durations)) / len(running)


def _status(folder: Path, expected: Mapping[str, str]) -> Status:
    record = read_or_empty(folder / RECORD)
    numbers = all(_number(record.get(key)) is not None for key in NUMBERS)
    if numbers and all(isinstance(record.get(key), str) for key in TEXTS):
        begun = _unfinished(folder, record)
        if not expected or begun.state != "interrupted":
            return begun
        ended = _ended(folder, expected)  # what was there before, if it is what is asked for again
        return ended if ended.state in FINISHED else begun
    return _ended(folder, expected)


def _ended(folder: Path, expected: Mapping[str, str]) -> Status:
    try:
        stamp = (folder / PROVENANCE).stat().st_mtime_ns
    except OSError:
        return Status(folder, "interrupted" if (folder / CHECKPOINT).exists() else "waiting")
    provenance, summary, timing = _finished(folder, stamp)
    final = summary.get("final")
    accuracy = _number(final.get("test_accuracy")) if isinstance(final, dict) else None
    state: RunStatus = "diverged" if summary.get("status") == "diverged" else "done"
    if not summary or any(provenance.get(key) != value for key, value in expected.items()):
        state = "stale"
    rounds = int(_number(summary.get("rounds")) or 0)
    return Status(folder, state, rounds, rounds, accuracy, _number(timing.get("seconds")) or 0.0)


def _unfinished(folder: Path, record: Mapping[str, Any]) -> Status:
    state: RunStatus = "failed"
    if record["state"] == "running":
        elsewhere = record["machine"] != socket.gethostname()
        recent = time.time() - float(record["updated"]) < SILENT_SECONDS
        running = recent if elsewhere else alive(int(record["process"]))
        state = "running" if running else "interrupted"
    return Status(
        folder=folder,
        state=state,
        round=int(record["round"]),
        rounds=int(record["rounds"]),
        accuracy=_number(record.get("accuracy")),
        seconds=record["updated"] - record["began"],
        log=Path(str(record["log"])) if record.get("log") else None,
        command=plain(record.get("command", "")),
        error=plain(record.get("error", "")),
        first=int(_number(record.get("first")) or 0),
    )


@cache
def _finished(folder: Path, stamp: int) -> tuple[dict[str, Any], ...]:
    """Read a finished run's files; again only if its provenance has another time."""
    return tuple(read_or_empty(folder / name) for name in (PROVENANCE, SUMMARY, TIMING))


def _number(value: object) -> float | None:
    """Return a number of a size that counts and times have; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST:
        return value
    return None
