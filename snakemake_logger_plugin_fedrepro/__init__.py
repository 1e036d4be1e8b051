"""Snakemake's logger of this project: one line per finished job in place of ten per event.

Snakemake finds it by its module's name, and profiles/default names it. Its own messages stay whole in its log
file; ``--verbose`` and ``--printshellcmds`` print them. The module imports nothing of the project: Snakemake
imports it before the Snakefile says where the project is. ``pipeline.workflow.answers`` gives it the words.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from logging import WARNING, LogRecord
from pathlib import Path
from typing import Any

from rich.console import Console
from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

NOISE = re.compile(
    r"host: |Building DAG|Assuming unrestricted|Using shell|Select jobs|Execute \d|Touching|Removing temp"
    r"|Group jobs: inactive|(Conda|Singularity|Apptainer).*ignored|Updating checkpoint"
    r"|Elapsed time|Exiting because a job|Storing|Rules with provenance|Some jobs were triggered"
)
SAID = re.compile(r"RuleException:\s+CalledProcessError|Cannot restore .*no backup|Will exit after finishing")
EARLY = 0.02


@dataclass(frozen=True)
class Words:
    """How jobs, times and text of logs are written.

    Attributes:
        name: a rule and its wildcards in the words of the papers.
        seconds: a guess of how long the job takes, to compare jobs.
        duration: seconds as text.
        plain: text without control characters.
    """

    name: Callable[[str, Mapping[str, str]], str] = lambda rule, wildcards: rule
    seconds: Callable[[str, Mapping[str, str]], float] = lambda rule, wildcards: 1.0
    duration: Callable[[float], str] = lambda seconds: f"{seconds:.0f} s"
    plain: Callable[[str], str] = repr


@dataclass
class Begun:
    """A job that was announced: its name, guessed seconds, log files, and when it began."""

    name: str
    seconds: float
    logs: tuple[str, ...]
    since: float


@dataclass
class Tally:
    """What is done of what is asked for, in jobs and in guessed seconds."""

    total: int = 0
    work: float = 0.0
    finished: int = 0
    finished_work: float = 0.0
    begun: dict[int, Begun] = field(default_factory=dict)
    since: float = 0.0

    def finish(self, job: Begun) -> float:
        """Count a job, and return how many seconds the others take if they go on alike; 0 if unknown."""
        self.finished += 1
        self.finished_work += job.seconds
        share = self.finished_work / self.work if self.work else 0.0
        if share < EARLY or self.finished >= self.total:
            return 0.0
        return (time.monotonic() - self.since) * (1 - share) / share


class LogHandler(LogHandlerBase):
    """Prints a line for each job that ends, warnings and errors whole, and little else."""

    words = Words()
    asked: tuple[int, float] = (0, 0.0)

    def __post_init__(self) -> None:
        settings = self.common_settings
        stream = sys.stdout if settings.stdout else sys.stderr
        self.console = Console(
            file=stream, highlight=False, no_color=settings.nocolor or None, soft_wrap=True
        )
        theirs = DefaultFilter(
            settings.quiet, settings.debug_dag, settings.verbose, settings.dryrun, settings.printshellcmds
        )
        # --quiet hides neither that a job failed nor, from this handler, what the job's name is
        needed = {
            LogEvent.JOB_ERROR,
            LogEvent.GROUP_ERROR,
            *(() if settings.dryrun else (LogEvent.JOB_INFO,)),
        }
        self.addFilter(lambda record: getattr(record, "event", None) in needed or theirs.filter(record))
        self.tally = Tally(since=time.monotonic())
        self.whole = ColorizingTextHandler(
            settings.nocolor, stream, DefaultFormatter(settings.quiet, settings.show_failed_logs)
        )

    @property
    def writes_to_stream(self) -> bool:
        """It takes the place of Snakemake's own lines."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Snakemake's file is its own."""
        return False

    @property
    def has_filter(self) -> bool:
        """Its filter is Snakemake's own but for failures, which ``--quiet`` would hide."""
        return True

    @property
    def has_formatter(self) -> bool:
        """It formats by itself."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """It draws nothing."""
        return False

    def emit(self, record: LogRecord) -> None:
        """Print what a record says to a person."""
        try:
            if self.common_settings.verbose or self.common_settings.printshellcmds:
                self.whole.emit(record)
            else:
                self._tell(record)
        except Exception:
            self.handleError(record)

    def _tell(self, record: LogRecord) -> None:
        about = record.__dict__
        match getattr(record, "event", None):
            case LogEvent.JOB_INFO:
                self._announce(about)
            case LogEvent.JOB_STARTED:
                for number in self.tally.begun.keys() & set(about["jobs"]):
                    self.tally.begun[number].since = time.monotonic()
            case LogEvent.JOB_FINISHED:
                self._finish(about["job_id"])
            case LogEvent.JOB_ERROR:
                self._fail(about)
            case LogEvent.GROUP_ERROR:
                for job in about["job_error_info"]:
                    self._fail(job)
            case LogEvent.RUN_INFO if self.common_settings.dryrun and not self.tally.total:
                self.tally.total = about["stats"]["total"]
                self._print(record.getMessage())
            case LogEvent.ERROR | None:
                self._pass_on(record)

    def _pass_on(self, record: LogRecord) -> None:
        """Print a message that is about no job, unless it says what nobody asked for."""
        text = record.getMessage().strip()
        if not text or text == "None" or SAID.match(text):
            return
        if record.levelno >= WARNING or not NOISE.match(text):
            self._print(
                text, {WARNING: "yellow"}.get(record.levelno, "red" if record.levelno > WARNING else "")
            )

    def _print(self, text: str, style: str = "") -> None:
        self.console.print(text, markup=False, style=style or None)

    def _announce(self, about: Mapping[str, Any]) -> None:
        rule, wildcards = about["rule_name"], dict(about["wildcards"] or {})
        name, seconds = (
            self.words.plain(self.words.name(rule, wildcards)),
            self.words.seconds(rule, wildcards),
        )
        self.tally.begun[about["jobid"]] = Begun(name, seconds, tuple(about["log"] or ()), time.monotonic())
        if self.common_settings.dryrun:
            self._print(f"  {name}")

    def _finish(self, number: int) -> None:
        self.tally.total, self.tally.work = self.asked
        job = self.tally.begun.pop(number, Begun(f"job {number}", 1.0, (), time.monotonic()))
        left = self.tally.finish(job)
        width = len(str(self.tally.total))
        times = self.words.duration(time.monotonic() - job.since)
        if left > 0:
            times += f", about {self.words.duration(left)} left"
        self._print(f"{self.tally.finished:{width}}/{self.tally.total}  {job.name}  ({times})")

    def _fail(self, about: Mapping[str, Any]) -> None:
        job = self.tally.begun.get(about["jobid"])
        files = [path for path in about["log"] if path.endswith(".log")]
        reason = next(filter(None, map(_last_line, files)), "its log says nothing")
        where = f"; log: {files[0]}" if files else ""
        self._print(
            f"failed: {job.name if job else about['rule_name']}: {self.words.plain(reason)}{where}", "red"
        )


def _last_line(path: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
