"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

Root = Annotated[Path, typer.Option(help="The data folder: demo files and the cache of fetched ones.")]
Mirror = Annotated[
    str | None,
    typer.Option(help="Folder or URL that holds upstream's data files.", envvar="FEDCORE_MIRROR"),
]


def extensions(group: str) -> Iterator[Any]:
    """Yield what the entry points of a group name.

    The papers' pipeline is there in a checkout and missing where the library was installed alone.
    """
    for entry in entry_points(group=group):
        if find_spec(entry.module.partition(".")[0]) is not None:
            yield entry.load()
