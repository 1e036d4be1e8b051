"""Progress of a run: a bar in a terminal or notebook, else plain lines, and a file for ``fedcore status``."""

import html
import math
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedcore.base.errors import fault_message, plain, say
from fedcore.base.files import read_object, write_json

RECORD = ".progress.json"
LINE_SECONDS = 10.0
CELL_SECONDS = 0.1
RECORD_SECONDS = 1.0

Note = Callable[[int, int, Mapping[str, float]], None]


@contextmanager
def progress_kept(out: Path, name: str, rounds: int, quiet: bool) -> Iterator[Note]:
    """Show a run's progress, and keep it in a small file of the run's folder while the run lasts.

    A run that fails leaves the file, with the error, the log and the command that repeats it; one that is
    killed leaves it with the process that is no more. ``reporter`` says what the other arguments are.
    """
    state: dict[str, Any] = {"state": "running", "round": 0, "rounds": rounds, "accuracy": None}
    state |= {"began": time.time(), "process": os.getpid(), "machine": socket.gethostname()}
    written = -RECORD_SECONDS

    def record(**changes: Any) -> None:
        state.update(changes, updated=time.time())
        write_json(out / RECORD, state)

    with reporter(name, rounds, quiet) as shown:

        def note(done: int, total: int, row: Mapping[str, float]) -> None:
            nonlocal written
            if shown:
                shown(done, total, row)
            if time.monotonic() - written >= RECORD_SECONDS:
                accuracy = row["test_accuracy"]
                state.setdefault("first", done)
                record(round=done, accuracy=accuracy if math.isfinite(accuracy) else None)
                written = time.monotonic()

        record()
        try:
            yield note
        except Exception as error:
            with suppress(OSError):
                record(**_failure(plain(fault_message(error) or f"{type(error).__name__}: {error}")))
            raise
        (out / RECORD).unlink(missing_ok=True)


def lost(folders: Iterable[Path], began: float, error: str) -> None:
    """Let runs that were going on say what killed their process, which it could not do itself.

    Records from before the time at which it ``began`` are another's.
    """
    for folder in folders:
        with suppress(OSError, ValueError, KeyError, TypeError):
            state = read_object(folder / RECORD)
            if state["state"] == "running" and state["began"] >= began:
                write_json(folder / RECORD, state | _failure(error))


def _failure(error: str) -> dict[str, str | None]:
    log = None  # the file that standard error goes to, if it is one and the system can tell
    with suppress(OSError):
        path = Path(os.readlink("/proc/self/fd/2"))
        log = os.path.relpath(path) if path.is_file() else None
    return {"state": "failed", "error": error, "log": log, "command": repeat()}


def repeat() -> str:
    """Return the command line of this process, for repeating it by hand, without an address's password."""
    return plain(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]))


@contextmanager
def reporter(name: str, rounds: int, quiet: bool, lines: bool = True) -> Iterator[Note | None]:
    """Yield a function to call after each measured round of the run ``name``, or None if nothing is shown.

    Where there is neither a notebook nor a terminal, ``lines`` are written now and then, or nothing.
    """
    if quiet:
        yield None
    elif Console().is_jupyter:
        yield _cell(name)
    elif sys.stderr.isatty():
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("accuracy {task.fields[accuracy]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(escape(plain(name)), total=rounds, accuracy="-")

            def show(done: int, total: int, row: Mapping[str, float]) -> None:
                bar.update(task, completed=done, total=total, accuracy=_percent(row))

            yield show
    else:
        yield _lines(name) if lines else None


def _cell(name: str) -> Note:
    """Draw a bar in a notebook's cell, by what every notebook can show."""
    display: Any = import_module("IPython.display").display
    last, handle = -CELL_SECONDS, None

    def show(done: int, total: int, row: Mapping[str, float]) -> None:
        nonlocal last, handle
        now = time.monotonic()
        if now - last < CELL_SECONDS and done < total:
            return
        text = f"{plain(name)}: round {done}/{total}, accuracy {_percent(row)}"
        bar = f'<progress max="{total}" value="{done}"></progress> {html.escape(text)}'
        shown = {"text/plain": text, "text/html": bar}
        if handle is None:
            handle = display(shown, raw=True, display_id=True)
        else:
            handle.update(shown, raw=True)
        last = now

    return show


def _lines(name: str) -> Note:
    began = last = time.monotonic()
    first: int | None = None

    def show(done: int, total: int, row: Mapping[str, float]) -> None:
        nonlocal last, first
        now = time.monotonic()
        first = done if first is None else first
        if now - last < LINE_SECONDS and done < total:
            return
        last = now
        seconds = (now - began) / max(1, done - first) * (total - done)
        say(f"{name}: round {done}/{total}, accuracy {_percent(row)}, {seconds:.0f} s left", error=True)

    return show


def _percent(row: Mapping[str, float]) -> str:
    return f"{100 * row['test_accuracy']:.2f}%"
