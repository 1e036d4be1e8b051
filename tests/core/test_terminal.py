"""What a real terminal shows, which a pipe does not: the bar, colours, and completion of names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

import fedcore

SPEC = {
    "data": {"name": "quadratics"},
    "model": {"name": "scalar_quadratic"},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 3, "batch_size": "full", "lr": 0.1},
}
ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("fedcore")
COLOUR = re.compile(r"\x1b\[[\d;]*3\d")
SHOWN = """
from fedcore.execution.progress import reporter
with reporter("a run", 3, quiet=False, lines=False) as note:
    if note:
        note(3, 3, {"test_accuracy": 0.5})
"""


def environment(**values: str) -> dict[str, str]:
    unset = {"NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"}
    return {name: value for name, value in os.environ.items() if name not in unset} | {
        "TERM": "xterm-256color",
        "FEDCORE_WARM": "0",
        **values,
    }


def on_a_terminal(*command: str, **values: str) -> str:
    """Return all that a command writes to a terminal of 24 lines and 120 columns."""
    child = pexpect.spawn(
        command[0], list(command[1:]), env=environment(**values), dimensions=(24, 120), encoding="utf-8"
    )
    child.expect(pexpect.EOF, timeout=60)
    child.close()
    assert child.exitstatus == 0, child.before
    return str(child.before)


def test_a_bar_is_drawn_on_a_terminal_and_not_in_a_pipe() -> None:
    drawn = on_a_terminal(sys.executable, "-c", SHOWN)
    assert "a run" in drawn
    assert "50.00%" in drawn
    assert COLOUR.search(drawn)
    piped = subprocess.run(
        [sys.executable, "-c", SHOWN], env=environment(), capture_output=True, text=True, check=True
    )
    assert piped.stdout + piped.stderr == ""


def test_no_color_takes_the_colours_away_and_leaves_the_bar() -> None:
    drawn = on_a_terminal(sys.executable, "-c", SHOWN, NO_COLOR="1")
    assert "50.00%" in drawn
    assert not COLOUR.search(drawn)


def test_a_run_draws_a_bar_unless_it_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm", "COLUMNS": "120"}.items():
        monkeypatch.setenv(name, value)
    ours, terminal = os.openpty()
    with open(terminal, "w", encoding="utf-8") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        fedcore.run(SPEC, progress=False)
        print("NEXT", file=stderr, flush=True)
        fedcore.run(SPEC)
        print("END", file=stderr, flush=True)
        drawn = ""
        while "END" not in drawn:
            drawn += os.read(ours, 65536).decode()
    os.close(ours)
    silent, _, bar = drawn.partition("NEXT")
    assert silent == ""
    assert "fedavg" in bar
    assert "3/3" in bar


def test_bash_completes_the_names_of_algorithms_reports_and_data_sets(tmp_path: Path) -> None:
    variables = environment(_FEDCORE_COMPLETE="source_bash")
    script = subprocess.run([COMMAND], env=variables, capture_output=True, text=True, check=True).stdout
    (tmp_path / "rc").write_text(f"PATH={COMMAND.parent}:$PATH\n{script}\nPS1='ready> '\n")
    child = pexpect.spawn(
        "bash", ["--rcfile", str(tmp_path / "rc"), "-i"], cwd=ROOT, env=environment(), encoding="utf-8"
    )
    for begun, ending in (
        ("describe fedpr", "ox "),
        ("build rfedavg/table2_", "cohort "),
        ("data info femn", "ist "),
    ):
        child.expect("ready> ", timeout=20)
        child.send(f"fedcore {begun}\t")
        child.expect_exact(begun + ending, timeout=40)
        child.send("\x15\r")
    child.close(force=True)
