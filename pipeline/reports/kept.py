"""Runs that are kept in git: a line for each, and what it measured round by round, in full precision.

    reports/reference/<paper>/runs.parquet         one line per run: numbers, hashes, machine
    reports/reference/<paper>/histories.parquet    a line per run and measured round, as in history.csv
    reports/reference/quick/<paper>/               the same of runs at quick scale

A study's kept run counts as made where its results are not, as long as its specification is the one that is
asked for, and the user's files that this names, where they are here, are those of then; its line says by
which code it was made. A paper's runs are made anew; kept ones count in reports that are kept themselves.
Runs that were kept before there were histories have none.
"""

from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fedcore.base.errors import DataError
from fedcore.base.files import atomic, until_changed
from fedcore.base.lazy import DataFrame, pd
from fedcore.execution.integrity import SUMMARY
from pipeline.catalogue.params import STUDY
from pipeline.catalogue.targets import PlannedRun

REFERENCE, SHORTER = Path("reports/reference"), "quick"
RUNS, HISTORIES = "runs.parquet", "histories.parquet"
KEY, PROCESSOR = "run", "processor"
FIRST = [KEY, PROCESSOR, "round"]
WORK = ("rows_gradient", "rows_forward")
COUNTS = ("rounds", "best_round", *WORK)
MEASURED = ("test_", "train_", "validation_")
Line = Mapping[str, Any]


class NotKept(DataError):
    """What is asked for is not kept of a run."""


class KeptSummary(dict[str, Any]):
    """A kept run's summary, as far as it is kept."""

    def __missing__(self, key: str) -> Any:
        raise NotKept(f"{RUNS}: no '{key}' of runs")


def line_of(run: PlannedRun, root: Path, kept_folder: Path | None = None) -> Line | None:
    """Return what is kept of a run without results in ``root``: of a study's, or in ``kept_folder``."""
    if (run.scale != STUDY and kept_folder is None) or (root / run.folder / SUMMARY).exists():
        return None
    line = lines_of((kept_folder or root / REFERENCE / run.paper) / RUNS).get(run.folder)
    same = line and line["spec_sha256"] == run.spec_sha256 and run.files in {"", line.get("files")}
    return line if same else None


@until_changed
def lines_of(path: Path) -> Mapping[str, Line]:
    """Return what is kept of runs in a file, by run."""
    return {line["run"]: filled(line) for line in read_kept(path).to_dict("records")}


def filled(line: Mapping[Hashable, Any]) -> Line:
    """Return what a line says: the columns that it fills."""
    return {str(key): value for key, value in line.items() if pd.notna(value) and value != ""}


def summary_of(line: Line) -> KeptSummary:
    """Return what a kept run's line says of its summary."""
    return KeptSummary(
        status=line["status"],
        rounds=int(line["rounds"]),
        final={key: value for key, value in line.items() if key.startswith(MEASURED)} or None,
        data_note=line.get("data", ""),
        data_state=line["data_state"],
        **{key: line[key] for key in ("spec_sha256", "data_sha256", "partition_sha256")},
        **{key: int(line[key]) for key in WORK if key in line},
    )


def history_of(run: PlannedRun, root: Path, kept_folder: Path | None = None) -> DataFrame:
    """Return a kept run's history, as ``line_of`` its line, or raise NotKept if it has none."""
    path = (kept_folder or root / REFERENCE / run.paper) / HISTORIES
    histories = histories_of(path)
    if run.folder not in histories:
        raise NotKept(f"{path}: no history of {run.folder}")
    return histories[run.folder].dropna(axis="columns", how="all").reset_index(drop=True)


@until_changed
def histories_of(path: Path) -> Mapping[str, DataFrame]:
    """Return the histories in a file, by run."""
    kept = read_kept(path)
    return {str(run): history for run, history in kept.drop(columns=[KEY, PROCESSOR]).groupby(kept[KEY])}


def read_kept(path: Path) -> DataFrame:
    """Return the lines of a paper's kept runs or histories; none if there is no such file."""
    try:
        return pd.read_parquet(path) if path.exists() else pd.DataFrame(columns=FIRST)
    except (OSError, ValueError) as error:
        found = str(error).splitlines()[0]
        raise DataError(f"{path}: damaged, expected a Parquet file: {found}") from None


def add_runs(gathered: DataFrame, path: Path) -> Path:
    """Keep lines of runs, each in the place of its former one."""
    runs = _joined(read_kept(path), gathered).sort_values("run", kind="stable")
    types = {name: float for name in map(str, runs) if name.startswith(MEASURED)}
    return _write(runs.astype({**types, **{name: "Int64" for name in COUNTS if name in runs}}), path)


def add_histories(frames: Iterable[DataFrame], path: Path) -> Path:
    """Keep runs' histories, each in the place of its former one: the same histories give the same bytes."""
    histories = _joined(read_kept(path), pd.concat(frames))
    columns = [*FIRST, *sorted({*histories} - {*FIRST})]
    return _write(histories[columns].sort_values(["run", "round"], kind="stable"), path)


def _joined(before: DataFrame, new: DataFrame) -> DataFrame:
    others = before[~before["run"].isin(new["run"])]
    return pd.concat([others, new]) if len(others) else new


def _write(frame: DataFrame, path: Path) -> Path:
    with atomic(path) as handle:
        frame.to_parquet(handle, index=False, compression="zstd")
    return path
