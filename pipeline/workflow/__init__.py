"""What the Snakefile asks: functions of wildcards over one catalogue. Rules hold no logic."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial, wraps
from inspect import signature
from itertools import chain
from pathlib import Path
from types import MethodType
from typing import Any, TypeVar, cast

import yaml
from rich.console import Console
from snakemake_interface_storage_plugins.io import Mtime
from snakemake_logger_plugin_fedrepro import LogHandler, Words

from fedcore.base import core_yaml
from fedcore.base.errors import CREDENTIALS, SpecError, plain, say
from fedcore.base.files import canonical_json
from fedcore.execution import forkserver
from pipeline.catalogue import weights
from pipeline.catalogue.targets import RESULTS, PartitionJob, PlannedRun
from pipeline.fidelity import board_plan
from pipeline.papers import build_catalogue
from pipeline.workflow import dvc, messages
from pipeline.workflow.adopt import Decision, apply, inspect, unrecorded
from pipeline.workflow.estimate import Cost, duration
from pipeline.workflow.jobs import RUN_FILES, JobSpec, cost_of

WHAT_NOW = """fedcore status shows what failed, and why. The same command continues from the checkpoints.
A table of the runs that are finished: fedcore partial reports/PAPER/TABLE.csv"""
SHORT_SECONDS = 120.0
SMALL_PERCENT = 25
COLLECT_AFTER = (200_000, 50, 100)
Asked = TypeVar("Asked", bound=Callable[..., Any])
Kept = TypeVar("Kept")


def one_of(names: Iterable[str]) -> str:
    """Return a wildcard constraint that matches these names and nothing else."""
    return "|".join(map(re.escape, sorted(names))) or r"(?!)"


def asked(method: Asked) -> Asked:
    """Let Snakemake, which looks up a function's parameters each time that it calls it, find them at once."""

    def bound(flow: Workflow) -> Callable[..., Any]:
        @wraps(method)
        def answer(*given: Any, **named: Any) -> Any:
            flow.foresee()
            return method(flow, *given, **named)

        answer.__signature__ = signature(MethodType(method, flow))  # type: ignore[attr-defined]
        return answer

    return cast(Asked, cached_property(bound))


class Workflow:
    """The catalogue, with an answer to each question that a rule asks.

    Args:
        config: the merged configuration: params.yaml and what ``--config`` changed.
        snakemake: its workflow, which says whether jobs are really done, and which files the configuration
            comes from; these are held to stricter rules than Snakemake's.

    Raises:
        SystemExit: the configuration is wrong; the message is one line.
    """

    def __init__(self, config: Mapping[str, Any], snakemake: Any = None) -> None:
        self.config = config
        self.snakemake = snakemake
        self.decision: Decision | None = None
        main = snakemake is not None and snakemake.is_main_process
        self.unrecorded = main and unrecorded()
        if main:
            atexit.register(self._foretell)
        try:
            for file in snakemake.configfiles if main else ():
                core_yaml.read(Path(file), "configuration")
        except SpecError as error:
            raise SystemExit(str(error)) from None
        try:
            self.catalogue = build_catalogue(config)
            self.catalogue.index  # noqa: B018 - every specification is checked before anything runs
        except SpecError as error:
            raise SystemExit(f"params.yaml: {error}") from None
        self.params = self.catalogue.params
        self._refuse_lone_seeds()
        self.primary = self.params.primary
        self.run_files = RUN_FILES
        self.seeds = next(iter(self.params.papers.values())).seeds
        self.papers = one_of(self.catalogue.papers)
        named = [own for about in self.catalogue.papers.values() for own in about.targets.items()]
        self.tables = one_of({name for name, target in named if not target.drawn})
        self.figures = one_of({name for name, target in named if target.drawn})
        self.fetched = one_of(name for name in self.catalogue.data if not name.endswith("-demo"))
        self.top = one_of(path.removeprefix(f"{self.primary}/") for path in self.reports_of(self.primary))
        self._costs: dict[str, Cost] = {}
        LogHandler.words = Words(
            partial(messages.job_name, self.catalogue),
            lambda rule, wildcards: self._cost(wildcards).seconds if rule == "train" else 1.0,
            duration,
            plain,
        )
        self.train_rules = "train_seeds.smk" if self.params.one_process else "train.smk"

    def _refuse_lone_seeds(self) -> None:
        """Refuse one process for all seeds if a search trains only the first seed."""
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
        """Let the jobs share one process that has imported torch; see ``fedcore.execution.forkserver``."""
        forkserver.share()

    def schedule_on_events(self) -> None:
        """Let Snakemake look for ready jobs when a job ends, and at no other time.

        Its limit on the jobs of a second starts a timer at each look, and each timer ends in another look:
        after some hundred jobs, the looking takes a processor of its own.
        """
        self.snakemake.scheduler.job_rate_limiter = None

    @staticmethod
    def say_what_now() -> None:
        """Say where to look after a job has failed."""
        print(WHAT_NOW, file=sys.stderr)

    def real(self) -> bool:
        """Whether Snakemake does jobs, and doesn't only list or count them."""
        return bool(self.snakemake and self.snakemake.executor_plugin and not self.snakemake.dryrun)

    def foresee(self) -> None:
        """Let hashes decide about files that came from elsewhere, and let Snakemake plan accordingly.

        It is called while jobs are made, before Snakemake compares times. Nothing changes but its plan, so
        that a dry run and a real run have the same one: believed files count as made now, and what makes the
        others has to be done.
        """
        if not self.unrecorded or self.decision is not None or self.snakemake.touch:
            return
        self.decision = inspect(self.catalogue)
        now = Mtime(local=time.time())
        for path in chain.from_iterable(self.decision.believed.values()):
            self.snakemake.iocache.mtime[path.as_posix()] = now
        self.snakemake.dag.forcefiles.update(
            path.as_posix() for path in chain.from_iterable(self.decision.stale.values())
        )
        if self.decision.believed or self.decision.stale:
            later = "; they are set aside once work begins" if self.decision.stale else ""
            say(f"{self.decision}{later}", error=True)

    def begin(self) -> None:
        """Apply the plan now that the work begins, and estimate how long it takes."""
        if self.decision is not None and (moved := apply(self.decision)):
            say(moved, error=True)
        jobs = list(self.snakemake.dag.needrun_jobs(exclude_finished=False))
        seconds = (LogHandler.words.seconds(job.rule.name, job.wildcards_dict) for job in jobs)
        LogHandler.asked = (len(jobs), sum(seconds))
        self.say_how_long()

    def show_reports(self) -> None:
        """Say where the reports are that were asked for, and what they mean."""
        asked = (path for path in self.snakemake.dag.derived_targetfiles if path.startswith("reports/"))
        messages.show(self.catalogue, asked, Console(stderr=True))

    def say_how_long(self) -> None:
        """Say about how long the runs take that are to be done, if there are any."""
        jobs = [
            job for job in self.snakemake.dag.needrun_jobs(exclude_finished=False) if job.rule.name == "train"
        ]
        seconds = sum(self._cost(job.wildcards_dict).seconds for job in jobs)
        if jobs:
            say(
                f"{len(jobs)} jobs train for about {duration(seconds)} on one core in all, by a guess that is"
                " often wrong by a factor of 2; `runtime` is in minutes, with a margin",
                error=True,
            )

    def _foretell(self) -> None:
        if self.snakemake.dryrun and self.snakemake.dag is not None:
            self.say_how_long()

    def reports_of(self, paper: str) -> list[str]:
        """Return the files of a paper's targets below reports/; tables as PDF where there is a TeX."""
        printed = ("pdf",) if shutil.which("pdflatex") else ()
        return [
            f"{paper}/{name}.{ending}"
            for name, target in self.catalogue.papers[paper].targets.items()
            for ending in (*target.files, *(() if target.drawn else printed))
        ]

    @property
    def environment(self) -> str | Callable[[Any], str]:
        """The environment of jobs for conda. Snakemake formats the path, so braces in it are doubled."""
        path = str(Path(__file__).parents[1] / "rules" / "envs" / "fedrepro.yaml")
        doubled = path.replace("{", "{{").replace("}", "}}")
        return path if path == doubled else lambda wildcards: doubled

    @cached_property
    def named(self) -> Mapping[str, list[str]]:
        """The files of each paper, and of each report, by the name that stands for all of them."""
        found = {f"reports/{paper}": self.all_of(paper) for paper in self.catalogue.papers}
        for paper in self.catalogue.papers:
            for path in self.reports_of(paper):
                name, _, ending = path.partition(".")
                found.setdefault(f"reports/{name}", []).append(f"reports/{path}")
                if paper == self.primary:
                    top = name.removeprefix(f"{paper}/")
                    found.setdefault(f"reports/{top}", []).append(f"reports/{top}.{ending}")
        return found

    @property
    def known(self) -> str:
        """The files below reports/ that a rule can make, as a wildcard constraint."""
        own = (path.removeprefix("reports/") for files in self.named.values() for path in files)
        beside = (f"{name}.{form}" for name in self.catalogue.names() for form in ("pdf", "provenance.json"))
        return one_of({*own, *beside})

    def all_of(self, paper: str) -> list[str]:
        """Return the paths of a paper's reports, and of its numbers for DVC."""
        return [*(f"reports/{path}" for path in self.reports_of(paper)), f"reports/{paper}/{dvc.METRICS}"]

    @asked
    def tables_of(self, wildcards: Any) -> list[str]:
        """Return the numbers of a paper's tables."""
        paper = wildcards.paper
        tables = (name for name, t in self.catalogue.papers[paper].targets.items() if t.kind == "table")
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
        """Return a hash of everything besides our numbers that the fidelity board depends on."""
        del wildcards
        return board_plan()

    @asked
    def unknown(self, wildcards: Any) -> list[str]:
        """Refuse a report that doesn't exist, with the names of those that are most like it."""
        raise SystemExit(plain(self._refusal(wildcards.report)))

    def _refusal(self, report: str) -> str:
        name, dot, _ = report.partition(".")
        files = self.named.get(f"reports/{name}")
        if not files:
            return f"reports/{report}: no such report; {self.catalogue.nearest(name)}"
        if not dot:
            return f"reports/{report}: got a slash at its end, expected reports/{report}"
        return f"reports/{report}: no such form; there are {', '.join(files)}"

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
    def report(self, wildcards: Any) -> JobSpec:
        """Return the order for a report: a function of its runs and its code, as a hash."""
        paper, target = wildcards.paper, self._target(wildcards)
        path = Path("logs", "reports", paper, f"{target}.params.yaml")
        return JobSpec.of(self.catalogue.plan(paper, target), path, self.merged, self.real())

    @asked
    def site(self, wildcards: Any) -> JobSpec:
        """Return the order for the site."""
        del wildcards
        return JobSpec.of("site", Path("logs", "reports", "site.params.yaml"), self.merged, self.real())

    @cached_property
    def merged(self) -> str:
        """The configuration as YAML, without the mirror, whose address may hold a password."""
        return yaml.safe_dump({**self.config, "data": {}}, sort_keys=False)

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
        """The mirror of data files as an option of ``fedcore``; empty if there is none.

        An address with a password is left to the environment, since Snakemake shows and logs commands.
        """
        mirror = self.params.mirror or os.environ.get("FEDCORE_MIRROR", "")
        if CREDENTIALS.search(mirror):
            os.environ["FEDCORE_MIRROR"], mirror = mirror, ""
        return f"--mirror {shlex.quote(mirror)}" if mirror else ""

    def all_data(self) -> list[str]:
        """Return the markers of all data that have to be fetched at this scale."""
        return [
            f"data/fetched/{name}.done"
            for name in self.catalogue.data
            if not name.endswith(("-demo", "-given"))
        ]

    @asked
    def division(self, wildcards: Any) -> JobSpec:
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
    def order(self, wildcards: Any) -> JobSpec:
        """Return the order for one run."""
        run = self._run(wildcards)
        return self._order([run.order()], run.folder, "train")

    @asked
    def orders(self, wildcards: Any) -> JobSpec:
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

    def _order(self, told: Any, folder: str, rule: str) -> JobSpec:
        text = canonical_json(told)
        path = Path("logs", rule, f"{Path(folder).relative_to(RESULTS)}.order.json")
        return JobSpec.of(text, path, text, self.real())

    def _needed(self, wildcards: Any) -> list[PlannedRun]:
        return self.catalogue.needed(wildcards.paper, self._target(wildcards))

    def _target(self, wildcards: Any) -> str:
        name = wildcards.get("table") or wildcards.get("figure")
        if name not in self.catalogue.papers[wildcards.paper].targets:
            raise SystemExit(self._refusal(f"{wildcards.paper}/{name}"))
        return str(name)

    def _group(self, wildcards: Any) -> list[PlannedRun]:
        return self._known(self.catalogue.groups, self._folder(wildcards))

    def _run(self, wildcards: Any) -> PlannedRun:
        return self._known(self.catalogue.index, f"{self._folder(wildcards)}/seed{wildcards.get('seed')}")

    def _division(self, wildcards: Any) -> PartitionJob:
        folder = Path("results", wildcards.paper, wildcards.scale, "partitions", wildcards.division)
        return self._known(self.catalogue.divisions, f"{folder}/seed{wildcards.seed}")

    @staticmethod
    def _folder(wildcards: Any) -> str:
        own = (wildcards.get(name) for name in ("paper", "scale", "setting", "method"))
        return str(Path("results", *own))

    @staticmethod
    def _known(found: Mapping[str, Kept], folder: str) -> Kept:
        if folder not in found:
            raise SystemExit(
                plain(f"{folder}: no such run in params.yaml; it may belong to other parameters")
            )
        return found[folder]
