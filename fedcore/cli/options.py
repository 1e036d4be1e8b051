"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Root = Annotated[Path, typer.Option(help="The data folder: demo files and the cache of fetched ones.")]
Mirror = Annotated[
    str | None,
    typer.Option(help="Folder or URL that holds upstream's data files.", envvar="FEDCORE_MIRROR"),
]
