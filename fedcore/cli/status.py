"""``fedcore status``: what is done, running, failed and left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from fedcore.base.errors import plain, say
from fedcore.cli.options import Json, extensions, say_json
from fedcore.execution.status import FINISHED, Status, counts, seconds_left, survey

PLANS = "fedcore.plan"
SHOWN = 12
LOG_LINES = 5
LOG_BYTES = 1 << 14
LINE_SECONDS = 30.0
COLOURS = {"done": "green", "running": "cyan", "failed": "red", "diverged": "yellow", "stale": "magenta"}


def status(
    results: Annotated[Path, typer.Argument(help="A folder of results, searched to its bottom.")] = Path(
        "results"
    ),
    of: Annotated[
        str, typer.Option("--for", help="Count the runs of one report or paper only, such as rfedavg/table1.")
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until everything is finished.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Say how many runs are done, running, failed, diverged, stale and still to come, and how long it takes.

    Runs to come are known where a params.yaml is in this folder. With --watch in a terminal, a live view;
    elsewhere, plain lines. The exit code is 1 if a run failed.

    Example: fedcore status --watch --for reports/table1.tex
    """
    planned = _planned(of)

    def look() -> list[Status]:
        return survey(results, planned)

    found = _watched(look, every, silent=as_json) if watch else look()
    if as_json:
        left = seconds_left(found)
        say_json({"counts": counts(found), "seconds_left": left, "runs": [asdict(run) for run in found]})
    elif not watch or not sys.stdout.isatty():
        say(*lines(found))
    if any(run.state == "failed" for run in found):
        raise typer.Exit(1)


def lines(found: list[Status]) -> Iterator[str]:
    """Yield the state of all runs as plain text: counts, running runs, then failed ones with their logs."""
    yield summary(found)
    for run in found:
        if run.state == "running":
            yield f"  running  {run.folder}  {progress(run)}"
    for run in found:
        if run.state == "failed":
            yield f"  failed   {run.folder}: {run.error}"
            yield from (f"           | {line}" for line in tail(run.log))
            yield f"           repeat: {run.command}"
    for state in ("diverged", "stale", "interrupted"):
        yield from (f"  {state}  {run.folder}" for run in found if run.state == state)


def summary(found: list[Status]) -> str:
    """Return the counts and the time left as one line."""
    ended = sum(run.state in FINISHED for run in found)
    parts = [f"{number} {state}" for state, number in counts(found).items()]
    return f"{ended} of {len(found)} runs: " + ", ".join([*parts, *_left(found)]) if parts else "no runs"


def progress(run: Status) -> str:
    """Return how far a run is."""
    accuracy = "-" if run.accuracy is None else f"{100 * run.accuracy:.2f}%"
    left = "" if run.left is None else f", {clock(run.left)} left"
    return f"round {run.round}/{run.rounds}, accuracy {accuracy}{left}"


def tail(log: Path | None) -> list[str]:
    """Return the last lines of a log."""
    if log is None or not log.is_file():
        return []
    try:
        with log.open("rb") as handle:
            handle.seek(max(0, log.stat().st_size - LOG_BYTES))
            return handle.read(LOG_BYTES).decode(errors="replace").splitlines()[-LOG_LINES:]
    except OSError:
        return []


def clock(seconds: float) -> str:
    """Return seconds as m:ss or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def view(found: list[Status]) -> RenderableType:
    """Return the live view: a bar, the counts, one row per running run, and failures."""
    ended = sum(run.state in FINISHED for run in found)
    numbers = [f"[{COLOURS.get(s, 'white')}]{n} {s}[/]" for s, n in counts(found).items()]
    head = Text.from_markup(f"{ended} of {len(found)} runs: " + ", ".join([*numbers, *_left(found)]))
    table = Table(
        Column("run", overflow="fold"), "round", "", "accuracy", "left", box=None, padding=(0, 2, 0, 0)
    )
    running = [run for run in found if run.state == "running"]
    for run in running[:SHOWN]:
        accuracy = "-" if run.accuracy is None else f"{100 * run.accuracy:.2f}%"
        left = "-" if run.left is None else clock(run.left)
        bar = ProgressBar(total=max(1, run.rounds), completed=run.round, width=20)
        name = Text(plain("/".join(run.folder.parts[-4:])))
        table.add_row(name, f"{run.round}/{run.rounds}", bar, accuracy, left)
    failed = [
        Text.from_markup(f"[red]failed[/] {escape(plain(line.removeprefix('  failed   ')))}")
        if line.startswith("  failed")
        else Text(plain(line))
        for run in found
        if run.state == "failed"
        for line in list(lines([run]))[1:]
    ]
    more = [Text(f"and {len(running) - SHOWN} more")] if len(running) > SHOWN else []
    return Group(ProgressBar(total=max(1, len(found)), completed=ended), head, table, *more, *failed[:40])


def _watched(look: Callable[[], list[Status]], every: float, silent: bool) -> list[Status]:
    """Watch until nothing is running or left; return the last state."""
    found = look()
    if sys.stdout.isatty() and not silent:
        with Live(view(found), auto_refresh=False) as live:
            while not _over(found):
                time.sleep(every)
                found = look()
                live.update(view(found), refresh=True)
        return found
    told = float("-inf")
    while not _over(found):
        if time.monotonic() - told >= LINE_SECONDS and not silent:
            say(summary(found))
            told = time.monotonic()
        time.sleep(every)
        found = look()
    return found


def _over(found: list[Status]) -> bool:
    return not any(run.state in {"running", "waiting", "stale", "interrupted"} for run in found)


def _left(found: list[Status]) -> list[str]:
    seconds = seconds_left(found)
    return [] if seconds is None else [f"about {clock(seconds)} left"]


def _planned(report: str) -> Mapping[str, Mapping[str, str]] | None:
    """Ask whoever knows what should be there; None if nobody does."""
    beside = Path("params.yaml")
    return next(extensions(PLANS, beside, report), None) if beside.is_file() else None
