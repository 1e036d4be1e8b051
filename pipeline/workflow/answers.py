"""What the Snakefile asks: functions of wildcards over one catalogue. Rules hold no logic."""

import atexit
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from snakemake_interface_storage_plugins.io import Mtime

from fedcore.base import MIRROR, core_yaml
from fedcore.base.errors import CREDENTIALS, SpecError, plain, say
from fedcore.base.files import canonical_json, digest, sha256_file, walked, write_text
from fedcore.execution.integrity import HISTORY, PARTITION, PROVENANCE, SPEC, STATISTICS, SUMMARY, TIMING
from pipeline.catalogue import WEIGHTS, Planned, codehash, weights
from pipeline.catalogue.params import (
    EDITIONS,
    STUDY,
    StudyError,
    configuration,
    laid_over,
    overlay,
    with_studies,
)
from pipeline.catalogue.targets import RESULTS, PlannedPartition, PlannedRun, Sources
from pipeline.claims.ledger import PAPERS
from pipeline.papers import build_catalogue
from pipeline.reports.kept import REFERENCE, RUNS, line_of
from pipeline.workflow import messages
from pipeline.workflow.adopt import Decision, apply, inspect, leave_others, recorded
from pipeline.workflow.estimate import NOTHING, Cost, Guesses, duration, guesses
from pipeline.workflow.reports import ReportFiles, one_of
from snakemake_logger_plugin_fedrepro import LogHandler, Words

GO_ON = "The same command continues from the checkpoints."
WHAT_NOW = f"""fedcore status shows what is done, and why a run failed. {GO_ON}
A table of the runs that are finished: fedcore partial reports/FOLDER/TABLE.csv
[--scale SCALE] [--overlay FILE] [--study FILE]"""
SITE = PAPERS.parent / "site"
SHOWN_BY_SITE = (
    *map(Path, ("mkdocs.yml", "docs", "README.md", "CHANGELOG.md", "SECURITY.md")),
    *(EDITIONS, REFERENCE, PAPERS.parent / "handbook" / "templates"),
)
TRAIN = ("train", "train_study")
SHORT_SECONDS = 120.0
Kept = TypeVar("Kept")
Order = dict[str, Any]


class Workflow:
    """The catalogue, with an answer to each question that a rule asks.

    An order is what a job's command is told: a parameter of its rule, so another one makes the job run
    again. ``begin`` writes it to its ``file`` beside the log, so the command can be repeated by hand.
    Snakemake's workflow says whether jobs are really done, and what is laid over params.yaml: files, read by
    our rules, and what ``--config`` changed. Without it, ``config`` is the whole configuration. A wrong one
    is SystemExit with one line.
    """

    run_files = (SPEC, HISTORY, SUMMARY, TIMING, PROVENANCE)

    def __init__(self, config: Mapping[str, Any], snakemake: Any = None) -> None:
        self.snakemake = snakemake
        self.decision: Decision | None = None
        self.main = snakemake is not None and snakemake.is_main_process
        self.records = recorded() if self.main else None
        if self.main:
            atexit.register(self._announce_dry_run)
        self.where = "params.yaml: "
        if snakemake is not None:
            files = (str(file).removeprefix(f"{Path.cwd()}/") for file in snakemake.configfiles)
            if over := [file for file in dict.fromkeys(files) if file != "params.yaml"]:
                self.where = f"params.yaml with {', '.join(over)}: "
            with _in_one_line(""):
                config = configuration(Path("params.yaml"))
                for file in over:
                    config = laid_over(config, Path(file))
            config = overlay(config, snakemake.config_settings.config)
        with _in_one_line(self.where):
            self.config = with_studies(config)
            self.catalogue = build_catalogue(self.config)
        self.params = self.catalogue.params
        self.reports = ReportFiles(self.catalogue)
        one_process = self.params.one_process
        self.job = "{paper}/{scale}/{setting}/{method}" + ("" if one_process else "/seed{seed}")
        self.seeds = next(iter(self.params.papers.values())).seeds if one_process else ("{seed}",)
        self.papers = one_of(self.catalogue.papers)
        self.scales = one_of({self.params.scale, STUDY})
        targets = [*self.catalogue.targets()]
        self.tables = one_of({name for _, name, target in targets if not target.drawn})
        self.figures = one_of({name for _, name, target in targets if target.drawn})
        datasets = (dataset for paper in self.params.papers.values() for dataset in paper.datasets.values())
        fetched = one_of({*(dataset.data.name for dataset in datasets), *WEIGHTS.values()})
        self.fetched = rf"({fetched})-(?!demo\b)[a-z0-9_]+"
        LogHandler.words = Words(self._named, self._seconds, duration, plain)

    def begin(self) -> None:
        """Set aside what is not believed, write the orders of jobs, and guess how long they take."""
        # Snakemake's limit on jobs per second starts a timer at each look for ready jobs, and a timer ends in
        # another look: after some hundred jobs, that takes a processor. No option turns the limit off.
        self.snakemake.scheduler.job_rate_limiter = None
        leave_others(self.snakemake.persistence)
        if self.decision is not None and (moved := apply(self.decision)):
            say(moved, error=True)
        jobs = self._jobs()
        # Without the mirror, whose address may hold a password.
        merged = core_yaml.to_yaml({**self.config, "data": {}})
        for order in filter(None, (job.params.get("order") for job in jobs)):
            text = canonical_json(order["told"]) if "told" in order else merged
            write_text(Path(order["file"]), f"{text}\n")
        with _in_one_line(self.where):  # times follow results that are here, of any study
            LogHandler.asked = (
                len(jobs),
                sum(self._seconds(job.rule.name, job.wildcards_dict) for job in jobs),
            )
        self._say_how_long()

    def say_what_now(self) -> None:
        """Say where to look after a job has failed, and how to go on."""
        scheduler = self.snakemake.scheduler
        ended = scheduler is not None and scheduler._user_kill and not scheduler.failed
        print(GO_ON if ended else WHAT_NOW, file=sys.stderr)

    def show_reports(self) -> None:
        """Say where the reports are that were asked for, and what they mean."""
        paths = (path for path in self.snakemake.dag.derived_targetfiles if path.startswith("reports/"))
        messages.show(self.catalogue, paths, Console(stderr=True, highlight=False))

    def _jobs(self) -> list[Any]:
        return list(self.snakemake.dag.needrun_jobs(exclude_finished=False))

    def _say_how_long(self) -> None:
        jobs = [job for job in self._jobs() if job.rule.name in TRAIN]
        if jobs:
            cost = sum((self.cost(job.wildcards_dict) for job in jobs), NOTHING)
            say(f"{len(jobs)} jobs train for about {cost} on one core; see `fedcore cost`", error=True)

    def _announce_dry_run(self) -> None:
        if self.snakemake.dryrun and self.snakemake.dag is not None:
            self._say_how_long()

    def _plan_by_hashes(self) -> None:
        """Let hashes decide about files that came from elsewhere, and let Snakemake plan accordingly.

        Questions for input files call it, so it comes before Snakemake compares times. Nothing changes but
        its plan, so that a dry run and a real run have the same one: believed files count as up to date, and
        what makes the others has to be done.
        """
        if self.records is None or self.decision is not None or self.snakemake.touch:
            return
        with _in_one_line(self.where):
            self.decision = inspect(self.catalogue, records=self.records)
        # The documented way, `--touch`, changes the files.
        judged = (self.decision.believed, self.decision.stale)
        believed, stale = ([str(path) for path in chain.from_iterable(files.values())] for files in judged)
        # Partitions, whose inputs' times don't count, are older than runs that Snakemake made of them.
        old, now = Mtime(local=1.0), Mtime(local=time.time())
        times = {path: old if "/partitions/" in path else now for path in believed}
        self.snakemake.iocache.mtime.update(times)
        self.snakemake.dag.forcefiles.update(stale)
        if stale or (believed and not self.records):
            later = "; they are set aside once work begins" if stale else ""
            say(f"{self.decision}{later}", error=True)

    @property
    def environment(self) -> str | Callable[[Any], str]:
        """The environment of jobs for conda. Snakemake formats the path, so braces in it are doubled."""
        path = str(Path(__file__).parents[1] / "rules" / "envs" / "fedrepro.yaml")
        doubled = path.replace("{", "{{").replace("}", "}}")
        return path if path == doubled else lambda wildcards: doubled

    def tables_of(self, wildcards: Any) -> list[str]:
        """Return the numbers of a paper's tables."""
        self._plan_by_hashes()
        targets = self.catalogue.papers[wildcards.paper].targets.items()
        return [f"reports/{wildcards.paper}/{name}.csv" for name, target in targets if target.kind == "table"]

    @staticmethod
    def fidelity(wildcards: Any) -> Order:
        """Return the order of the board: a hash of published numbers, claims and all that shows them."""
        data = sorted(path for name in ("published.csv", "claims.yaml") for path in PAPERS.glob(f"*/{name}"))
        plan = _plan("pipeline.fidelity.board:board", "pipeline.site.board:write", files=data)
        return {"file": "logs/reports/fidelity.params.yaml", "plan": plan}

    @staticmethod
    def site(wildcards: Any) -> Order:
        """Return the order of the site: a hash of what makes it, its pages and what is kept for it."""
        paths = chain.from_iterable(map(walked, SHOWN_BY_SITE))
        beside = (path for path in sorted(PAPERS.rglob("*")) if path.suffix in {".md", ".yaml"})
        files = [*filter(Path.is_file, (Path(path) for path, _ in paths)), *beside]
        plan = _plan("pipeline.site:build", "pipeline.handbook.hooks", files=files)
        return {"file": "logs/reports/site.params.yaml", "plan": plan}

    def unknown(self, wildcards: Any) -> list[str]:
        """Refuse a file that no rule makes, with what to ask for in its place."""
        raise SystemExit(plain(self.reports.refusal(wildcards.unknown)))

    def summaries(self, wildcards: Any) -> list[str]:
        """Return the summaries, or the statistics of partitions, that a table or figure is made of.

        Reports that decide which these are come first, where they are, and the lines of kept runs last.
        """
        self._plan_by_hashes()
        sources = self._sources(wildcards)
        if sources.target.needs == "partitions":
            return [f"{run.partition}/{STATISTICS}" for run in sources.runs]
        first = (f"reports/{sources.paper}/{name}.csv" for name in sources.target.follows)
        kept = {run.folder for run in sources.runs if line_of(run, Path())}
        runs = [f"{run.folder}/{SUMMARY}" for run in sources.runs if run.folder not in kept]
        lines = [f"{REFERENCE}/{sources.paper}/{RUNS}"] if kept else []
        return [*(name for name in first if Path(name).exists()), *runs, *lines]

    def histories(self, wildcards: Any) -> list[str]:
        """Return the histories that a figure is made of."""
        sources = self._sources(wildcards)
        return [f"{run.folder}/{HISTORY}" for run in sources.trained if line_of(run, Path()) is None]

    def report(self, wildcards: Any) -> Order:
        """Return the order of a report: a function of its runs and its code, as a hash."""
        sources = self._sources(wildcards)
        return {"file": f"logs/reports/{sources.paper}/{sources.name}.params.yaml", "plan": sources.plan}

    def data(self, wildcards: Any) -> list[str]:
        """Return the marker of fetched data that a partition needs; none for data in the repository."""
        self._plan_by_hashes()
        return _markers(self._partition(wildcards).spec["data"])

    @staticmethod
    def data_set(wildcards: Any) -> str:
        """Return a data set and edition as arguments of ``fedcore data fetch``."""
        name, _, edition = wildcards.fetched.rpartition("-")
        return f"{name} --edition {edition}"

    @property
    def mirror(self) -> str:
        """The mirror of data files as an option of ``fedcore``; empty if there is none.

        An address with a password is left to the environment, since Snakemake shows and logs commands.
        """
        mirror = self.params.mirror or os.environ.get(MIRROR, "")
        if CREDENTIALS.search(mirror):
            os.environ[MIRROR], mirror = mirror, ""
        return f"--mirror {shlex.quote(mirror)}" if mirror else ""

    def all_data(self, wildcards: Any) -> list[str]:
        """Return the markers of all data that have to be fetched at this scale."""
        for paper in self.catalogue.papers:
            self._planned(paper)
        return [*chain.from_iterable(map(_markers, self.catalogue.data.values()))]

    def division(self, wildcards: Any) -> Order:
        """Return the order of a partition."""
        partition = self._partition(wildcards)
        return _order("partitions", partition.folder.replace("/partitions/", "/", 1), partition.spec)

    def division_code(self, wildcards: Any) -> str:
        """Return the hash of the code that makes a partition."""
        return self._partition(wildcards).code

    def partitions(self, wildcards: Any) -> list[str]:
        """Return the partition files of a job's runs."""
        self._plan_by_hashes()
        return [f"{run.partition}/{PARTITION}" for run in self._runs(wildcards)]

    def weights(self, wildcards: Any) -> list[str]:
        """Return the marker of fetched weights that a run's model starts from; none for most models."""
        return _markers(weights(self._runs(wildcards)[0]) or {})

    def order(self, wildcards: Any) -> Order:
        """Return the order of a job's runs."""
        runs = self._runs(wildcards)
        folder = runs[0].folder if wildcards.get("seed") else runs[0].group
        return _order("train", folder, [run.order() for run in runs])

    def cost(self, wildcards: Any) -> Cost:
        """Return the cost of a job's runs, one after the other."""
        return sum(map(self._guess, self._runs(wildcards)), NOTHING)

    def batch(self, wildcards: Any) -> str | None:
        """Return the group of jobs that a cluster gets together: those that take little time."""
        return "short" if self.cost(wildcards).seconds < SHORT_SECONDS else None

    def _named(self, rule: str, wildcards: Mapping[str, str]) -> str:
        """Return what a job does; where it trains with several seeds, with all of them."""
        name = messages.job_name(self.catalogue, rule, wildcards)
        if rule not in TRAIN or "seed" in wildcards:
            return name
        return f"{name}, seed{'s' if len(self.seeds) > 1 else ''} {', '.join(map(str, self.seeds))}"

    def _seconds(self, rule: str, wildcards: Mapping[str, str]) -> float:
        return self.cost(wildcards).seconds if rule in TRAIN else 1.0

    @cached_property
    def _guess(self) -> Guesses:
        return guesses(self.catalogue)

    def _planned(self, paper: str) -> Planned:
        """Return what a paper needs, with every specification checked before any of its jobs runs."""
        if self.main and not self.snakemake.dryrun:
            leave_others(self.snakemake.persistence)
        with _in_one_line(self.where):
            return self.catalogue.planned(paper)

    def _sources(self, wildcards: Any) -> Sources:
        """Return what a report is made of.

        One process for all seeds is refused if a search among it trains only the first seed.
        """
        paper = wildcards.paper
        groups = self._planned(paper).groups
        with _in_one_line(""):
            sources = self.catalogue.sources(paper, wildcards.get("table") or wildcards.get("figure"))
        if not self.params.one_process or self.catalogue.papers[paper].is_study:
            return sources
        for run in sources.trained:
            seeds = tuple(other.seed for other in groups[run.group])
            if seeds != self.params.papers[paper].seeds:
                raise SystemExit(
                    f"params.yaml: scales.{run.scale}.one_process: got true, expected false with so many "
                    f"seeds, as {run.group} takes the seeds {seeds} alone"
                )
        return sources

    def _runs(self, wildcards: Any) -> list[PlannedRun]:
        """Return the runs of a job: one, or those of all seeds."""
        parts = [wildcards.get(name) for name in ("paper", "scale", "setting", "method")]
        group = "/".join((RESULTS, *parts))
        runs, groups, _ = self._planned(parts[0])
        if seed := wildcards.get("seed"):
            return [_known(runs, f"{group}/seed{seed}")]
        return _known(groups, group)

    def _partition(self, wildcards: Any) -> PlannedPartition:
        folder = f"{RESULTS}/{wildcards.paper}/{wildcards.scale}/partitions/{wildcards.division}"
        return _known(self._planned(wildcards.paper).partitions, f"{folder}/seed{wildcards.seed}")


@contextmanager
def _in_one_line(file: str) -> Iterator[None]:
    """Let an error of the configuration end Snakemake with one line, which names the file."""
    try:
        yield
    except SpecError as error:
        raise SystemExit(f"{'' if isinstance(error, StudyError) else file}{error}") from None


def _plan(*code: str, files: Iterable[Path]) -> str:
    """Return a hash of code, of files and of the looks of pages."""
    looks = sorted(path for name in ("assets", "templates") for path in (SITE / name).iterdir())
    return digest([codehash.of_code(*code), [sha256_file(path) for path in (*files, *looks)]])[:16]


def _order(rule: str, folder: str, content: Any) -> Order:
    return {"file": f"logs/{rule}/{folder.removeprefix(f'{RESULTS}/')}.order.json", "told": content}


def _markers(section: Mapping[str, Any]) -> list[str]:
    """Return the marker of the data that a section names, if they have to be fetched."""
    edition = section.get("edition", "demo")
    return [] if edition == "demo" else [f"data/fetched/{section['name']}-{edition}.done"]


def _known(by_folder: Mapping[str, Kept], folder: str) -> Kept:
    if folder not in by_folder:
        raise SystemExit(plain(f"{folder}: no such run in params.yaml; it may belong to other parameters"))
    return by_folder[folder]
