"""Several runs in one process."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

from fedcore.data import Source
from fedcore.errors import FedcoreError
from fedcore.integrity import finished
from fedcore.progress import repeat, tracked
from fedcore.runner import Settings, run
from fedcore.spec import parse

ITEM_KEYS = {"spec", "out", "partition", "provenance"}


def execute(items: list[dict[str, Any]], source: Source, device: str, threads: int, quiet: bool) -> int:
    """Do the runs of a batch one after another.

    Args:
        items: ``spec`` (plain values), ``out`` (folder), optionally ``partition`` (file) and
            ``provenance`` (values that provenance.json keeps, such as a code hash).
        source, device, threads: how to execute them.
        quiet: no progress.

    Returns:
        The number of runs that failed; each failure is reported on standard error.
    """
    failed = 0
    for item in items:
        out = Path(item.get("out", ""))
        try:
            _one(item, out, source, device, threads, quiet)
        except FedcoreError as error:
            failed += 1
            print(f"error: {out}: {error}", file=sys.stderr)
        except Exception:
            failed += 1
            print(f"error: {out}:\n{traceback.format_exc()}", file=sys.stderr)
    if failed:
        print(f"{failed} of {len(items)} runs failed; to repeat them alone: {repeat()}", file=sys.stderr)
    return failed


def _one(item: dict[str, Any], out: Path, source: Source, device: str, threads: int, quiet: bool) -> None:
    unknown = set(item) - ITEM_KEYS
    if unknown or "spec" not in item or "out" not in item:
        raise FedcoreError(f"batch: expected keys {sorted(ITEM_KEYS)}, got {sorted(item)}")
    spec = parse(item["spec"])
    provenance = item.get("provenance") or {}
    if finished(out, {**provenance, "spec_sha256": spec.sha256()}):
        return
    partition = Path(item["partition"]) if item.get("partition") else None
    settings = Settings(partition, source, device, threads, provenance=provenance)
    with tracked(out, str(out), spec.training.rounds, quiet) as progress:
        run(spec, out, settings, progress)
