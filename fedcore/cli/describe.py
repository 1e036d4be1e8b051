"""``fedcore list`` and ``fedcore describe``."""

from __future__ import annotations

from typing import Annotated

import typer

from fedcore.base.errors import SpecError
from fedcore.cli.descriptions import KINDS, entries, facts, listing, names
from fedcore.cli.descriptions import describe as described
from fedcore.cli.options import Json, completing, show


def list_plugins(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="algorithms, models, data, partitions or observers.",
            autocompletion=completing(lambda: KINDS),
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what a specification can name: algorithms with their parts, models, data, partitions, observers.

    Example: fedcore list algorithms
    """
    text = listing(kind) if kind else "\n\n".join(f"{own.capitalize()}\n{listing(own)}" for own in KINDS)
    show(as_json, {own: entries(own) for own in ([kind] if kind else KINDS)}, text.split("\n"))


def describe(
    name: Annotated[
        str | None,
        typer.Argument(help="A name from 'fedcore list'.", autocompletion=completing(names)),
    ] = None,
    as_json: Json = False,
    taxonomy: Annotated[bool, typer.Option("--taxonomy", hidden=True)] = False,
    format: Annotated[str, typer.Option(hidden=True)] = "text",
) -> None:
    """Print a plug-in's parts, keys with ranges and defaults, source, messages, and variants.

    Example: fedcore describe scaffold
    """
    if taxonomy:
        words = [*filter(None, [name]), *(["--format", format] if format != "text" else [])]
        raise SpecError(f"describe --taxonomy: is a command now: {' '.join(['fedcore taxonomy', *words])}")
    if name is None:
        raise SpecError("describe: expected a name from 'fedcore list'")
    show(as_json, facts(name), described(name).split("\n"))
