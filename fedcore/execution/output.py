"""Write a finished run's files."""

import csv
import io
import math
import os
import platform
import statistics
import time
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedcore.base import __version__, core_yaml
from fedcore.base.errors import BrokenContract
from fedcore.base.files import atomic, sha256_file, write_json, write_text
from fedcore.base.lazy import torch
from fedcore.execution import integrity, metrics
from fedcore.execution.integrity import CHECKPOINT, PROVENANCE, SPEC, SUMMARY, TIMING, listed, sealed
from fedcore.execution.machine import commit, processor
from fedcore.execution.result import Result
from fedcore.execution.simulation import diverged
from fedcore.parts import Run, State
from fedcore.spec import Spec


def summarise(run: Run, state: State, identity: dict[str, Any], notes: dict[str, Any]) -> dict[str, Any]:
    """Return what summary.json holds: equal bytes for equal runs."""
    last = state.history[-1]
    ended = not diverged(state) and all(math.isfinite(last[key]) for key in ("test_loss", "test_accuracy"))
    scored = [row for row in state.history if math.isfinite(row["test_accuracy"])] or state.history[:1]
    best = max(scored, key=lambda row: row["test_accuracy"])  # the first of equals
    measured = [key for key in last if key.startswith(metrics.MEASURED)]
    problem, rows = run.problem, {key: getattr(state, key) for key in ("rows_gradient", "rows_forward")}
    return {
        "status": "completed" if ended else "diverged",
        "final": {key: _finite(last[key]) for key in measured} if ended else None,
        "best": {"round": best["round"], "test_accuracy": _finite(best["test_accuracy"])},
        "rounds": state.round,
        "parameters": problem.start.numel(),
        "bytes_down": state.bytes_down,
        "bytes_up": state.bytes_up,
        **(rows if run.spec.evaluation.count_rows else {}),
        "spec_sha256": run.spec.sha256(),
        "data_sha256": identity["data_sha256"],
        "partition_sha256": identity["partition_sha256"],
        "clients": len(problem.clients),
        "samples": len(problem.train),
        "test_samples": len(problem.test),
        "empty_clients": [client for client, size in enumerate(problem.sizes) if not size],
        "variant": run.spec.variant,
        **notes,
    }


def gathered(run: Run, state: State, kind: Literal["tables", "arrays"], *taken: str) -> dict[str, Any]:
    """Return all tables or arrays of a run's parts; refuse a name that is taken and Python objects."""
    found: dict[str, Any] = {}
    for part in run.recipe.parts():
        for name, content in getattr(part, kind)(state).items():
            where = f"{type(part).__name__}.{kind}: '{name}'"
            if name in found or name in taken:
                raise BrokenContract(f"{where} is the name of other {kind} of the run, expected another")
            if kind == "arrays" and any(np.asarray(values).dtype.hasobject for values in content.values()):
                raise BrokenContract(f"{where} holds Python objects, expected numbers or text")
            found[name] = content
    return found


def write(folder: Path, spec: Spec, result: Result, save_model: bool, provenance: Mapping[str, Any]) -> None:
    """Write a finished run's files; spec.yaml comes first, and summary.json last but provenance."""
    write_text(folder / SPEC, core_yaml.to_yaml(result.spec))
    if save_model:
        with atomic(folder / integrity.PARAMETERS) as handle:
            np.savez(handle, **result.parameters)  # type: ignore[arg-type]
    tables = {"history": result.rows, "clients": result.clients, **result.tables}
    tables = {f"{name}.csv": rows for name, rows in tables.items() if rows}
    arrays = {f"{name}.npz": its for name, its in result.arrays.items()}
    for name, rows in tables.items():
        write_text(folder / name, rows_csv(rows))
    for name, its in arrays.items():
        with atomic(folder / name) as handle:
            np.savez_compressed(handle, **its)  # type: ignore[arg-type]
    write_json(folder / TIMING, sealed(result.timing))
    write_json(folder / SUMMARY, result.summary)
    written = [SPEC, SUMMARY, *tables, *arrays, *([integrity.PARAMETERS] if save_model else [])]
    files = {name: sha256_file(folder / name) for name in written}
    for name in listed(folder) - files.keys():
        if Path(name).name == name and name.endswith((".csv", ".npz")) and (folder / name).is_file():
            (folder / name).unlink()
    write_json(folder / PROVENANCE, sealed({**provenance, "spec_sha256": spec.sha256(), "files": files}))
    (folder / CHECKPOINT).unlink(missing_ok=True)


def rows_csv(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV text; numbers in the shortest form that reads back equal, NaN as empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(chain.from_iterable(rows))), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: value if value == value else "" for key, value in row.items()})  # but for NaN
    return text.getvalue()


def timing_of(run: Run, seconds: float, rounds: list[float]) -> dict[str, Any]:
    """Return what timing.json holds; a round's median leaves measuring out, and is null without a round."""
    return {
        "seconds": round(seconds, 3),
        "median_round_seconds": round(statistics.median(rounds), 6) if rounds else None,
        "rounds_in_this_process": len(rounds),
        "engine": run.engine.name,
        "device": run.problem.start.device.type,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "processor": processor(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        **run.engine.versions,
        "fedcore": __version__,
        "commit": commit(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
