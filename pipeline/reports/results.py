"""From runs to tidy numbers: measured values, number of seeds, published values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fedcore.base.errors import DataError, reason
from fedcore.base.files import canonical_json, read_object, sha256_text
from fedcore.base.lazy import pd
from fedcore.base.options import shown
from fedcore.execution.integrity import PARTITION, PROVENANCE, STATISTICS, SUMMARY, TIMING, changed
from fedcore.execution.machine import commit
from fedcore.execution.status import cause
from pipeline.catalogue.targets import PlannedRun
from pipeline.reports import agreement
from pipeline.reports.agreement import ON_STAND_IN

REPRODUCTION = "paper"
MEASURED = ("status", "final", "data_note", "data_state", "data_sha256", "partition_sha256")
TIMED = ("seconds", "finished", "device", "commit")
MADE = {SUMMARY, PROVENANCE, PARTITION, STATISTICS, "history.csv"}
NAMED = 5
REPAIR = "a report is made of unchanged results only; delete the folder and build it again"
Summary = Mapping[str, Any]


class Published(NamedTuple):
    """A published number: its mean, standard deviation (NaN if not given) and unit."""

    mean: float = math.nan
    std: float = math.nan
    unit: str = ""


@dataclass(frozen=True)
class Origin:
    """Where a report comes from: the commit of the code that made it, the day of its newest run, and whether
    its runs computed in ``bf16``, all or some of them.
    """

    commit: str = ""
    newest: str = ""
    reduced: Literal["", "all", "some"] = ""


UNKNOWN = Origin()


def refuse_changed(runs: Iterable[PlannedRun], root: Path) -> None:
    """Refuse results that changed since they were written; missing ones are handled later.

    Raises:
        DataError: runs or partitions are changed, damaged or incomplete; they are named with what is wrong.
    """
    folders = dict.fromkeys(root / place for run in runs for place in (run.partition, run.folder))
    wrong = [f"{folder}: {what}" for folder in folders if (what := _wrong(folder))]
    if wrong:
        more = f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        raise DataError(f"{'; '.join(wrong[:NAMED])}{more} ({REPAIR})")


def _wrong(folder: Path) -> str:
    """Describe problems of a run's or a partition's files; empty without problems or files."""
    try:
        files = sorted((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in folder.iterdir())
    except FileNotFoundError:
        return ""
    return _wrong_with(folder, tuple(files))


@cache
def _wrong_with(folder: Path, files: tuple[tuple[str, int, int], ...]) -> str:
    """Hash a folder's files once as long as names, times and sizes stay as they are."""
    return changed(folder) if MADE & {name for name, *_ in files} else ""


def made(run: PlannedRun, root: Path, partition: bool = False) -> bool:
    """Return whether a run has ended, or its partition is done where that alone counts."""
    return (root / run.partition / STATISTICS if partition else root / run.folder / SUMMARY).exists()


def summary_of(run: PlannedRun, root: Path) -> Summary | None:
    """Read a run's summary; None if there is none.

    Raises:
        DataError: the run is changed or damaged, or was made by another specification.
    """
    path = root / run.folder / SUMMARY
    _refuse(path.parent)
    found = _read(path)
    if found is None:
        return None
    if found.get("spec_sha256") != spec_hash(run):
        raise DataError(f"{path}: made by another specification; delete the folder and build it again")
    final = found.get("final")
    if final is not None and not (isinstance(final, dict) and all(map(_is_measured, final.values()))):
        raise DataError(f"{path}: final: expected numbers by name, or null, got {shown(final)}")
    return found


def statistics_of(run: PlannedRun, root: Path) -> Summary | None:
    """Read the statistics of a run's partition; None if there are none.

    Raises:
        DataError: the partition is changed or damaged.
    """
    _refuse(root / run.partition)
    return _read(root / run.partition / STATISTICS)


def history_of(run: PlannedRun, root: Path) -> pd.DataFrame:
    """Read a run's history, once its summary shows that it is this specification's.

    Raises:
        DataError: the run is missing, damaged or another specification's.
    """
    path = root / run.folder / "history.csv"
    if summary_of(run, root) is None or not path.exists():
        raise DataError(f"{path}: missing, but a report needs it")
    try:
        history = pd.read_csv(path)
    except ValueError as error:  # pandas' own errors of parsing and decoding are among them
        raise DataError(f"{path}: no table: {reason(error)}") from None
    for name, kind in history.dtypes.items():
        if not pd.api.types.is_numeric_dtype(kind):
            raise DataError(f"{path}: {name}: expected numbers")
    return history


def observer_file(run: PlannedRun, root: Path, name: str) -> Path | None:
    """Return the path of a file that an observer kept of a run; None if the run diverged.

    Raises:
        DataError: the run or the file is missing, or the run is damaged or another specification's.
    """
    path = root / run.folder / name
    if has_diverged(run, root):
        return None
    if summary_of(run, root) is None or not path.exists():
        raise DataError(f"{path}: missing, but a report needs it; delete the folder and build it again")
    return path


def final_of(run: PlannedRun, root: Path) -> Summary | None:
    """Return a run's last measurements, by which it is scored; None if it diverged or there is no run."""
    summary = summary_of(run, root)
    return summary["final"] if summary else None


def lost(
    cells: Mapping[tuple[str, str], Sequence[PlannedRun]], diverged: Callable[[PlannedRun], bool]
) -> dict[tuple[str, str], tuple[int, int]]:
    """Return (runs that diverged, runs) of each cell that lacks some: what a report marks and counts."""
    counted = {cell: (sum(map(diverged, runs)), len(runs)) for cell, runs in cells.items()}
    return {cell: counts for cell, counts in counted.items() if counts[0]}


def has_diverged(run: PlannedRun, root: Path) -> bool:
    """Whether a run ended without finite measurements."""
    summary = summary_of(run, root)
    return summary is not None and summary["final"] is None


def timing_of(run: PlannedRun, root: Path) -> Summary | None:
    """Read a run's times, machine and versions; None if there are none.

    Raises:
        DataError: the run is changed or damaged.
    """
    _refuse(root / run.folder)
    return _read(root / run.folder / TIMING)


def facts(run: PlannedRun, root: Path = Path()) -> dict[str, Any]:
    """Return what is known of a run: from the catalogue, its summary and its timing.

    Raises:
        DataError: one of its files is damaged.
    """
    known = {"seed": run.seed, "spec": spec_hash(run), "code": run.code, "partition": run.partition}
    summary = _read(root / run.folder / SUMMARY)
    if summary is None:
        return known | {"status": "not run yet"}
    timing = _read(root / run.folder / TIMING) or {}
    stated = [(own, key) for own, keys in ((summary, MEASURED), (timing, TIMED)) for key in keys]
    return known | {key: own[key] for own, key in stated if own.get(key) not in (None, "")}


def _refuse(folder: Path) -> None:
    if what := _wrong(folder):
        raise DataError(f"{folder}: {what} ({REPAIR})")


def _read(path: Path) -> Summary | None:
    if not path.exists():
        return None
    try:
        return read_object(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not valid JSON ({error}); delete the folder and build it again") from None


def require_one_scale(runs: Sequence[PlannedRun]) -> None:
    """Refuse to put runs of several scales or variants side by side.

    Raises:
        DataError: they are.
    """
    for what, found in (
        ("scales", {run.scale for run in runs}),
        ("variants", {str(run.spec["variant"]) for run in runs}),
    ):
        if len(found) > 1:
            raise DataError(f"one table can't mix {what}: {', '.join(sorted(found))}")


def published_cells(path: Path, target: str) -> dict[tuple[str, str], Published]:
    """Return what was published in each cell of a target."""
    frame = pd.read_csv(path, dtype={"row": str, "column": str})
    frame = frame if "unit" in frame else frame.assign(unit="percent")
    own = frame[frame["target"] == target]
    return {
        (row, column): Published(float(mean), float(std), str(unit))
        for row, column, mean, std, unit in own[["row", "column", "mean", "std", "unit"]].itertuples(
            index=False
        )
    }


def pair_key(run: PlannedRun) -> str:
    """Return what two runs share that can be compared: partition (and fold) and seed."""
    return "/".join(Path(run.partition).parts[-2:])


def origin_of(runs: Sequence[PlannedRun], root: Path) -> Origin:
    """Return the current commit, the day on which the newest run finished, and the runs' arithmetic."""
    timings = (timing_of(run, root) for run in runs)
    days = [str(timing["finished"])[:10] for timing in timings if timing and "finished" in timing]
    halves = ["bf16" in (run.spec.get("precision"), run.spec["evaluation"].get("precision")) for run in runs]
    return Origin(
        commit(), max(days, default=""), "" if not any(halves) else "all" if all(halves) else "some"
    )


def causes(runs: Iterable[PlannedRun], root: Path) -> str:
    """Say how many runs failed of what, as ``2 out of memory; 1 failed``; empty if none did."""
    failed = Counter(
        what for run in runs if summary_of(run, root) is None and (what := cause(root / run.folder))
    )
    return "; ".join(f"{number} {what}" for what, number in sorted(failed.items(), reverse=True))


def notes_of(run: PlannedRun, root: Path) -> tuple[str, str]:
    """Return the state of a run's data and the note for captions; empty where nothing was made yet."""
    found = summary_of(run, root) or statistics_of(run, root) or {}
    return found.get("data_state", ""), found.get("data_note", "")


def verdict(compared: agreement.Agreement, scale: str, on_stand_in: bool = False) -> str:
    """Say whether a cell agrees with the published one, of which only full-scale runs on full data tell.

    Args:
        compared: ours beside the published number.
        scale: the scale of our runs.
        on_stand_in: whether they saw a part of the data only.
    """
    if not compared.verdict:
        return ""
    if scale != REPRODUCTION:
        return f"not tested at {scale} scale"
    return ON_STAND_IN if on_stand_in else compared.verdict


def _is_measured(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def spec_hash(run: PlannedRun) -> str:
    """Return the SHA-256 of a run's specification, as its summary states it."""
    return sha256_text(canonical_json(run.spec))


def short_hash(run: PlannedRun) -> str:
    """Return the digits of it that tables state."""
    return spec_hash(run)[:12]
