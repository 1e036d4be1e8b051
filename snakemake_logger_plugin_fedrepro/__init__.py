"""Snakemake's logger of this project: one line per finished job in place of ten per event.

Snakemake finds it by its module's name, and profiles/default names it. Its own messages stay whole in its log
file; ``--verbose`` and ``--printshellcmds`` print them. The module imports nothing of the project: Snakemake
imports it before the Snakefile says where the project is. ``pipeline.workflow.answers`` gives it the words.
"""

import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
NOWHERE = "\n    (check individual jobs above for details)"  # which profiles/default keeps quiet
SAID = re.compile(r"RuleException:\s+CalledProcessError|Cannot restore .*no backup")
ENDING = "Will exit after finishing"  # which Snakemake repeats for each job that ends
STOPPED = "Terminating processes on user request"
KNOWN = re.compile(r"--keep-incomplete|WorkflowError:\s+At least one job")  # to those who stopped the jobs
EARLY = 0.02
COARSE = 2.0  # seconds by which a file system may date a file before the clock's time
SILENT = "its log says nothing"


@dataclass(frozen=True)
class Words:
    """How a job is called, by rule and wildcards; a guess of its seconds; a time as text; text made plain."""

    name: Callable[[str, Mapping[str, str]], str] = lambda rule, wildcards: rule
    seconds: Callable[[str, Mapping[str, str]], float] = lambda rule, wildcards: 1.0
    duration: Callable[[float], str] = lambda seconds: f"{seconds:.0f} s"
    plain: Callable[[str], str] = repr


@dataclass
class Begun:
    """A job that was announced: its name, guessed seconds, when it began, and whether in a group."""

    name: str
    seconds: float
    since: float
    grouped: bool = False


class LogHandler(LogHandlerBase):
    """Prints a line for each job that ends, warnings and errors whole, and little else.

    It takes the place of Snakemake's own lines, and filters as they do but for failures, which ``--quiet``
    would hide; Snakemake's file is its own. ``asked`` counts the jobs that are asked for, and their guessed
    seconds.
    """

    words = Words()
    asked: tuple[int, float] = (0, 0.0)
    writes_to_stream = has_filter = has_formatter = True
    writes_to_file = needs_rulegraph = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        stream = sys.stdout if settings.stdout else sys.stderr
        no_color = settings.nocolor or None
        self.console = Console(file=stream, highlight=False, no_color=no_color, soft_wrap=True)
        theirs = DefaultFilter(
            settings.quiet, settings.debug_dag, settings.verbose, settings.dryrun, settings.printshellcmds
        )
        # --quiet hides neither that a job failed nor, from this handler, what the job's name is
        needed = {LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR}
        needed |= set() if settings.dryrun else {LogEvent.JOB_INFO}
        self.addFilter(lambda record: getattr(record, "event", None) in needed or theirs.filter(record))
        self.since, self.opened = time.monotonic(), time.time()
        self.begun: dict[int, Begun] = {}
        self.finished, self.finished_seconds, self.counted = 0, 0.0, False
        self.stopped = self.ending = False
        self.whole = ColorizingTextHandler(
            settings.nocolor, stream, DefaultFormatter(settings.quiet, settings.show_failed_logs)
        )

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
                for number in self.begun.keys() & set(about["jobs"]):
                    self.begun[number].since = time.monotonic()
            case LogEvent.JOB_FINISHED:
                self._finish(about["job_id"])
            case LogEvent.JOB_ERROR:
                self._fail(about)
            case LogEvent.GROUP_ERROR if not self.stopped:
                jobs, files = len(about["job_error_info"]), about["aux_logs"]
                reason = self.words.plain(_last_line(files[0]) or SILENT) if files else "it has no log"
                where = f"; log: {files[0]}" if files else ""
                what = f"a group of {jobs} jobs" if jobs > 1 else "a group of one job"
                self._print(f"failed: {what}: {reason}{where}", "red")
            case LogEvent.RUN_INFO if self.common_settings.dryrun and not self.counted:
                self.counted = True
                self._print(record.getMessage())
            case LogEvent.ERROR | None:
                self._pass_on(record)

    def _pass_on(self, record: LogRecord) -> None:
        """Print a message that is about no job, unless it says what nobody asked for."""
        text = record.getMessage().replace(NOWHERE, "").strip()
        self.stopped |= text.startswith(STOPPED)
        if text.startswith(ENDING):
            if not self.ending:
                self._print("asked to end: waits for the running jobs; Ctrl-C (SIGINT) stops them", "yellow")
            self.ending = True
            return
        known = (self.stopped or self.ending) and KNOWN.match(text)
        if not text or text == "None" or SAID.match(text) or known:
            return
        if record.levelno >= WARNING or not NOISE.match(text):
            style = "red" if record.levelno > WARNING else "yellow" if record.levelno == WARNING else ""
            self._print(text, style)

    def _print(self, text: str, style: str = "") -> None:
        shown = "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
        self.console.print(shown, markup=False, style=style or None)

    def _announce(self, about: Mapping[str, Any]) -> None:
        rule, wildcards = about["rule_name"], dict(about["wildcards"] or {})
        name = self.words.plain(self.words.name(rule, wildcards))
        seconds, grouped = self.words.seconds(rule, wildcards), bool(about.get("indent"))
        self.begun[about["jobid"]] = Begun(name, seconds, time.monotonic(), grouped)
        if self.common_settings.dryrun:
            self._print(f"  {name}")

    def _finish(self, number: int) -> None:
        """Print that a job is done, and how long the others take if they go on alike."""
        now, (total, seconds) = time.monotonic(), self.asked
        job = self.begun.pop(number, Begun(f"job {number}", 1.0, now))
        self.finished += 1
        self.finished_seconds += job.seconds
        times = "" if job.grouped else self.words.duration(now - job.since)
        share = self.finished_seconds / seconds if seconds else 0.0
        if self.finished == 1 and share < EARLY:  # this one also waited until everything was loaded
            self.since, self.finished_seconds, self.asked = now, 0.0, (total, seconds - job.seconds)
        if EARLY <= share < 1 and self.finished < total and now > self.since and times:
            left = (now - self.since) * (1 - share) / share
            times += f", about {self.words.duration(left)} left"
        self._print(f"{self.finished:{len(str(total))}}/{total}  {job.name}" + f"  ({times})" * bool(times))

    def _fail(self, about: Mapping[str, Any]) -> None:
        """Print that a job failed and why, unless its group failed and it was done or had not begun."""
        job = self.begun.get(about["jobid"])
        name = job.name if job else about["rule_name"]
        if self.stopped:
            self._print(f"stopped: {name}", "yellow")
            return
        files = [path for path in about["log"] if path.endswith(".log")]
        of_group = bool(about.get("indent"))
        since = self.opened - COARSE if of_group else 0.0
        last = next(filter(None, (_last_line(path, since) for path in files)), "")
        done = all(Path(path.partition(" ")[0]).exists() for path in about.get("output", ()))
        if of_group and (done or not last):
            return
        refused = " ".join((about.get("rule_msg") or "").partition("For further error details")[0].split())
        reason = f"{refused} Its log ends: {last}" if refused and last else refused or last or SILENT
        where = f"; log: {files[0]}" if files else ""
        self._print(f"failed: {name}: {self.words.plain(reason)}{where}", "red")


def _last_line(path: str, since: float = 0.0) -> str:
    """Return the last line of a log; nothing if it was not written to since a time."""
    try:
        written = Path(path).stat().st_mtime >= since
        lines = Path(path).read_text(encoding="utf-8", errors="replace").split("\n") if written else []
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
