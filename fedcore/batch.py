"""Several runs in one process."""

from __future__ import annotations

import resource
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedcore.data import Source
from fedcore.errors import FedcoreError
from fedcore.files import write_text
from fedcore.integrity import finished
from fedcore.progress import repeat, tracked
from fedcore.runner import Settings, run
from fedcore.spec import parse

ITEM_KEYS = {"spec", "out", "partition", "provenance"}


def execute(
    items: list[dict[str, Any]],
    source: Source,
    device: str,
    threads: int,
    quiet: bool,
    benchmark: Path | None = None,
) -> int:
    """Do the runs of a batch one after another.

    Args:
        items: ``spec`` (plain values), ``out`` (folder), optionally ``partition`` (file) and
            ``provenance`` (values that provenance.json keeps, such as a code hash).
        source, device, threads: how to execute them.
        quiet: no progress.
        benchmark: a file that gets a line for each run that is done: its folder, wall-clock and processor
            seconds, and the peak of memory in MB of this process until then.

    Returns:
        The number of runs that failed; each failure is reported on standard error.
    """
    failed = 0
    lines = ["\t".join(("run", "s", "cpu_s", "max_rss_mb"))]
    for item in items:
        out = Path(item.get("out", ""))
        try:
            began = _used()
            if _one(item, out, source, device, threads, quiet) and benchmark:
                lines.append("\t".join((str(out), *_since(began))))
                write_text(benchmark, "\n".join(lines) + "\n")
        except FedcoreError as error:
            failed += 1
            print(f"error: {out}: {error}", file=sys.stderr)
        except Exception:
            failed += 1
            print(f"error: {out}:\n{traceback.format_exc()}", file=sys.stderr)
    if failed:
        print(f"{failed} of {len(items)} runs failed; to repeat them alone: {repeat()}", file=sys.stderr)
    return failed


def _one(item: dict[str, Any], out: Path, source: Source, device: str, threads: int, quiet: bool) -> bool:
    """Do a run unless it is done already; returns whether it had to be done."""
    unknown = set(item) - ITEM_KEYS
    if unknown or "spec" not in item or "out" not in item:
        raise FedcoreError(f"batch: expected keys {sorted(ITEM_KEYS)}, got {sorted(item)}")
    spec = parse(item["spec"])
    provenance = item.get("provenance") or {}
    if finished(out, {**provenance, "spec_sha256": spec.sha256()}):
        return False
    partition = Path(item["partition"]) if item.get("partition") else None
    settings = Settings(partition, source, device, threads, provenance=provenance)
    with tracked(out, str(out), spec.training.rounds, quiet) as progress:
        run(spec, out, settings, progress)
    return True


def _used() -> tuple[float, float]:
    """Return wall-clock and processor seconds so far."""
    return time.perf_counter(), time.process_time()


def _since(began: tuple[float, float]) -> Iterator[str]:
    for now, then in zip(_used(), began, strict=True):
        yield f"{now - then:.3f}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield f"{peak / (2**20 if sys.platform == 'darwin' else 2**10):.0f}"
