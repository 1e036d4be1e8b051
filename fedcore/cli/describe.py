"""``fedcore list`` and ``fedcore describe``."""

from __future__ import annotations

from typing import Annotated

import typer

from fedcore.base.errors import SpecError, say
from fedcore.cli import descriptions as described
from fedcore.cli.descriptions import KINDS, listing
from fedcore.cli.options import Json, completing, say_json


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
    if as_json:
        say_json({name: described.entries(name) for name in ([kind] if kind else KINDS)})
    elif kind is not None:
        say(*listing(kind).split("\n"))
    else:
        say(*"\n\n".join(f"{kind.capitalize()}\n{listing(kind)}" for kind in KINDS).split("\n"))


def describe(
    name: Annotated[
        str | None,
        typer.Argument(help="A name from 'fedcore list'.", autocompletion=completing(described.names)),
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
    if as_json:
        say_json(described.facts(name))
    else:
        say(*described.describe(name).split("\n"))
