"""Whole histories of kept runs: curves, late means and rounds to a target need no training.

reports/reference/<paper>/histories.parquet has a line per run and measured round, with the columns of
history.csv in full precision. Runs that were kept before there were histories may have none.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedcore.base.files import atomic, read_object
from fedcore.base.lazy import pd
from fedcore.execution.integrity import TIMING
from pipeline.reports.results import read_history

HISTORIES = "histories.parquet"
FIRST = ["run", "processor", "round"]


def read(path: Path) -> pd.DataFrame:
    """Return the kept histories of a paper; none if there is no such file."""
    return pd.read_parquet(path) if path.exists() else pd.DataFrame(columns=FIRST)


def of_run(run: str, folder: Path) -> pd.DataFrame:
    """Return a run's history as it is kept, with the kind of processor that made it where that is known.

    Raises:
        DataError: the history holds something else than numbers.
    """
    processor = read_object(folder / TIMING).get("processor", "")
    return read_history(folder / "history.csv").assign(run=run, processor=processor)


def add(found: Iterable[pd.DataFrame], path: Path) -> Path:
    """Keep runs' histories, each in the place of its former one: the same histories give the same bytes."""
    new, before = pd.concat(found), read(path)
    others = before[~before["run"].isin(new["run"])]
    whole = pd.concat([others, new]) if len(others) else new
    columns = [*FIRST, *sorted({*whole} - {*FIRST})]
    with atomic(path) as handle:
        ordered = whole[columns].sort_values(["run", "round"], kind="stable")
        ordered.to_parquet(handle, index=False, compression="zstd")
    return path
