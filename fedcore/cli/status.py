"""``fedcore status`` and ``verify``: what is done, running, failed and left, and whether it is whole."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from fedcore.base.errors import DataError, SpecError, plain, say
from fedcore.cli.options import Json, Results, completing, extensions, say_json, show
from fedcore.execution.integrity import check
from fedcore.execution.status import FINISHED, Status, counts, seconds_left, survey

PLANS, CHECKS, NAMES = "fedcore.plan", "fedcore.verify", "fedcore.names"
RESULTS = Path("results")
SHOWN = 40
LOG_LINES = 5
LOG_BYTES = 1 << 14
LINE_SECONDS = 30.0


def status(
    results: Results = RESULTS,
    of: Annotated[
        str,
        typer.Option(
            "--for",
            help="Count the runs of one report or paper only, such as rfedavg/table1.",
            autocompletion=completing(lambda: chain.from_iterable(extensions(NAMES))),
        ),
    ] = "",
    scale: Annotated[str | None, typer.Option(help="Scale of coming runs, by default params.yaml's.")] = None,
    overlay: Annotated[Path | None, typer.Option(help="A file laid over params.yaml.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until everything is finished.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Say how many runs are done, running, failed, diverged, stale and still to come, and how long it takes.

    Runs to come are known where a params.yaml is in this folder; unfinished runs of others are shown with
    them. With --watch in a terminal, a live view; elsewhere, plain lines. The exit code is 1 if a run failed.

    Example: fedcore status --watch --for reports/table1.tex
    """
    if results != RESULTS and not results.is_dir():
        raise DataError(f"{results}: no such folder")
    look = partial(survey, results, _planned(of, scale, overlay), alone=bool(of))
    runs = _watched(look, every, silent=as_json) if watch else look()
    if as_json:
        left = seconds_left(runs)
        say_json({"counts": counts(runs), "seconds_left": left, "runs": [asdict(run) for run in runs]})
    elif not watch or not sys.stdout.isatty():
        say(*lines(runs))
    if any(run.state == "failed" for run in runs):
        raise typer.Exit(1)


def lines(statuses: list[Status]) -> Iterator[str]:
    """Yield the state of all runs as plain text: counts, running runs, then failed ones with their logs."""
    yield _summary(statuses)
    for run in statuses:
        if run.state == "running":
            left = "" if run.left is None else f", {clock(run.left)} left"
            accuracy = "-" if run.accuracy is None else f"{100 * run.accuracy:.2f}%"
            yield f"  running  {run.folder}  round {run.round}/{run.rounds}, accuracy {accuracy}{left}"
    for run in statuses:
        if run.state == "failed":
            yield f"  failed   {run.folder}: {run.error}"
            yield from _more_of_failed(run)
    for state in ("diverged", "stale", "interrupted"):
        yield from (f"  {state}  {run.folder}" for run in statuses if run.state == state)


def _summary(runs: list[Status]) -> str:
    parts = [f"{number} {state}" for state, number in counts(runs).items()]
    if (seconds := seconds_left(runs)) is not None:
        parts.append(f"about {clock(seconds)} left")
    ended = sum(run.state in FINISHED for run in runs)
    return f"{ended} of {len(runs)} runs: {', '.join(parts)}" if runs else "no runs"


def _more_of_failed(run: Status) -> list[str]:
    """Return the last lines of a failed run's log, and what repeats it."""
    last: list[str] = []
    if run.log is not None and os.path.isfile(run.log):  # which takes any name
        with suppress(OSError), run.log.open("rb") as handle:
            handle.seek(max(0, run.log.stat().st_size - LOG_BYTES))
            last = handle.read(LOG_BYTES).decode(errors="replace").splitlines()[-LOG_LINES:]
    return [*(f"           | {line}" for line in last), f"           repeat: {run.command}"]


def clock(seconds: float) -> str:
    """Return seconds as m:ss or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def view(statuses: list[Status]) -> RenderableType:
    """Return the live view: a bar, and as many of the lines as a screen holds."""
    bar = ProgressBar(total=max(1, len(statuses)), completed=sum(run.state in FINISHED for run in statuses))
    text = [plain(line) for line in lines(statuses)]
    hidden = [f"and {len(text) - SHOWN} more lines"] if len(text) > SHOWN else []
    return Group(bar, *map(Text, ["", *text[:SHOWN], *hidden]))  # a bar has no end of line


def _watched(look: Callable[[], list[Status]], interval: float, silent: bool) -> list[Status]:
    """Watch until nothing is running or left; return the last state."""
    runs, last_report = look(), float("-inf")
    terminal = sys.stdout.isatty() and not silent
    with Live(view(runs), auto_refresh=False) if terminal else nullcontext() as live:
        while any(run.state in {"running", "waiting", "stale", "interrupted"} for run in runs):
            if not terminal and not silent and time.monotonic() - last_report >= LINE_SECONDS:
                say(_summary(runs))
                last_report = time.monotonic()
            time.sleep(interval)
            runs = look()
            if live:
                live.update(view(runs), refresh=True)
    return runs


def _planned(report: str, scale: str | None, over: Path | None) -> Mapping[str, Mapping[str, str]] | None:
    """Ask whoever knows what should be there; None if nobody does."""
    beside = Path("params.yaml")
    if beside.is_file():
        return next(extensions(PLANS, beside, report, scale, over), None)
    if report or scale or over:
        raise SpecError(f"{beside}: not here; expected the folder of a checkout")
    return None


def verify(
    results: Results = Path("results"),
    params: Annotated[
        Path | None, typer.Option(help="Compare with this params.yaml too; this folder's unless given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check results: changed or missing files, mixed versions of the code, runs that params.yaml lacks.

    Every problem is one line; the exit code is then 1. Repair: delete the folder named, and build again.

    Example: fedcore verify results/rfedavg
    """
    if not results.is_dir():
        raise DataError(f"{results}: no such folder")
    report = check(results)
    problems = list(report.problems)
    beside = params or Path("params.yaml")
    if params or beside.is_file():
        problems += chain.from_iterable(extensions(CHECKS, report, beside))
    numbers = {name: len(getattr(report, name)) for name in ("runs", "partitions", "unfinished")}
    show(as_json, {**numbers, "problems": list(map(asdict, problems))}, problems)
    parts = ", ".join(f"{number} {name}" for name, number in numbers.items())
    say(f"{parts}: {len(problems) or 'no'} problem{'' if len(problems) == 1 else 's'}", error=True)
    if problems:
        raise typer.Exit(1)
