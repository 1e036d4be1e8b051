"""Runs that are kept in git: a line for each, and what it measured round by round, in full precision.

    reports/reference/<paper>/runs.csv             one line per run: numbers, hashes, machine
    reports/reference/<paper>/histories.parquet    a line per run and measured round, as in history.csv
    reports/reference/quick/<paper>/               the same of runs at quick scale

A study's kept run counts as made where its results are not, as long as its specification is the one that is
asked for; runs.csv says by which code it was made. A paper's runs are made anew. Runs that were kept before
there were histories have none.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fedcore.base.errors import DataError
from fedcore.base.files import atomic, digest, stamps
from fedcore.base.lazy import pd
from fedcore.execution.integrity import SUMMARY
from pipeline.catalogue.params import STUDY
from pipeline.catalogue.targets import PlannedRun

REFERENCE, SHORTER = Path("reports/reference"), "quick"
RUNS, HISTORIES = "runs.csv", "histories.parquet"
FIRST = ["run", "processor", "round"]
WORK = ("rows_gradient", "rows_forward")
Line = Mapping[str, str]


def line_of(run: PlannedRun, root: Path) -> Line | None:
    """Return what is kept of a study's run that has no results in ``root``; None of any other run."""
    if run.scale != STUDY or (root / run.folder / SUMMARY).exists():
        return None
    line = _lines(path := root / REFERENCE / run.paper / RUNS, stamps(path)).get(run.folder)
    return line if line and line["spec_sha256"] == digest(run.spec) else None


@cache
def _lines(path: Path, now: tuple[tuple[int, ...], ...]) -> Mapping[str, Line]:
    if not now:
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {line["run"]: line for line in csv.DictReader(file)}


def summary_of(line: Line) -> dict[str, Any]:
    """Return a kept run's summary, as far as it is kept."""
    measured = {key: own for key, own in line.items() if key.startswith(("test_", "train_", "validation_"))}
    return {
        "status": line["status"],
        "rounds": int(line["rounds"]),
        "final": {key: float(own) for key, own in measured.items() if own} or None,
        "data_note": line["data"],
        "data_state": line["data_state"],
        **{key: line[key] for key in ("spec_sha256", "data_sha256", "partition_sha256")},
        **{key: int(float(line[key])) for key in WORK if line.get(key)},
    }


def history_of(run: PlannedRun, root: Path) -> pd.DataFrame:
    """Return a kept run's history.

    Raises:
        DataError: it has none.
    """
    path = root / REFERENCE / run.paper / HISTORIES
    found = _histories(path, stamps(path))
    if run.folder not in found:
        raise DataError(f"{path}: no history of {run.folder}")
    return found[run.folder].dropna(axis="columns", how="all").reset_index(drop=True)


@cache
def _histories(path: Path, now: tuple[tuple[int, ...], ...]) -> Mapping[str, pd.DataFrame]:
    return {str(run): own.drop(columns=FIRST[:2]) for run, own in read_histories(path).groupby("run")}


def read_histories(path: Path) -> pd.DataFrame:
    """Return the kept histories of a paper; none if there is no such file."""
    return pd.read_parquet(path) if path.exists() else pd.DataFrame(columns=FIRST)


def add_histories(found: Iterable[pd.DataFrame], path: Path) -> Path:
    """Keep runs' histories, each in the place of its former one: the same histories give the same bytes."""
    new, before = pd.concat(found), read_histories(path)
    others = before[~before["run"].isin(new["run"])]
    whole = pd.concat([others, new]) if len(others) else new
    columns = [*FIRST, *sorted({*whole} - {*FIRST})]
    with atomic(path) as handle:
        ordered = whole[columns].sort_values(["run", "round"], kind="stable")
        ordered.to_parquet(handle, index=False, compression="zstd")
    return path
