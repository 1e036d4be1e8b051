"""Options that several commands share, and what other packages add to commands."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcore.base import MIRROR
from fedcore.base.errors import FedcoreError, say

SpecFile = Annotated[Path, typer.Argument(help="The specification, a YAML file.")]
Results = Annotated[Path, typer.Argument(help="A folder of results, searched to its bottom.")]
Root = Annotated[Path, typer.Option(help="The data folder: demo files and the cache of fetched ones.")]
Mirror = Annotated[str | None, typer.Option(help="Folder or URL with upstream's data files.", envvar=MIRROR)]
Quiet = Annotated[bool, typer.Option("--quiet/--no-quiet", "-q", help="No progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON; its keys are in docs/results.md.")]


def show(as_json: bool, value: Any, lines: Iterable[object]) -> None:
    """Print a value as JSON, or lines that say the same to people."""
    if as_json:
        say_json(value)
    else:
        say(*lines)


def say_json(value: Any) -> None:
    """Print a value as JSON; paths are text, and a number that is not finite is null."""
    finite = json.loads(json.dumps(value, default=str), parse_constant=lambda _: None)
    print(json.dumps(finite, indent=2), flush=True)


def completing(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return names as a shell's completion asks for them; none where they can't be found."""

    def complete(incomplete: str) -> list[str]:
        with suppress(FedcoreError, ImportError, OSError):
            return [name for name in names() if name.startswith(incomplete)]
        return []

    return complete


def extensions(group: str, *arguments: Any) -> Iterator[Any]:
    """Yield what the entry points of a group name; what a function returns for the arguments.

    The papers' pipeline is there in a checkout and missing where the library was installed alone. One line
    on standard error names a package that it needs and that is not installed.
    """
    for entry in entry_points(group=group):
        if find_spec(entry.module.partition(".")[0]) is not None:
            try:
                loaded = entry.load()
                yield loaded(*arguments) if callable(loaded) else loaded
            except ModuleNotFoundError as error:
                if (message := not_installed(error)) is None:
                    raise
                say(f"without what {entry.name} adds: {message}", error=True)


def not_installed(error: ModuleNotFoundError) -> str | None:
    """Say in one line which package is not installed; None where a module of one that is there is missing."""
    package = (error.name or "").partition(".")[0]
    if not package or find_spec(package) is not None:
        return None
    return f"{package} is not installed; expected all packages: uv sync, or pip install 'fedrepro[pipeline]'"
