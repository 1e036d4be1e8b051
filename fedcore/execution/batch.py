"""Several runs in one process."""

import os
import resource
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from fedcore.base.errors import CheckpointError, SpecError, device_lost, say, user_message
from fedcore.base.files import exclusive, read_json, write_text
from fedcore.base.options import validate
from fedcore.execution.integrity import CHECKPOINT, finished
from fedcore.execution.progress import RECORD, progress_kept, repeat
from fedcore.execution.runner import Settings, run
from fedcore.spec import parse

PEAKS_IN_A_MB = 2**20 if sys.platform == "darwin" else 2**10  # units of the system's peak of memory


class Item(BaseModel):
    """A run of a batch: what and where, from which partition file, and what provenance.json keeps."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    spec: dict[str, Any]
    out: str = Field(min_length=1)
    partition: str | None = None
    provenance: dict[str, Any] | None = None


def orders(path: Path) -> list[dict[str, Any]]:
    """Read a batch; SpecError unless it is a list of objects, which are checked when they are done."""
    try:
        items = read_json(path)
    except (OSError, ValueError) as error:
        raise SpecError(f"{path}: not a readable batch ({' '.join(str(error).split())})") from None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise SpecError(f"{path}: expected a JSON list of objects {{spec, out, partition?, provenance?}}")
    return items


def execute(
    items: list[dict[str, Any]], settings: Settings, quiet: bool, benchmark: Path | None = None
) -> int:
    """Do the runs of a batch (see ``Item``) one after another; none after a device that failed.

    The file ``benchmark`` gets a line for each run that is done: its folder, wall-clock and processor
    seconds, and the peak of memory in MB of this process until then. Returns the number of runs that failed,
    which standard error reports, or were not begun after a lost device.
    """
    failed = 0
    lines = ["run\ts\tcpu_s\tmax_rss_mb"]
    folders = [os.path.abspath(str(item.get("out", ""))) for item in items]
    for position, item in enumerate(items):
        out = item.get("out", "")
        try:
            if folders[position] in folders[:position]:
                raise SpecError("batch.out: an earlier order names this folder, expected another")
            wall, cpu = time.perf_counter(), time.process_time()
            if _one(item, settings, quiet) and benchmark:
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / PEAKS_IN_A_MB
                lines.append(f"{out}\t{wall:.3f}\t{cpu:.3f}\t{peak:.0f}")
                write_text(benchmark, "\n".join(lines) + "\n")
        except Exception as error:
            failed += 1
            message = user_message(error)
            trace = traceback.format_exc().splitlines() if message is None else ()
            say(f"error: {out}: {message or ''}", *trace, error=True)
            if device_lost(error):
                failed += len(items) - position - 1
                break
    if failed:
        say(f"{failed} of {len(items)} runs failed; to repeat them alone: {repeat()}", error=True)
    return failed


def _one(item: dict[str, Any], settings: Settings, quiet: bool) -> bool:
    """Do a run unless it is done already; returns whether it had to be done."""
    request = validate(Item, item, "batch")
    out, spec, provenance = Path(request.out), parse(request.spec), request.provenance or {}
    partition = Path(request.partition) if request.partition else None
    settings = replace(settings, partition=partition, provenance=provenance, force=True)
    with exclusive(out):
        if finished(out, {**provenance, "spec_sha256": spec.sha256()}):
            for left in (CHECKPOINT, RECORD):  # by a process that was killed just before its end
                (out / left).unlink(missing_ok=True)
            return False
        with progress_kept(out, str(out), spec.training.rounds, quiet) as progress:
            try:
                run(spec, out, settings, progress)
            except CheckpointError as error:
                say(f"{error}; starting anew", error=True)
                run(spec, out, replace(settings, resume=False), progress)
    return True
