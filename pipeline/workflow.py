"""What the Snakefile asks: functions of wildcards over one catalogue. Rules hold no logic."""

from __future__ import annotations

import gc
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, reduce, wraps
from inspect import signature
from operator import add
from pathlib import Path
from types import MethodType
from typing import Any, TypeVar, cast

from fedcore import warm
from fedcore.errors import SpecError
from fedcore.files import canonical_json, write_text
from pipeline import metrics
from pipeline.catalogue import RESULTS, Catalogue, Division, Run, board_plan, weights
from pipeline.estimate import Cost, estimate
from pipeline.params import load
from pipeline.targets import Curves, Drawing, Listing, Table

TABLE_FILES = ("csv", "md", "html", "tex", "standalone.tex")
FIGURE_FILES = ("csv", "svg", "pdf", "png")
WHAT_NOW = """What failed, and of what: fedcore status. The same command goes on from the checkpoints.
A table of the runs that are finished: python -m pipeline partial reports/PAPER/TABLE.csv"""
SHORT_SECONDS = 120.0
SMALL_PERCENT = 25
COLLECT_AFTER = (200_000, 50, 100)
Asked = TypeVar("Asked", bound=Callable[..., Any])
RUN_FILES = ("spec.yaml", "history.csv", "summary.json", "timing.json", "provenance.json")


def one_of(names: Iterable[str]) -> str:
    """Return a wildcard constraint that matches these names and nothing else."""
    return "|".join(map(re.escape, sorted(names))) or r"(?!)"


class Order(str):
    """What a ``fedcore`` command is told, as JSON: a job is a function of it.

    It is written to a file when a job's command names that file, which Snakemake asks for only of jobs that
    it is about to do. The file stays beside the log, so that its command can be repeated by hand.

    Attributes:
        path: where that file goes.
        pretended: whether this is a dry run, which writes nothing.
    """

    path: Path
    pretended: bool

    @property
    def file(self) -> Path:
        """The path of the file, written."""
        if not self.pretended:
            write_text(self.path, f"{self}\n")
        return self.path


def asked(method: Asked) -> Asked:
    """Let Snakemake, which looks up a function's parameters each time that it calls it, find them at once."""

    def bound(flow: Workflow) -> Callable[..., Any]:
        @wraps(method)
        def answer(*given: Any, **named: Any) -> Any:
            return method(flow, *given, **named)

        answer.__signature__ = signature(MethodType(method, flow))  # type: ignore[attr-defined]
        return answer

    return cast(Asked, cached_property(bound))


def cost_of(runs: Iterable[Run]) -> Cost:
    """Return the cost of runs that are done one after another."""
    return reduce(add, (estimate(run.spec) for run in runs))


class Workflow:
    """The catalogue, with an answer to each question that a rule asks.

    Args:
        config: the merged configuration: params.yaml and what ``--config`` changed.
        dry_run: whether this is one.

    Raises:
        SystemExit: the configuration is wrong; the message is one line.
    """

    def __init__(self, config: Mapping[str, Any], dry_run: Callable[[], bool] = lambda: False) -> None:
        self.dry_run = dry_run
        try:
            self.catalogue = Catalogue(load(config))
            self.catalogue.index  # noqa: B018 - every specification is checked before anything runs
        except SpecError as error:
            raise SystemExit(f"params.yaml: {error}") from None
        self.params = self.catalogue.params
        self._refuse_lone_seeds()
        self.primary = self.params.primary
        self.run_files = RUN_FILES
        self.seeds = next(iter(self.params.papers.values())).seeds
        self.papers = one_of(self.catalogue.papers)
        self.tables = one_of([*self.catalogue.of_kind(Table), *self.catalogue.of_kind(Listing)])
        self.figures = one_of([*self.catalogue.of_kind(Curves), *self.catalogue.of_kind(Drawing)])
        self.fetched = one_of(name for name in self.catalogue.data if not name.endswith("-demo"))
        self.reports = one_of(path for paper in self.catalogue.papers for path in self.reports_of(paper))
        self.top = one_of(path.removeprefix(f"{self.primary}/") for path in self.reports_of(self.primary))
        self._costs: dict[str, Cost] = {}
        self.train_rules = "train_seeds.smk" if self.params.one_process else "train.smk"

    def _refuse_lone_seeds(self) -> None:
        """Refuse one process for all seeds where a search trains the first seed alone."""
        if not self.params.one_process:
            return
        for runs in self.catalogue.groups.values():
            paper, seeds = runs[0].paper, tuple(run.seed for run in runs)
            if seeds != self.params.papers[paper].seeds:
                raise SystemExit(
                    f"params.yaml: scales.{runs[0].scale}.one_process: got true, expected false with so many "
                    f"seeds, as {runs[0].group} takes the seeds {seeds} alone"
                )

    @staticmethod
    def collect_seldom() -> None:
        """Look for garbage less often: a graph of thousands of jobs is in use, and large to look through."""
        gc.set_threshold(*COLLECT_AFTER)

    @staticmethod
    def share_process() -> None:
        """Let the jobs share one process that has imported torch; see ``fedcore.warm``."""
        warm.share()

    @staticmethod
    def schedule_on_events(snakemake: Any) -> None:
        """Let Snakemake look for ready jobs when a job ends, and at no other time.

        Its limit on the jobs of a second starts a timer at each look, and each timer ends in another look:
        after some hundred jobs, the looking takes a processor of its own.

        Args:
            snakemake: its workflow, once that has a scheduler.
        """
        snakemake.scheduler.job_rate_limiter = None

    @staticmethod
    def say_what_now() -> None:
        """Say where to look after a job has failed."""
        print(WHAT_NOW, file=sys.stderr)

    def adopt(self, main: bool) -> None:
        """Let hashes decide about files that came from elsewhere; see ``pipeline.adopt``."""
        from pipeline.adopt import adopt, unrecorded

        if main and Path(RESULTS).is_dir() and unrecorded():
            adopted = adopt(self.catalogue)
            if adopted.believed or adopted.stale:
                print(adopted, file=sys.stderr)

    def reports_of(self, paper: str) -> list[str]:
        """Return the files of a paper's targets below reports/; tables as PDF where there is a TeX."""
        table_files = (*TABLE_FILES, "pdf") if shutil.which("pdflatex") else TABLE_FILES
        return [
            f"{paper}/{name}.{ending}"
            for name, target in self.catalogue.papers[paper].targets.items()
            for ending in (table_files if isinstance(target, Table | Listing) else FIGURE_FILES)
        ]

    def all_of(self, paper: str) -> list[str]:
        """Return the paths of a paper's reports, and of its numbers for DVC."""
        return [*(f"reports/{path}" for path in self.reports_of(paper)), f"reports/{paper}/{metrics.FILE}"]

    @asked
    def tables_of(self, wildcards: Any) -> list[str]:
        """Return the numbers of a paper's tables."""
        paper = wildcards.paper
        tables = (name for name, t in self.catalogue.papers[paper].targets.items() if isinstance(t, Table))
        return [f"reports/{paper}/{name}.csv" for name in tables]

    def all(self) -> list[str]:
        """Return the paths of all papers' reports, and of the primary paper's copies at the top."""
        own = [path for paper in self.catalogue.papers for path in self.all_of(paper)]
        return own + [
            f"reports/{path.removeprefix(f'{self.primary}/')}" for path in self.reports_of(self.primary)
        ]

    def numbers(self) -> list[str]:
        """Return the numbers of all papers' reports, which the fidelity board compares."""
        own = [path for paper in self.catalogue.papers for path in self.all_of(paper)]
        return [path for path in own if path.endswith(".csv")]

    @asked
    def board_plan(self, wildcards: Any) -> str:
        """Return what the fidelity board is a function of besides our numbers, as a hash."""
        del wildcards
        return board_plan()

    @asked
    def unknown(self, wildcards: Any) -> list[str]:
        """Refuse a report that doesn't exist, listing those that do."""
        known = ", ".join(self.catalogue.names())
        raise SystemExit(
            f"reports/{wildcards.report}: no such report; known (as csv, md, html, tex, pdf): {known}"
        )

    @asked
    def summaries(self, wildcards: Any) -> list[str]:
        """Return the summaries, or the statistics of partitions, that a table or figure is made of."""
        target = self.catalogue.target(wildcards.paper, self._target(wildcards))
        runs = self._needed(wildcards)
        if target.needs == "partitions":
            return [f"{run.partition}/stats.json" for run in runs]
        return [f"{run.folder}/summary.json" for run in runs]

    @asked
    def histories(self, wildcards: Any) -> list[str]:
        """Return the histories that a figure is made of."""
        target = self.catalogue.target(wildcards.paper, self._target(wildcards))
        runs = self._needed(wildcards) if target.needs == "runs" else []
        return [f"{run.folder}/history.csv" for run in runs]

    @asked
    def plan(self, wildcards: Any) -> str:
        """Return what a report is a function of: its runs and its code, as a hash."""
        return self.catalogue.plan(wildcards.paper, self._target(wildcards))

    @asked
    def data(self, wildcards: Any) -> list[str]:
        """Return the marker of fetched data that a partition needs; none for data in the repository."""
        section = self._division(wildcards).spec["data"]
        edition = section.get("edition", "demo")
        return [] if edition == "demo" else [f"data/fetched/{section['name']}-{edition}.done"]

    @asked
    def data_set(self, wildcards: Any) -> str:
        """Return a data set and edition as arguments of ``fedcore data fetch``."""
        name, _, edition = wildcards.fetched.rpartition("-")
        return f"{name} --edition {edition}"

    @property
    def mirror(self) -> str:
        """The mirror of data files as an option of ``fedcore``; empty if there is none."""
        mirror = self.params.mirror or os.environ.get("FEDCORE_MIRROR")
        return f"--mirror {shlex.quote(mirror)}" if mirror else ""

    def all_data(self) -> list[str]:
        """Return the markers of all data that have to be fetched at this scale."""
        return [
            f"data/fetched/{name}.done"
            for name in self.catalogue.data
            if not name.endswith(("-demo", "-given"))
        ]

    @asked
    def division(self, wildcards: Any) -> Order:
        """Return the specification that a partition is made by."""
        division = self._division(wildcards)
        return self._order(division.spec, division.folder.replace("/partitions/", "/", 1), "partitions")

    @asked
    def division_code(self, wildcards: Any) -> str:
        """Return the hash of the code that makes a partition."""
        return self._division(wildcards).code

    @asked
    def partition(self, wildcards: Any) -> str:
        """Return the partition file of a run."""
        return f"{self._run(wildcards).partition}/partition.npz"

    @asked
    def partitions(self, wildcards: Any) -> list[str]:
        """Return the partition files of all seeds of a setting."""
        return [f"{run.partition}/partition.npz" for run in self._group(wildcards)]

    @asked
    def weights(self, wildcards: Any) -> list[str]:
        """Return the marker of fetched weights that a run's model starts from; none for most models."""
        found = weights(self._group(wildcards)[0])
        return [f"data/fetched/{found['name']}-{found['edition']}.done"] if found else []

    @asked
    def order(self, wildcards: Any) -> Order:
        """Return the order for one run."""
        run = self._run(wildcards)
        return self._order([run.order()], run.folder, "train")

    @asked
    def orders(self, wildcards: Any) -> Order:
        """Return the orders for all seeds of a setting and algorithm."""
        runs = self._group(wildcards)
        return self._order([run.order() for run in runs], runs[0].group, "train")

    @asked
    def minutes(self, wildcards: Any, attempt: int) -> int:
        """Return the time to ask a cluster for; twice as much at each further attempt."""
        return self._cost(wildcards).minutes(attempt)

    @asked
    def megabytes(self, wildcards: Any, attempt: int) -> int:
        """Return the memory to ask a cluster for; half as much again at each further attempt."""
        return self._cost(wildcards).megabytes(attempt)

    @asked
    def gpu_percent(self, wildcards: Any) -> int:
        """Return the share of a GPU that a job takes: runs of small gradient steps leave room for others."""
        return SMALL_PERCENT if self._cost(wildcards).small else 100

    @asked
    def batch(self, wildcards: Any) -> str | None:
        """Return the group of jobs that a cluster gets together: those that take little time."""
        return "short" if self._cost(wildcards).seconds < SHORT_SECONDS else None

    def _cost(self, wildcards: Any) -> Cost:
        runs = [self._run(wildcards)] if wildcards.get("seed") else self._group(wildcards)
        job = runs[0].folder if wildcards.get("seed") else runs[0].group
        if job not in self._costs:
            self._costs[job] = cost_of(runs)
        return self._costs[job]

    def _order(self, told: Any, folder: str, rule: str) -> Order:
        order = Order(canonical_json(told))
        order.path = Path("logs", rule, f"{Path(folder).relative_to(RESULTS)}.order.json")
        order.pretended = self.dry_run()
        return order

    def _needed(self, wildcards: Any) -> list[Run]:
        return self.catalogue.needed(wildcards.paper, self._target(wildcards))

    def _target(self, wildcards: Any) -> str:
        name = wildcards.get("table") or wildcards.get("figure")
        if name not in self.catalogue.papers[wildcards.paper].targets:
            wildcards.report = f"{wildcards.paper}/{name}"
            self.unknown(wildcards)
        return str(name)

    def _group(self, wildcards: Any) -> list[Run]:
        return self._known(self.catalogue.groups, self._folder(wildcards))

    def _run(self, wildcards: Any) -> Run:
        return self._known(self.catalogue.index, f"{self._folder(wildcards)}/seed{wildcards.seed}")

    def _division(self, wildcards: Any) -> Division:
        folder = Path("results", wildcards.paper, wildcards.scale, "partitions", wildcards.division)
        return self._known(self.catalogue.divisions, f"{folder}/seed{wildcards.seed}")

    @staticmethod
    def _folder(wildcards: Any) -> str:
        return str(Path("results", wildcards.paper, wildcards.scale, wildcards.setting, wildcards.method))

    @staticmethod
    def _known(found: Mapping[str, Any], folder: str) -> Any:
        if folder not in found:
            raise SystemExit(f"{folder}: no such run in params.yaml; it may belong to other parameters")
        return found[folder]
