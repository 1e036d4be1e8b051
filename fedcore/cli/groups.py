"""A command line whose commands are imported when they are called, so that its help appears at once."""

import ast
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from fedcore.base import __version__
from fedcore.base.errors import say, user_message
from fedcore.cli.options import extensions, not_installed

PANELS = ("Run", "Look", "Build", "Keep", "For maintainers")
STATEMENT = re.compile(r".*\n(?:[ )].*\n|\n)*")
Places = Mapping[str, Mapping[str, str]]


class Commands(Mapping[str, Any]):
    """Commands by name, each imported when it is asked for.

    ``commands`` gives, by panel of the help and by name, the ``module:name`` of a function or a Typer
    application; entry points of a group name more such tables, read for what ``commands`` lacks.
    """

    def __init__(self, commands: Places, entry_points: str) -> None:
        self.own_commands = _flat(commands)
        self.entry_points = entry_points

    @cached_property
    def places(self) -> Mapping[str, tuple[str, str]]:
        """Every command's panel and place, in the order of the panels."""
        commands = self.own_commands
        for more in extensions(self.entry_points):
            commands = {**commands, **_flat(more), **self.own_commands}
        return dict(sorted(commands.items(), key=lambda item: PANELS.index(item[1][0])))

    def stand_in(self, name: str) -> TyperCommand | None:
        """Return a command that only has the first words of the real one's module, which is not imported."""
        if placed := self.own_commands.get(name) or self.places.get(name):
            return TyperCommand(name, short_help=_summary(placed[1]))
        return None

    def __getitem__(self, name: str) -> Any:
        _, place = self.own_commands.get(name) or self.places[name]
        return command(name, place)

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


def lazy_group(name: str, help: str, commands: Places, entry_points: str = "") -> typer.Typer:
    """Return a command line of commands that lie elsewhere; see ``Commands``.

    Only one that others contribute to has a name of its own for the shell, and completion.
    """

    class Group(TyperGroup):
        """Shows and completes the names of commands without importing any of them."""

        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands: Any = Commands(commands, entry_points)

        def list_commands(self, ctx: Any) -> list[str]:
            return list(self.commands)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            return self.commands.stand_in(cmd_name)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            for panel, placed in groupby(self.commands.places.items(), lambda item: item[1][0]):
                with formatter.section(panel if "NO_COLOR" in os.environ else typer.style(panel, fg="cyan")):
                    formatter.write_dl([(name, _summary(place)) for name, (_, place) in placed])

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, stand_in, rest = super().resolve_command(ctx, args)
            return name, stand_in and self.commands[name], rest

    app = typer.Typer(
        name=name,
        cls=Group,
        help=help,
        no_args_is_help=True,
        add_completion=bool(entry_points),
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_front)
    return app


def _say_version(wanted: bool) -> None:
    if wanted:
        say(f"fedcore {__version__}")
        raise typer.Exit


def _front(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def execute(call: Callable[[], Any]) -> None:
    """Run a command line; an error of the user's or a fault of the machine is one line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        call()
    except Exception as error:
        message = not_installed(error) if isinstance(error, ModuleNotFoundError) else user_message(error)
        if isinstance(error, FileNotFoundError) and error.filename:
            message = f"{error.filename}: no such file"
        if message is None:
            raise
        say(f"error: {message}", error=True)
        sys.exit(2)


@cache
def command(name: str, place: str) -> Any:
    """Import a command and return it."""
    module, _, attribute = place.partition(":")
    app = getattr(import_module(module), attribute)
    if not isinstance(app, typer.Typer):
        app, function = typer.Typer(add_completion=False, pretty_exceptions_enable=False), app
        app.command(name)(function)
    built = typer.main.get_command(app)
    for entry in (built, *getattr(built, "commands", {}).values()):
        entry.help, entry.rich_markup_mode = _said(entry.help), None
        entry.short_help = entry.help.partition("\n\n")[0]
    return built


def _flat(places: Places) -> dict[str, tuple[str, str]]:
    return {name: (panel, place) for panel, commands in places.items() for name, place in commands.items()}


def _said(doc: str) -> str:
    """Return the paragraphs of a docstring for a terminal of any width."""
    return "\n\n".join(map(" ".join, map(str.split, doc.split("\n\n")))).replace("``", "`")


@cache
def _summary(place: str) -> str:
    """Return what a command's module says it does, without importing it."""
    module, _, attribute = place.partition(":")
    spec = find_spec(module)
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    begin = max(source.find(f"\ndef {attribute}("), source.find(f"\n{attribute} = ")) + 1
    match = STATEMENT.match(source, begin) if begin else None
    if match is None:
        raise LookupError(f"{place}: no such command")
    (statement,) = ast.parse(match[0]).body
    if isinstance(statement, ast.FunctionDef):
        return _said(ast.get_docstring(statement) or "").partition("\n\n")[0]
    words = {key.arg: key.value for key in ast.walk(statement) if isinstance(key, ast.keyword)}
    return str(ast.literal_eval(words["help"]))
