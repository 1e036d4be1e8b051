"""``fedcore list`` and ``fedcore describe``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from fedcore.base.errors import SpecError, say
from fedcore.cli import descriptions as described
from fedcore.cli.descriptions import KINDS, listing
from fedcore.cli.taxonomy import FORMATS, table


class Format(StrEnum):
    """How a taxonomy table is printed."""

    text = "text"
    csv = "csv"
    latex = "latex"


def list_plugins(
    kind: Annotated[
        str | None, typer.Argument(help="algorithms, models, data, partitions or observers.")
    ] = None,
) -> None:
    """Print what a specification can name: algorithms with their parts, models, data, partitions, observers.

    Example: fedcore list algorithms
    """
    if kind is not None:
        say(*listing(kind).split("\n"))
        return
    say(*"\n\n".join(f"{kind.capitalize()}\n{listing(kind)}" for kind in KINDS).split("\n"))


def describe(
    name: Annotated[
        str | None, typer.Argument(help="A name from 'fedcore list'; with --taxonomy: table 1, 2 or 3.")
    ] = None,
    taxonomy: Annotated[bool, typer.Option("--taxonomy", help="Print ComFed's Tables I to III.")] = False,
    format: Annotated[Format, typer.Option(help="Of the taxonomy tables.")] = Format.text,
) -> None:
    """Print a plug-in's parts, keys with ranges and defaults, source, messages, and variants.

    Examples: fedcore describe scaffold; fedcore describe --taxonomy 1 --format latex
    """
    if taxonomy:
        say(*"\n\n".join(_tables(name, format)).split("\n"))
        return
    if name is None:
        raise SpecError("describe: expected a name from 'fedcore list', or --taxonomy")
    say(*described.describe(name).split("\n"))


def _tables(number: str | None, format: Format) -> list[str]:
    if number is not None and not number.isdigit():
        raise SpecError(f"taxonomy: got {number!r}, expected 1, 2 or 3")
    numbers = (1, 2, 3) if number is None else (int(number),)
    return [FORMATS[format.value](table(number)) for number in numbers]
