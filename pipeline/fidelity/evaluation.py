"""Kept results made again: cells of several reports, as many as fit into a time, and what of them agrees."""

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from fedcore.base.errors import DataError
from fedcore.base.files import read_object, sha256_file
from fedcore.base.lazy import pd
from fedcore.execution.integrity import HISTORY, SUMMARY
from fedcore.execution.runner import Settings, run
from pipeline.catalogue import Catalogue
from pipeline.catalogue.targets import PlannedRun
from pipeline.fidelity.reference import HASHES, history
from pipeline.reports import REPORTS
from pipeline.reports.kept import HISTORIES, REFERENCE, RUNS, Line, add_histories, lines_of, read_kept

TOLERANCE = 1e-4  # relative: what processors of two kinds make of sums in single precision
LARGEST = 0.25  # of the time, for one cell or figure
RESERVE = 0.05  # of the time, for the reports
SLOWEST = 1.3  # times as long as the runs so far: a cell that may take that long still has to fit
SAME, CLOSE, OTHER = "the same bytes", "the same numbers", "other numbers"


class Unit(NamedTuple):
    """What is checked at once: a cell of a table, or a whole figure, with its runs as they are kept."""

    paper: str
    target: str
    row: str
    column: str
    runs: Sequence[PlannedRun]
    kept: Sequence[Line]

    @property
    def seconds(self) -> float:
        """How long its runs took when they were kept."""
        return float(sum(line["seconds"] for line in self.kept))

    def lacking(self, root: Path) -> list[tuple[str, float]]:
        """Return the data set and the kept seconds of each of its runs that is not in ``root``."""
        pairs = zip(self.runs, self.kept, strict=True)
        lacking = [(plan, line) for plan, line in pairs if not (root / plan.folder / SUMMARY).exists()]
        return [(str(plan.spec["data"]["name"]), line["seconds"]) for plan, line in lacking]


@dataclass(frozen=True)
class Recheck:
    """A cell or figure that was made again, in so many seconds.

    ``outcomes`` says of each run ``SAME``, ``CLOSE`` or ``OTHER``; ``largest`` is the largest relative
    difference of a run's last measurements.
    """

    unit: Unit
    outcomes: tuple[str, ...]
    largest: float
    seconds: float

    @property
    def agrees(self) -> bool:
        """Whether each run gave the kept numbers, within the tolerance."""
        return OTHER not in self.outcomes


@dataclass
class Evaluation:
    """What was checked, and what is left.

    Attributes:
        rebuilt: whether a report, made of the new runs where there are any, is the kept one.
        absent: why data could not be had, by data set.
        left: runs and seconds on this machine that are left of each paper.
        least: of each paper, the minutes from which on its quickest cell or figure is taken.
    """

    checks: list[Recheck] = field(default_factory=list)
    rebuilt: dict[str, bool] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    left: dict[str, tuple[int, float]] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False


Note = Callable[[Recheck | str], None]


@dataclass
class Pace:
    """When the last run has to end, and how long those so far took: when they were ``kept``, and ``here``."""

    until: float
    kept: float = 0.0
    here: float = 0.0

    @property
    def slower(self) -> float:
        """How many times as long runs take here."""
        return self.here / max(self.kept, 1e-9) if self.here else 1.0


def evaluate(
    catalogue: Catalogue,
    papers: Sequence[str],
    seconds: float,
    root: Path,
    settings: Settings,
    seed: int = 0,
    note: Note = lambda what: None,
    folder: Path = REFERENCE,
    fill: bool = False,
) -> Evaluation:
    """Make kept runs again until the time is over, and rebuild the reports that they belong to.

    A figure comes first, if one fits into a quarter of the time; then one cell of each table in turn, chosen
    at random, until none fits any more. How long a run takes is known from the kept one; how much slower
    this machine is, from the runs so far. An interruption ends the runs, and leaves the reports.

    ``catalogue`` has the scale that is kept and the editions of data that were taken; ``root`` is an empty
    folder for results/ and the rebuilt reports; ``note`` is called with each check, and with why data are not
    to be had. ``fill``: make cells and figures whose runs lack a kept history, the quickest first, and keep
    the histories of runs that agree.
    """
    evaluation, pace = Evaluation(), Pace(time.monotonic() + (1 - RESERVE) * seconds)
    kept = {paper: kept_runs(folder / paper / RUNS, settings.device) for paper in papers}
    every = [*units(catalogue, kept, folder)]
    every = without_history(every, folder) if fill else every
    slowest_first = sorted(every, key=lambda unit: -unit.seconds)
    evaluation.least = {unit.paper: math.ceil(unit.seconds / LARGEST / 60) for unit in slowest_first}
    fitting = [unit for unit in every if unit.seconds <= LARGEST * seconds]
    todo = fitting if fill else in_turn(fitting, seed)
    try:
        for check in _checks(todo, pace, root, settings, evaluation.absent, note):
            evaluation.checks.append(check)
            if fill:
                keep_histories(check, root, folder)
            note(check)
    except KeyboardInterrupt:
        evaluation.interrupted = True
    for paper, target in dict.fromkeys((check.unit.paper, check.unit.target) for check in evaluation.checks):
        evaluation.rebuilt[f"{paper}/{target}"] = rebuilt(catalogue, paper, target, root, folder)
    evaluation.left = {paper: _left(runs, root, pace.slower) for paper, runs in kept.items()}
    return evaluation


def _checks(
    todo: Iterable[Unit], pace: Pace, root: Path, settings: Settings, absent: dict[str, str], note: Note
) -> Iterator[Recheck]:
    """Make units again that are sure to end in time, but for those whose data are ``absent``; note why."""
    for unit in todo:
        lacking = unit.lacking(root)
        length = sum(line_seconds for _, line_seconds in lacking)
        too_long = time.monotonic() + SLOWEST * pace.slower * length > pace.until
        if too_long or any(data in absent for data, _ in lacking):
            continue
        try:
            check = again(unit, root, settings)
        except DataError as error:
            data, _ = unit.lacking(root)[0]
            absent[data] = str(error)
            note(f"{data}: {error}")
            continue
        if lacking:
            pace.kept, pace.here = pace.kept + length, pace.here + check.seconds
        yield check


def _left(runs: Mapping[str, Line], root: Path, slower: float) -> tuple[int, float]:
    rest = [line["seconds"] for name, line in runs.items() if not (root / name / SUMMARY).exists()]
    return len(rest), sum(rest) * slower


def kept_runs(path: Path, device: str) -> dict[str, Line]:
    """Return a paper's kept runs by folder, those that a device like this one made; none if it has none."""
    return {run: line for run, line in lines_of(path).items() if line.get("device", device) == device}


def units(catalogue: Catalogue, kept: Mapping[str, Mapping[str, Line]], folder: Path) -> Iterator[Unit]:
    """Yield the cells of kept tables, and the kept figures, whose runs are all kept as they are asked for."""
    for paper, name, target in catalogue.targets():
        if not kept.get(paper) or not (folder / paper / f"{name}.csv").exists() or target.needs != "runs":
            continue
        sources = catalogue.sources(paper, name)
        cells = {("", ""): sources.runs} if target.drawn else sources.cells
        for (row, column), runs in cells.items():
            lines = [kept[paper].get(plan.folder, {}) for plan in runs]
            if runs and [plan.spec_sha256 for plan in runs] == [line.get("spec_sha256") for line in lines]:
                yield Unit(paper, name, row, column, runs, lines)


def in_turn(units: Iterable[Unit], seed: int) -> Iterator[Unit]:
    """Yield the quickest figure, then one cell of each table in turn, chosen at random; papers take turns."""
    tables: dict[tuple[str, str], list[Unit]] = {}
    figures: list[Unit] = []
    for unit in units:
        cells = tables.setdefault((unit.paper, unit.target), [])
        (cells if unit.row else figures).append(unit)
    yield from sorted(figures, key=lambda unit: unit.seconds)[:1]
    papers, ordered = Counter[str](), []
    for (paper, target), cells in tables.items():
        random.Random(f"{seed} {paper}/{target}").shuffle(cells)
        ordered.append((papers[paper], paper, target))
        papers[paper] += 1
    for turn in zip_longest(*(tables[paper, target] for _, paper, target in sorted(ordered))):
        yield from filter(None, turn)


def without_history(units: Iterable[Unit], folder: Path) -> list[Unit]:
    """Return the cells and figures that have a run without a kept history, the quickest first."""
    with_history = {run for path in folder.glob(f"*/{HISTORIES}") for run in read_kept(path)["run"]}
    lacking = (unit for unit in units if any(plan.folder not in with_history for plan in unit.runs))
    return sorted(lacking, key=lambda unit: unit.seconds)


def keep_histories(check: Recheck, root: Path, folder: Path) -> None:
    """Keep the histories of those runs of a check that agree and have none yet."""
    path = folder / check.unit.paper / HISTORIES
    with_history = {*read_kept(path)["run"]}
    agreed = (plan.folder for plan, how in zip(check.unit.runs, check.outcomes, strict=True) if how != OTHER)
    if new := [history(name, root / name) for name in agreed if name not in with_history]:
        add_histories(new, path)


def again(unit: Unit, root: Path, settings: Settings) -> Recheck:
    """Make the runs of a cell or figure from their specifications, and compare them with the kept ones.

    It raises DataError if its data can't be had.
    """
    began, compared = time.monotonic(), []
    for plan, line in zip(unit.runs, unit.kept, strict=True):
        if not (root / plan.folder / SUMMARY).exists():
            of_code = replace(settings, provenance={"code": plan.code})
            run(dict(plan.spec), root / plan.folder, of_code, progress=False)
        compared.append(compare(root / plan.folder, line))
    outcomes, differences = zip(*compared, strict=True)
    return Recheck(unit, outcomes, max(differences), time.monotonic() - began)


def compare(folder: Path, line: Line) -> tuple[str, float]:
    """Return how a run's files agree with what is kept of it, and their largest relative difference."""
    summary = read_object(folder / SUMMARY)
    if any(summary[name] != line[name] for name in HASHES) or summary["status"] != line["status"]:
        return OTHER, math.inf
    final = (summary["final"] or {}).items()
    largest = max((_apart(value, line.get(key, math.nan)) for key, value in final), default=0.0)
    hashes = [sha256_file(folder / SUMMARY), sha256_file(folder / HISTORY)]
    same = not largest and hashes == [line["summary_sha256"], line["history_sha256"]]
    return SAME if same else CLOSE if largest <= TOLERANCE else OTHER, largest


def _apart(ours: float | None, kept: float) -> float:
    if ours is None or math.isnan(kept):
        return 0.0 if ours is None and math.isnan(kept) else math.inf
    return abs(ours - kept) / max(abs(kept), 1e-12)


def rebuilt(catalogue: Catalogue, paper: str, target: str, root: Path, folder: Path) -> bool:
    """Whether a report that is made of the new runs, and of kept numbers for the rest, is the kept one."""
    outputs = catalogue.target(paper, target).paths(root / REPORTS / paper, target)
    kept = folder / paper / f"{target}.csv"
    outputs["csv"].parent.mkdir(parents=True, exist_ok=True)
    catalogue.sources(paper, target, root, kept).build(outputs)
    now, was = (pd.read_csv(path).drop(columns="values", errors="ignore") for path in (outputs["csv"], kept))
    with suppress(AssertionError):
        pd.testing.assert_frame_equal(now, was, check_dtype=False, rtol=TOLERANCE, atol=1e-9)
        return True
    return False
