"""Jobs: what each is told in a file, which files a run leaves, and what runs cost."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add
from pathlib import Path

from fedcore.base.files import write_text
from pipeline.catalogue.targets import PlannedRun
from pipeline.workflow.estimate import Cost, estimate

RUN_FILES = ("spec.yaml", "history.csv", "summary.json", "timing.json", "provenance.json")


class JobSpec(str):
    """What a job is a function of, and a file that tells its command what to do.

    The file is written when a job's command names it, which Snakemake asks for only of jobs that it is about
    to do. It stays beside the log, so that the command can be repeated by hand.

    Attributes:
        path: where that file goes.
        text: what it holds.
        real: whether jobs are really done; in a dry run nothing is written.
    """

    path: Path
    text: str
    real: bool

    @classmethod
    def of(cls, value: str, path: Path, text: str, real: bool) -> JobSpec:
        """Return an order for a job that is a function of ``value``."""
        order = cls(value)
        order.path, order.text, order.real = path, text, real
        return order

    @property
    def file(self) -> Path:
        """The path of the file, written."""
        if self.real:
            write_text(self.path, f"{self.text}\n")
        return self.path


def cost_of(runs: Iterable[PlannedRun]) -> Cost:
    """Return the cost of runs that are done one after another."""
    return reduce(add, (estimate(run.spec) for run in runs))
