"""A command on one core: what it prints, how long it takes, and the peak of memory of all its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.1
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
NO_TELEMETRY = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@dataclass(frozen=True)
class Done:
    """An ended command.

    Attributes:
        peak: bytes of memory that belongs to its processes alone, added up; mapped files do not count.
    """

    code: int
    output: str
    errors: str
    seconds: float
    peak: int

    @property
    def reason(self) -> str:
        """The last line of what it complained about."""
        lines = [line for line in self.errors.splitlines() if line.strip()]
        return lines[-1].strip()[:300] if lines else f"exit code {self.code}"


def run(command: Sequence[str | Path], environment: Mapping[str, str], core: int, limit: float) -> Done:
    """Run a command on one core; after ``limit`` seconds it and all that it started are ended."""
    words = [str(word) for word in command]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.monotonic()
        process = subprocess.Popen(
            words,
            stdout=output,
            stderr=errors,
            env={**os.environ, **ONE_THREAD, **NO_TELEMETRY, **environment},
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
        peak, members = 0, {process.pid}
        while process.poll() is None:
            members = family(process.pid) | {process.pid}
            peak = max(peak, sum(map(own_memory, members)))
            if time.monotonic() - began > limit:
                _end(members)
                process.wait()
            time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - began
        _end(members - {process.pid})
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    late = f"\nended after {limit:.0f} s" if seconds > limit else ""
    return Done(process.returncode, texts[0], texts[1] + late, seconds, peak)


def family(root: int) -> set[int]:
    """Return the processes that a process has started, and what they have."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            text = _read(entry / "stat")
            if text:
                parents[int(entry.name)] = int(text.rpartition(")")[2].split()[1])
    members = added = {root}
    while added:
        added = {pid for pid, parent in parents.items() if parent in members} - members
        members |= added
    return members - {root}


def own_memory(pid: int) -> int:
    """Return the bytes of a process that are no mapped file."""
    fields = dict(
        line.split(":", 1) for line in _read(Path(f"/proc/{pid}/status")).splitlines() if ":" in line
    )
    return sum(int(fields.get(key, "0").split()[0]) for key in ("RssAnon", "RssShmem")) * 1024


def idle_share(seconds: float = 2.0) -> float:
    """Return how much of the machine nobody uses, watched for some seconds."""

    def look() -> tuple[int, int]:
        numbers = [int(word) for word in _read(Path("/proc/stat")).splitlines()[0].split()[1:9]]
        return numbers[3] + numbers[4], sum(numbers)

    idle, total = look()
    time.sleep(seconds)
    later_idle, later_total = look()
    return (later_idle - idle) / max(1, later_total - total)


def _end(members: set[int]) -> None:
    for pid in members:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
