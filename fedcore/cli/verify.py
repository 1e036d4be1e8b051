"""``fedcore verify``: whether results are whole, unchanged and of one kind."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fedcore.base.errors import DataError, say
from fedcore.cli.options import Json, Results, extensions, show
from fedcore.execution.integrity import check

CHECKS = "fedcore.verify"


def verify(
    results: Results = Path("results"),
    params: Annotated[
        Path | None,
        typer.Option(help="Compare with this params.yaml too; the one in this folder unless given."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check results: changed or missing files, mixed versions of the code, runs that params.yaml lacks.

    Every problem is one line; the exit code is then 1. Repair: delete the folder that is named, and build
    again.

    Example: fedcore verify results/rfedavg
    """
    if not results.is_dir():
        raise DataError(f"{results}: no such folder")
    found = check(results)
    problems = list(found.problems)
    beside = params or Path("params.yaml")
    if params or beside.is_file():
        for more in extensions(CHECKS, found, beside):
            problems += more
    counts = {name: len(getattr(found, name)) for name in ("runs", "partitions", "unfinished")}
    show(as_json, {**counts, "problems": list(map(asdict, problems))}, problems)
    parts = ", ".join(f"{number} {name}" for name, number in counts.items())
    say(f"{parts}: {len(problems) or 'no'} problem{'s' * (len(problems) != 1)}", error=True)
    if problems:
        raise typer.Exit(1)
