"""The one command line: help as stored, version, completion, colours, JSON, and packages that are missing."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import fedcore
from fedcore.base.registry import plugins
from fedcore.cli.main import app
from fedcore.cli.options import say_json
from fedcore.data.download import inventory
from pipeline.papers import papers

ROOT = Path(__file__).parents[2]
STORED = Path(__file__).with_name("help.txt")
FEDCORE = str(Path(sys.executable).with_name("fedcore"))
RUN = CliRunner()
PARTS = ("cells", "tables", "claims")
COLOURED = re.compile(r"\x1b\[[\d;]*3\dm")


def commands(group: Any = None, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return all commands by the words that call them."""
    group = group or typer.main.get_command(app)
    by_words = {" ".join(words): group}
    for name in getattr(group, "commands", ()):
        by_words |= commands(group.commands[name], (*words, name))
    return by_words


def helps() -> str:
    """Return the help of all commands, 80 columns wide."""
    wide = {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "FEDCORE_MIRROR": ""}
    texts = (RUN.invoke(app, [*name.split(), "--help"], env=wide).stdout for name in commands())
    lines = (line.rstrip() for text in texts for line in text.strip().splitlines())
    return "\n".join(lines) + "\n"


def test_help_is_as_stored() -> None:
    assert helps() == STORED.read_text(), "if it is meant: python tests/core/test_command_line.py"


def test_every_command_has_an_example_that_calls_it() -> None:
    for name, command in commands().items():
        if not hasattr(command, "commands"):
            assert re.search(rf"Example: .*fedcore {name}\b", command.help), name


def test_the_version() -> None:
    assert RUN.invoke(app, ["--version"]).stdout == f"fedcore {fedcore.__version__}\n"


def completed(words: str) -> set[str]:
    """Return what a shell completes the last word to."""
    variables = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "_FEDCORE_COMPLETE": "complete_bash",
    }
    result = RUN.invoke(app, [], env=variables, prog_name="fedcore")
    assert result.exit_code == 0
    return set(result.stdout.split())


def test_completion_knows_commands_reports_algorithms_and_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert completed("fedcore de") == {"describe"}
    assert completed("fedcore build rfedavg/tab") == {
        f"rfedavg/{name}" for name in papers()["rfedavg"].targets if name.startswith("tab")
    }
    assert completed("fedcore build table1") == {"table1", "table1_released"}
    assert completed("fedcore explain reports/fedomw/table3") >= {"reports/fedomw/table3"}
    assert completed("fedcore describe fedpro") == {"fedprox"}
    assert completed("fedcore data info mn") == {"mnist"}
    assert completed("fedcore build all --scale qu") == {"quick"}
    assert completed("fedcore status --for rfedavg/tab") == completed("fedcore build rfedavg/tab")


def test_completion_outside_of_a_checkout_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert completed("fedcore build all --scale qu") == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script(shell: str) -> None:
    variables = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = subprocess.run(
        [FEDCORE, "--show-completion", shell], env=variables, capture_output=True, text=True, check=True
    ).stdout
    assert f"_FEDCORE_COMPLETE=complete_{shell}" in shown
    script = subprocess.run(
        [FEDCORE], env=os.environ | {"_FEDCORE_COMPLETE": f"source_{shell}"}, capture_output=True, text=True
    ).stdout
    assert script.strip() == shown.strip()


def in_a_terminal(**environment: str) -> str:
    """Return what the help prints in a terminal."""
    master, terminal = pty.openpty()
    kept = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "CI", "PY_COLORS"}}
    variables = kept | {"TERM": "xterm-256color"} | environment
    subprocess.run([FEDCORE, "--help"], stdout=terminal, env=variables, check=True)
    os.close(terminal)
    output = b""
    try:
        while piece := os.read(master, 1 << 16):
            output += piece
    except OSError:  # the end, as Linux has it
        pass
    os.close(master)
    return output.decode()


def test_colours_are_for_terminals_and_those_who_like_them() -> None:
    assert COLOURED.search(in_a_terminal())
    assert not COLOURED.search(in_a_terminal(NO_COLOR="1"))
    piped = subprocess.run([FEDCORE, "--help"], capture_output=True, text=True, check=True).stdout
    assert "\x1b" not in piped


def as_json(*arguments: str, code: int = 0) -> Any:
    result = RUN.invoke(app, [*arguments, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def documented() -> dict[str, set[str]]:
    """Return the keys that the documentation names, by command."""
    page = (ROOT / "docs" / "results.md").read_text()
    table = page.partition("## What commands print as JSON")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z -]+?)(?: [A-Z]+)?` \| [^|]* \| (.*)\|$", table, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", keys)) for name, keys in rows}


def keys(value: Any) -> set[str]:
    """Return the keys of an object, or those of a list's objects."""
    return {key for entry in value for key in entry} if isinstance(value, list) else set(value)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.usefixtures("here")
def test_json_has_the_keys_that_the_documentation_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = documented()
    assert {name.removeprefix("fedcore ") for name in table} == {
        name for name, command in commands().items() if any(flag.name == "as_json" for flag in command.params)
    }
    cell = ("rfedavg/table1", "--row", "fedprox", "--column", "mnist-sim0")
    empty = tmp_path / "results"
    empty.mkdir()
    calls = {
        "list": ("list", "algorithms"),
        "describe": ("describe", "scaffold"),
        "data list": ("data", "list"),
        "data info": ("data", "info", "femnist"),
        "status": ("status", str(empty)),
        "verify": ("verify", str(empty)),
        "targets": ("targets",),
        "cost": ("cost", "rfedavg/table1"),
        "explain": ("explain", *cell),
    }
    for name, call in calls.items():
        value = as_json(*call)
        fields = keys(value["algorithms"]) if name == "list" else keys(value)
        assert fields == table[f"fedcore {name}"], name
    assert as_json("runs", *cell)[0].endswith("/summary.json")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("adopt", "prune"):
        assert keys(as_json(name)) == table[f"fedcore {name}"]
    board = as_json("fidelity")
    assert keys(board) == table["fedcore fidelity"]
    assert all((tmp_path / path).exists() for path in board["files"])
    assert {line["verdict"] for line in board["cells"]} == {"not built"}
    page = (ROOT / "docs" / "results.md").read_text()
    assert {f"`{name}`" for part in PARTS for name in keys(board[part])} <= {*re.findall(r"`\w+`", page)}


@pytest.mark.parametrize("name", inventory.entries())
def test_every_data_set_is_json(name: str) -> None:
    assert as_json("data", "info", name)["name"] == name


def test_everything_that_can_be_named_is_json() -> None:
    listed = as_json("list")
    assert [entry["name"] for entry in listed["data"]] == list(plugins("data"))
    for name in ("mnist", "similarity", "mlp", "features"):
        assert as_json("describe", name)["name"] == name


def test_json_holds_finite_numbers_alone(capsys: pytest.CaptureFixture[str]) -> None:
    say_json({"a": [float("nan"), float("inf"), 1.5], "b": Path("x/y"), 3: ("z",)})
    assert json.loads(capsys.readouterr().out) == {"a": [None, None, 1.5], "b": "x/y", "3": ["z"]}


WITHOUT = """
import sys
sys.modules["threadpoolctl"] = None
sys.argv = ["fedcore", *sys.argv[1:]]
from fedcore.cli.main import main
main()
"""


@pytest.mark.parametrize("command", ["status", "verify"])
def test_what_runs_left_is_seen_without_the_papers_packages(command: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    run = tmp_path / "results" / "rfedavg" / "demo" / "a" / "b" / "seed1"
    run.mkdir(parents=True)
    (run / "provenance.json").write_text("{}")
    call = [sys.executable, "-c", WITHOUT, command]
    process = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "without what pipeline adds: threadpoolctl is not installed; expected" in process.stderr
    assert "error" not in process.stderr
    assert "1 run" in process.stdout + process.stderr


def test_a_command_without_its_packages_says_which_is_missing() -> None:
    call = [sys.executable, "-c", WITHOUT, "targets"]
    process = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert process.stderr.startswith("error: threadpoolctl is not installed; expected")
    assert process.stderr.count("\n") == 1


if __name__ == "__main__":
    STORED.write_text(helps())
