"""What reports are made of: the files that runs left behind, and published numbers."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError, reason, shown
from fedcore.base.files import canonical_json, read_object, until_changed
from fedcore.base.lazy import DataFrame, Series, pd
from fedcore.execution.integrity import HISTORY, PARTITION, PROVENANCE, STATISTICS, SUMMARY, TIMING, changed
from fedcore.execution.status import cause
from pipeline.catalogue.targets import Cell, PlannedRun
from pipeline.reports import kept
from pipeline.reports.agreement import ON_A_PART, Agreement
from pipeline.reports.significance import Samples

REPRODUCTION: Final = "paper"
MEASURED = ("status", "final", "data_note", "data_state", "data_sha256", "partition_sha256")
TIMED = ("seconds", "finished", "device", "commit")
MADE = {SUMMARY, PROVENANCE, PARTITION, STATISTICS, HISTORY}
NUMBERS = {int, float, type(None)}
NAMED = 5
MISSING = "missing, but a report needs it; delete the folder and build it again"
REPAIR = "a report is made of unchanged results only; delete the folder and build it again"
Summary = Mapping[str, Any]
Run = TypeVar("Run", PlannedRun, "RunFacts")


class Published(NamedTuple):
    """A published number: its mean, standard deviation (NaN if not given) and unit."""

    mean: float = math.nan
    std: float = math.nan
    unit: str = ""


def refuse_changed(runs: Iterable[PlannedRun], root: Path) -> None:
    """Refuse results that changed since they were written; missing ones are handled later.

    It raises DataError with the runs or partitions that are changed, damaged or incomplete, and the reasons.
    """
    _refuse(*dict.fromkeys(root / folder for run in runs for folder in (run.partition, run.folder)))


def _refuse(*folders: Path) -> None:
    wrong = [f"{folder}: {what}" for folder in folders if (what := _wrong(folder))]
    if wrong:
        more = f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        raise DataError(f"{'; '.join(wrong[:NAMED])}{more} ({REPAIR})")


@until_changed
def _wrong(folder: Path) -> str:
    """Describe problems of a folder's files."""
    return changed(folder) if any((folder / name).exists() for name in MADE) else ""


@dataclass(frozen=True, eq=False)
class RunFacts:
    """What a run and its partition left behind in ``root``, each file read once, when it is first asked for.

    ``kept_folder`` holds kept files, a line of which stands for a run that isn't there. It raises DataError
    if a file that is asked for is changed, damaged, made by another specification, or missing where a report
    needs it.
    """

    run: PlannedRun
    root: Path
    kept_folder: Path | None = None

    @cached_property
    def kept(self) -> kept.Line | None:
        """What is kept of it where its results are not here; see ``pipeline.reports.kept``."""
        return kept.line_of(self.run, self.root, self.kept_folder)

    @cached_property
    def summary(self) -> Summary | None:
        """Its summary; None if there is none, here or kept."""
        if line := self.kept:
            return kept.summary_of(line)
        path = self.root / self.run.folder / SUMMARY
        _refuse(path.parent)
        summary = _summary(path)
        if summary is not None and summary.get("spec_sha256") != self.run.spec_sha256:
            raise DataError(f"{path}: made by another specification; delete the folder and build it again")
        return summary

    @property
    def final(self) -> Summary | None:
        """Its last measurements, by which it is scored; None if it diverged or there is no run."""
        return self.summary["final"] if self.summary else None

    def score(self, measurement: str, factor: float = 100.0) -> float | None:
        """Return one of its last measurements, in per cent; None if it was not finite or there is no run."""
        value = self.final.get(measurement) if self.final else None
        return None if value is None else factor * value

    @property
    def diverged(self) -> bool:
        """Whether it ended without finite measurements."""
        return self.summary is not None and self.final is None

    @property
    def untrained(self) -> Summary:
        """What its history says of the model before the first round."""
        return dict(self.history.iloc[0])

    @cached_property
    def statistics(self) -> Summary:
        """The statistics of its partition."""
        path = self.root / self.run.partition / STATISTICS
        _refuse(path.parent)
        statistics = _read(path)
        if statistics is None:
            raise DataError(f"{path}: {MISSING}")
        return statistics

    @cached_property
    def timing(self) -> Summary | None:
        """Its times, machine and versions; None if there are none."""
        if line := self.kept:
            return line
        _refuse(self.root / self.run.folder)
        return _read(self.root / self.run.folder / TIMING)

    @property
    def notes(self) -> tuple[str, str]:
        """The state of its data and the note for captions; empty where nothing was made yet."""
        divided = is_made(self.run, self.root, partition=True)
        source = self.summary or (self.statistics if divided else {})
        return source.get("data_state", ""), source.get("data_note", "")

    @cached_property
    def history(self) -> DataFrame:
        """Its measurements, a line for each round that was measured."""
        return kept.history_of(self.run, self.root, self.kept_folder) if self.kept else self.table(HISTORY)

    @property
    def has_history(self) -> bool:
        """Whether it ended, and its history is here or kept."""
        try:
            return self.summary is not None and not self.history.empty
        except kept.NotKept:
            return False

    def series(self, metric: str) -> Series[float]:
        """Return a column of its history by round."""
        if metric not in self.history:
            path = self.root / self.run.folder / HISTORY
            raise DataError(f"{path}: no column '{metric}'; there are {', '.join(self.history.columns)}")
        return pd.Series(self.history[metric].to_numpy(), pd.Index(self.history["round"]), name=metric)

    def table(self, name: str) -> DataFrame:
        """Return a table of numbers that the run kept."""
        return _numbers(self._kept(name))

    def arrays(self, name: str) -> Mapping[str, NDArray[Any]] | None:
        """Return the arrays that an observer kept of the run; None if it diverged."""
        if self.diverged:
            return None
        with np.load(self._kept(name), allow_pickle=False) as stored:
            return dict(stored)

    def _kept(self, name: str) -> Path:
        path = self.root / self.run.folder / name
        if self.summary is None or not path.exists():
            raise DataError(f"{path}: {MISSING}")
        return path


def read(
    cells: Mapping[Cell, Sequence[PlannedRun]], root: Path, kept_folder: Path | None = None
) -> dict[Cell, tuple[RunFacts, ...]]:
    """Return the facts of each cell's runs; cells that share a run share its facts.

    It raises DataError if the user's files that runs name held other data for one of them.
    """
    runs = {run.folder: RunFacts(run, root, kept_folder) for runs in cells.values() for run in runs}
    hashes: dict[str, str] = {}
    for folder, facts in runs.items():
        if "path" in (section := facts.run.spec["data"]) and (summary := facts.summary):
            found = summary["data_sha256"]
            if found != hashes.setdefault(canonical_json(section), found):
                raise DataError(f"{folder}: made of other data than runs beside it; {REPAIR}")
    return {cell: tuple(runs[run.folder] for run in planned) for cell, planned in cells.items()}


def each_once(cells: Mapping[Cell, Sequence[RunFacts]]) -> list[RunFacts]:
    """Return the runs of all cells, each once."""
    return list(dict.fromkeys(facts for runs in cells.values() for facts in runs))


def is_made(run: PlannedRun, root: Path, partition: bool = False, kept_folder: Path | None = None) -> bool:
    """Return whether a run has ended here or is kept, or its partition is done where that alone counts."""
    if partition:
        return (root / run.partition / STATISTICS).exists()
    return (root / run.folder / SUMMARY).exists() or kept.line_of(run, root, kept_folder) is not None


def lost(cells: Mapping[Cell, Sequence[Run]], diverged: Callable[[Run], bool]) -> dict[Cell, tuple[int, int]]:
    """Return (runs that diverged, runs) of each cell that lacks some: what a report marks and counts."""
    return {c: (count, len(runs)) for c, runs in cells.items() if (count := sum(map(diverged, runs)))}


def facts(run: PlannedRun, root: Path = Path()) -> dict[str, Any]:
    """Return what is known of a run that is here or kept; DataError if a file is damaged."""
    known = {"seed": run.seed, "spec": run.spec_sha256, "code": run.code, "partition": run.partition}
    if line := kept.line_of(run, root):
        known |= {"code": line["code"], "kept": f"{kept.REFERENCE}/{run.paper}/{kept.RUNS}"}
    summary = kept.summary_of(line) if line else _summary(root / run.folder / SUMMARY)
    if summary is None:
        return known | {"status": "not run yet"}
    timing = line or _read(root / run.folder / TIMING) or {}
    stated = [(source, key) for source, keys in ((summary, MEASURED), (timing, TIMED)) for key in keys]
    return known | {key: source[key] for source, key in stated if source.get(key) not in (None, "")}


def _summary(path: Path) -> Summary | None:
    summary = _read(path)
    final = None if summary is None else summary.get("final")
    if final is not None and not (isinstance(final, dict) and {*map(type, final.values())} <= NUMBERS):
        raise DataError(f"{path}: final: expected numbers by name, or null, got {shown(final)}")
    return summary


def read_history(path: Path) -> DataFrame:
    """Read a history by round, or raise DataError if it's no table of numbers or has no column of rounds."""
    history = _numbers(path)
    if "round" not in history or not pd.api.types.is_integer_dtype(history["round"]):
        raise DataError(f"{path}: round: expected a column of whole numbers")
    return history


def _numbers(path: Path) -> DataFrame:
    try:
        table = pd.read_csv(path)
    except ValueError as error:  # pandas' own errors of parsing and decoding are among them
        raise DataError(f"{path}: no table: {reason(error)}") from None
    for column, kind in table.dtypes.items():
        if not pd.api.types.is_numeric_dtype(kind):
            raise DataError(f"{path}: {column}: expected numbers")
    return table


def _read(path: Path) -> Summary | None:
    if not path.exists():
        return None
    try:
        return read_object(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not valid JSON ({error}); delete the folder and build it again") from None


def require_one_scale(runs: Sequence[PlannedRun]) -> None:
    """Refuse to put runs of several scales or variants side by side: raise DataError."""
    of_runs = {"scales": {run.scale for run in runs}, "variants": {str(run.spec["variant"]) for run in runs}}
    for what, several in of_runs.items():
        if len(several) > 1:
            raise DataError(f"one table can't mix {what}: {', '.join(sorted(several))}")


def read_tidy(path: Path, types: Mapping[str, type] = {}, **options: Any) -> DataFrame:
    """Read a tidy csv, whose rows and columns are names even where they look like numbers."""
    try:
        frame: DataFrame = pd.read_csv(path, dtype={"row": str, "column": str, **types}, **options)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: no table: {reason(error)}") from None
    return frame


def earlier_cells(path: Path) -> dict[Cell, Mapping[Hashable, Any]]:
    """Return a tidy table's lines by cell; none without a file, or if it doesn't hold runs' own numbers."""
    if not path.exists():
        return {}
    frame = read_tidy(path, keep_default_na=False)
    if not {"row", "column", "specs", "values"} <= {*frame}:
        return {}
    return {(line["row"], line["column"]): line for line in frame.to_dict("records")}


def merge_samples(before: Samples, now: Samples, pairs: Sequence[str]) -> dict[str, float]:
    """Return the numbers of both sittings in the runs' order, the newer if both have one.

    Numbers of runs that share a pair can't be matched: the sitting with more of them counts. Those of a pair
    that is none of ``pairs``, as after a split was renamed, are left out.
    """
    if any("#" in pair for pair in (*before, *now)):
        return dict(before if len(before) > len(now) else now)
    union = {**before, **now}
    return {pair: union[pair] for pair in pairs if pair in union}


def published_cells(path: Path | None, target: str) -> dict[Cell, Published]:
    """Return what was published in each cell of a target; nothing without a file."""
    if path is None:
        return {}
    frame = read_tidy(path, {"mean": float, "std": float})
    frame = frame if "unit" in frame else frame.assign(unit="percent")
    lines = frame[frame["target"] == target][["row", "column", "mean", "std", "unit"]].itertuples(index=False)
    return {(row, column): Published(mean, std, str(unit)) for row, column, mean, std, unit in lines}


def pair_key(run: PlannedRun) -> str:
    """Return what two runs share that can be compared: partition (and fold) and seed."""
    return "/".join(Path(run.partition).parts[-2:])


def causes(runs: Iterable[RunFacts]) -> str:
    """Say how many runs failed of what, as ``2 out of memory; 1 failed``; empty if none did."""
    ended = (cause(run.root / run.run.folder) for run in runs if run.summary is None)
    failed = Counter(filter(None, ended))
    return "; ".join(f"{number} {what}" for what, number in sorted(failed.items(), reverse=True))


def verdict(compared: Agreement, scale: str, part_of_data: bool = False) -> str:
    """Say whether a cell agrees with the published one, of which only full-scale runs on full data tell."""
    if not compared.verdict:
        return ""
    return untested(scale) or (ON_A_PART if part_of_data else compared.verdict)


def untested(scale: str) -> str:
    """Return the verdict at another scale than the papers' own, which tells nothing; empty at that."""
    return "" if scale == REPRODUCTION else f"not tested at {scale} scale"


def short_hash(run: PlannedRun) -> str:
    """Return the digits of the hash of a run's specification that tables state."""
    return run.spec_sha256[:12]
