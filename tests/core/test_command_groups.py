"""Commands that are imported when they are called: what help knows without them, and what it says of them."""

from __future__ import annotations

import inspect
import io
import subprocess
import sys
from importlib import import_module

import pytest
import typer
from typer.testing import CliRunner

from fedcore.base.errors import say
from fedcore.cli.groups import execute, lazy_group
from fedcore.cli.main import COMMANDS, app
from pipeline.cli import COMMANDS as CONTRIBUTED

RUN = CliRunner()
PANELS = [*COMMANDS.values(), *CONTRIBUTED.values()]
PLACES = {name: place for panel in PANELS for name, place in panel.items()}


def test_help_imports_no_command() -> None:
    modules = {place.partition(":")[0] for place in PLACES.values()}
    code = (
        "import sys\nfrom fedcore.cli.main import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        f"print('MODULES', sorted({modules} & sys.modules.keys()))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[-1] == "MODULES []"


@pytest.mark.parametrize("name", PLACES)
def test_help_says_of_a_command_what_the_command_says_of_itself(name: str) -> None:
    module, _, attribute = PLACES[name].partition(":")
    command = getattr(import_module(module), attribute)
    description = command.info.help if isinstance(command, typer.Typer) else inspect.getdoc(command)
    begin = " ".join(str(description).partition("\n\n")[0].split()[:5])
    text = " ".join(RUN.invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout.replace("│", " ").split())
    assert f"{name} {begin}" in text


def test_a_command_nobody_has_is_refused_with_the_nearest() -> None:
    result = RUN.invoke(app, ["rn"])
    assert result.exit_code == 2
    assert "Did you mean 'run'" in result.stderr


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_what_the_terminal_s_encoding_lacks_is_escaped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(buffer := io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, name, stream)
    execute(lambda: say("é, Я", error=name == "stderr"))
    assert buffer.getvalue() == b"\xe9, \\u042f\n"


def test_a_place_without_a_command_is_a_mistake_of_ours() -> None:
    broken = lazy_group("toy", "A toy.", {"Run": {"run": "fedcore.cli.run:nothing"}})
    assert isinstance(RUN.invoke(broken, ["--help"]).exception, LookupError)
