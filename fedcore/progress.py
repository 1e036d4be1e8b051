"""Progress of a run: a live bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINE_SECONDS = 10.0


@contextmanager
def reporter(
    name: str, rounds: int, quiet: bool
) -> Iterator[Callable[[int, int, Mapping[str, float]], None] | None]:
    """Yield a function to call after each measured round, or None if ``quiet``."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("accuracy {task.fields[accuracy]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(name, total=rounds, accuracy="-")

            def show(done: int, total: int, row: Mapping[str, float]) -> None:
                bar.update(task, completed=done, total=total, accuracy=_percent(row))

            yield show
    else:
        yield _lines(name)


def _lines(name: str) -> Callable[[int, int, Mapping[str, float]], None]:
    began = last = time.monotonic()
    first: int | None = None

    def show(done: int, total: int, row: Mapping[str, float]) -> None:
        nonlocal last, first
        now = time.monotonic()
        first = done if first is None else first
        if now - last < LINE_SECONDS and done < total:
            return
        last = now
        left = (now - began) / max(1, done - first) * (total - done)
        print(
            f"{name}: round {done}/{total}, accuracy {_percent(row)}, {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )

    return show


def _percent(row: Mapping[str, float]) -> str:
    return f"{100 * row['test_accuracy']:.2f}%"
