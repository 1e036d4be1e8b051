"""A sitting of a benchmark: missing runs one after another in one process, whole workloads first."""

import random
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from fedcore.base.errors import DataError, say
from fedcore.execution.batch import execute
from fedcore.execution.integrity import finished
from fedcore.execution.runner import Settings
from pipeline.catalogue import Catalogue
from pipeline.catalogue.targets import PlannedRun
from pipeline.reports import write_partial
from pipeline.reports.kept import line_of
from pipeline.reports.trials import AGAIN, FINALS, TRIALS
from pipeline.workflow import machine
from pipeline.workflow.expected import stated

Wanted = Callable[[PlannedRun], bool]


def sit(
    planned: Callable[[], Catalogue], name: str, seconds: float, settings: Settings, wanted: Wanted
) -> Catalogue | None:
    """Make a benchmark's wanted runs until the time is over, those of the cheapest workload first.

    ``planned`` returns the catalogue as the stages have come. Kept runs count as made. Each process takes
    a workload's runs in an order of its own, so that several seldom meet. Returns the catalogue once nothing
    is missing.

    Raises:
        DataError: a run failed.
    """
    until, changed = time.monotonic() + seconds, [TRIALS, AGAIN]
    catalogue = planned()
    while True:
        for stage in changed:  # by its table the next stage is planned
            if any(Path(run.folder).exists() and done(run) for run in needed(catalogue, name, stage)):
                write_partial(catalogue.sources(name, stage))
                catalogue = planned()
        stage, runs = _next(catalogue, name, wanted)
        if not runs:
            return catalogue
        changed = [stage]
        say(f"{runs[0].setting}: {len(runs)} runs of {stage}", error=True)
        for run in random.sample(runs, len(runs)):
            if time.monotonic() >= until:
                return None
            if execute([{**run.order(), "partition": None}], settings, quiet=True):
                raise DataError(f"{run.folder}: failed, as said above")


def done(run: PlannedRun) -> bool:
    """Whether a run is kept, or ended here by the code of today."""
    return line_of(run, Path()) is not None or finished(Path(run.folder), stated(run))


def needed(catalogue: Catalogue, name: str, stage: str) -> list[PlannedRun]:
    """Return the runs of a stage; none as long as nothing is known of it."""
    return catalogue.needed(name, stage) if stage in catalogue.papers[name].targets else []


def _next(catalogue: Catalogue, name: str, wanted: Wanted) -> tuple[str, list[PlannedRun]]:
    """Return what is missing next: a stage, and its runs of one workload; no runs if all are made."""
    cost: dict[str, float] = defaultdict(float)
    guess = machine.guesses(catalogue)
    for run in filter(wanted, needed(catalogue, name, TRIALS)):
        cost[run.setting] += guess(run).seconds
    for setting in sorted(cost, key=lambda setting: cost[setting]):
        for stage in (TRIALS, AGAIN, FINALS):
            workload = (run for run in needed(catalogue, name, stage) if run.setting == setting)
            if runs := [run for run in workload if wanted(run) and not done(run)]:
                return stage, runs
    return "", []
