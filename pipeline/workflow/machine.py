"""How fast the machine at hand is: what its results took, or a calibration of some seconds."""

import os
from contextlib import suppress
from itertools import chain
from pathlib import Path

from fedcore.base.errors import SpecError
from fedcore.base.files import read_or_empty
from fedcore.execution.integrity import TIMING
from fedcore.execution.machine import processor
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import STUDY
from pipeline.catalogue.targets import RESULTS, PlannedRun
from pipeline.workflow.estimate import Factors, Guesses, demand, factors


def guesses(catalogue: Catalogue, root: Path = Path()) -> Guesses:
    """Return the costs of runs on this machine; ``root`` holds results/."""
    return Guesses(speed() or 1.0, here(catalogue, root))


def here(catalogue: Catalogue, root: Path = Path(), device: str = "cpu") -> Factors:
    """Return how many times as long as guessed runs of each group took, by the results that are here.

    A run that went on from a checkpoint, or ended early, does not count: its time is not of all rounds.
    """
    guess, ratios = Guesses(), []
    scales = {catalogue.params.scale, STUDY}
    files = chain.from_iterable(root.glob(f"{RESULTS}/*/{s}/*/*/seed*/{TIMING}") for s in scales)
    timings = {path.parent.relative_to(root): read_or_empty(path) for path in files}
    index: dict[str, PlannedRun] = {}
    for paper in {folder.parts[1] for folder in timings} & {*catalogue.papers}:
        with suppress(SpecError):  # a wrong value of one paper is said where its runs are asked for
            index |= catalogue.planned(paper).runs
    for folder, timing in timings.items():
        run = index.get(folder.as_posix())
        uninterrupted = run and timing.get("rounds_in_this_process") == run.spec["training"]["rounds"]
        if run and uninterrupted and timing.get("device") == device and timing.get("seconds"):
            ratios.append((demand(run.spec, run.recipe), timing["seconds"] / guess(run).seconds))
    return factors(ratios)


def calibration() -> Path:
    """Return the file that a calibration writes, in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "fedcore", "speed.json")


def speed() -> float | None:
    """Return how many times as long runs take here as the kept ones took; None without a calibration.

    A damaged file, or one of another processor, is none.
    """
    record = read_or_empty(calibration())
    value = record.get("speed")
    if isinstance(value, int | float) and value > 0 and record.get("processor") == processor():
        return float(value)
    return None
