"""A command line whose commands are imported when they are called, so that its help appears at once."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


def lazy_group(name: str, help: str, places: Mapping[str, str]) -> typer.Typer:
    """Return a command line of commands that lie elsewhere.

    Args:
        name: what a user types.
        help: what it is for.
        places: by command, ``module:name`` of its function, or of the Typer application of a group.
    """

    class Group(TyperGroup):
        """Loads a command when it is asked for; its own help reads the first words of their modules."""

        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = {name: TyperCommand(name) for name in places}
            self.brief = False

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name not in places:
                return None
            if self.brief:
                return TyperCommand(cmd_name, help=_summary(places[cmd_name]))
            return command(cmd_name, places[cmd_name])

        def get_help(self, ctx: Any) -> str:
            self.brief = True
            text = super().get_help(ctx)
            self.brief = False
            return text

    app = typer.Typer(
        name=name,
        cls=Group,
        help=help,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(lambda: None)
    return app


@cache
def command(name: str, place: str) -> Any:
    """Import a command and return it."""
    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        found, function = typer.Typer(add_completion=False, pretty_exceptions_enable=False), found
        found.command(name)(function)
    return typer.main.get_command(found)


@cache
def _summary(place: str) -> str:
    """Return what a command's module says it does, without importing it."""
    module, _, attribute = place.partition(":")
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == attribute:
            return ast.get_docstring(node) or ""
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == attribute:
            words = {key.arg: key.value for key in ast.walk(node) if isinstance(key, ast.keyword)}
            return str(ast.literal_eval(words["help"]))
    raise LookupError(f"{place}: no such command")
