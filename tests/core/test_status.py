"""``fedcore status``: what the files of runs say about their state."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedcore.cli.main import app
from fedcore.cli.status import clock, lines, view
from fedcore.execution.status import Status, cause, counts, seconds_left, survey

EXPECTED = {"code": "c0de", "spec_sha256": "5bec"}
CLI = CliRunner()


def finished(folder: Path, accuracy: float | None = 0.5, **provenance: str) -> None:
    """Write what a finished run leaves."""
    folder.mkdir(parents=True, exist_ok=True)
    final = None if accuracy is None else {"test_accuracy": accuracy}
    state = "completed" if final else "diverged"
    (folder / "summary.json").write_text(json.dumps({"status": state, "final": final, "rounds": 5}))
    (folder / "timing.json").write_text(json.dumps({"seconds": 10.0}))
    (folder / "provenance.json").write_text(json.dumps(EXPECTED | provenance))


def record(folder: Path, **values: Any) -> None:
    """Write the record of a run that goes on."""
    now = time.time()
    folder.mkdir(parents=True, exist_ok=True)
    base = {"state": "running", "round": 2, "rounds": 8, "accuracy": 0.25, "began": now - 30, "updated": now}
    base |= {"process": os.getpid(), "machine": socket.gethostname()}
    (folder / ".progress.json").write_text(json.dumps(base | values))


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A run in each state."""
    root = tmp_path / "results"
    finished(root / "done")
    finished(root / "diverged", None)
    finished(root / "stale", code="older")
    record(root / "running")
    record(root / "interrupted", process=dead_process())
    log = tmp_path / "failed.log"
    log.write_text("one\ntwo\nthree\nfour\nfive\nsix\n")
    command = "fedcore run-batch it.json"
    record(root / "failed", state="failed", error="ValueError: no", log=str(log), command=command)
    (root / "killed").mkdir()
    (root / "killed" / "checkpoint.npz").touch()
    return root


def test_the_time_left_is_that_of_the_rounds_since_a_checkpoint(tmp_path: Path) -> None:
    record(tmp_path / "anew", round=4)
    record(tmp_path / "on", round=904, rounds=1000, first=900)
    left = {status.folder.name: status.left for status in survey(tmp_path)}
    assert left == pytest.approx({"anew": 30.0, "on": 720.0})
    record(tmp_path / "on", round=900, rounds=1000, first=900)
    assert [status.left for status in survey(tmp_path)][1] is None


def states(found: list[Status]) -> dict[str, str]:
    return {run.folder.name: run.state for run in found}


def test_each_state_is_told_from_the_files(results: Path) -> None:
    names = ("done", "diverged", "stale", "running", "interrupted", "failed", "killed", "to_come")
    planned = {str(results / name): EXPECTED for name in names}
    expected = {name: name for name in names} | {"killed": "interrupted", "to_come": "waiting"}
    assert states(survey(results, planned)) == expected


def test_a_result_that_counts_again_is_done_though_its_remake_was_interrupted(tmp_path: Path) -> None:
    for name, code in (("again", EXPECTED["code"]), ("other", "older")):
        finished(tmp_path / name, code=code)
        record(tmp_path / name, process=dead_process())
    planned = {str(tmp_path / name): EXPECTED for name in ("again", "other")}
    assert states(survey(tmp_path, planned)) == {"again": "done", "other": "interrupted"}
    assert states(survey(tmp_path)) == {"again": "interrupted", "other": "interrupted"}, (
        "nothing is asked for"
    )
    record(tmp_path / "again")
    assert states(survey(tmp_path, planned))["again"] == "running"


def test_without_a_plan_what_is_there_counts_and_nothing_is_stale(results: Path) -> None:
    state_of = states(survey(results))
    assert state_of["stale"] == "done"
    assert "to_come" not in state_of
    assert len(state_of) == 7


def test_runs_outside_the_folder_and_finished_ones_outside_the_plan_are_left_out(results: Path) -> None:
    planned = {str(results / "done"): EXPECTED, "elsewhere/run": EXPECTED}
    assert states(survey(results, planned, alone=True)) == {"done": "done"}
    relative = {os.path.relpath(folder): stated for folder, stated in planned.items()}
    assert states(survey(results, relative, alone=True)) == {"done": "done"}
    unfinished = {"running": "running", "failed": "failed"} | dict.fromkeys(
        ("interrupted", "killed"), "interrupted"
    )
    assert states(survey(results, planned)) == {"done": "done"} | unfinished
    assert len(survey(results, {"elsewhere/run": EXPECTED})) == 7  # of a folder without any plan


def test_a_run_of_another_machine_lives_as_long_as_it_is_heard_of(tmp_path: Path) -> None:
    now = time.time()
    record(tmp_path / "fresh", machine="node7", process=1, updated=now - 10)
    record(tmp_path / "silent", machine="node7", process=1, updated=now - 1000)
    assert states(survey(tmp_path)) == {"fresh": "running", "silent": "interrupted"}


@pytest.mark.parametrize("text", ["", "{", "[]", '"text"'])
def test_a_damaged_file_is_no_error(tmp_path: Path, text: str) -> None:
    finished(tmp_path / "run")
    (tmp_path / "run" / "summary.json").write_text(text)
    assert states(survey(tmp_path)) == {"run": "stale"}


def test_a_run_that_ends_is_seen_at_the_next_look(tmp_path: Path) -> None:
    record(tmp_path / "run")
    assert states(survey(tmp_path)) == {"run": "running"}
    finished(tmp_path / "run")
    (tmp_path / "run" / ".progress.json").unlink()
    assert states(survey(tmp_path)) == {"run": "done"}


def test_out_of_memory_is_a_cause_of_its_own(tmp_path: Path) -> None:
    causes = {"out of memory: 3 GB": "out of memory", "ValueError: no": "failed"}
    for error, expected in causes.items():
        record(tmp_path, state="failed", error=error)
        assert cause(tmp_path) == expected
    record(tmp_path, error="out of memory: 3 GB")
    assert cause(tmp_path) == cause(tmp_path / "none") == ""


def run_of(state: str, round_: int = 0, rounds: int = 10, seconds: float = 0.0) -> Status:
    return Status(Path(state), state, round_, rounds, None, seconds)  # type: ignore[arg-type]


def test_the_time_left_is_that_of_the_runs_at_work_and_the_mean_for_those_to_come() -> None:
    running = run_of("running", 5, 10, 20.0)  # 20 s of 40
    assert running.left == 20.0
    assert seconds_left([running]) == 20.0
    assert seconds_left([running, run_of("done", 10, 10, 40.0), run_of("waiting")]) == 60.0
    assert seconds_left([running, running, run_of("waiting"), run_of("waiting")]) == (40 + 80) / 2
    assert seconds_left([run_of("waiting")]) is None
    assert seconds_left([run_of("running")]) is None, "nothing is known before the first round"


def test_counts_name_the_states_that_occur_in_a_fixed_order() -> None:
    runs = [run_of("failed"), run_of("done"), run_of("done")]
    assert list(counts(runs).items()) == [("done", 2), ("failed", 1)]


def test_a_failed_run_shows_its_error_its_last_lines_and_what_repeats_it(results: Path) -> None:
    text = list(lines(survey(results)))
    where = next(number for number, line in enumerate(text) if "failed   " in line)
    assert text[where].endswith("failed: ValueError: no")
    last = [line.split("| ")[1] for line in text[where + 1 : where + 6]]
    assert last == ["two", "three", "four", "five", "six"]
    assert text[where + 6].strip() == "repeat: fedcore run-batch it.json"
    assert any("running" in line and "round 2/8, accuracy 25.00%, 1:30 left" in line for line in text)


@pytest.mark.parametrize(("seconds", "text"), [(5.4, "0:05"), (65, "1:05"), (3725, "1:02:05")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_the_command_counts_and_fails_if_a_run_failed(
    results: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CLI.invoke(app, ["status", str(results)])
    assert result.exit_code == 1
    first = result.output.splitlines()[0]
    assert first.startswith("3 of 7 runs: 2 done, 1 diverged, 1 running, 1 failed, 2 interrupted, about")
    (results / "failed" / ".progress.json").unlink()
    assert CLI.invoke(app, ["status", str(results)]).exit_code == 0


def test_watching_ends_when_everything_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    finished(tmp_path / "results" / "run")
    result = CLI.invoke(app, ["status", "--watch"])
    assert result.exit_code == 0
    assert result.output == "1 of 1 runs: 1 done\n"


def test_the_live_view_has_the_counts_on_a_line_of_their_own() -> None:
    console = Console(width=60, force_terminal=True, color_system="truecolor", record=True, file=StringIO())
    console.print(view([Status(Path("a"), "done"), Status(Path("b"), "waiting")]))
    bar, counted = console.export_text().splitlines()
    assert set(bar) <= set("━╸╺")
    assert counted == "1 of 2 runs: 1 done, 1 waiting"


def test_nothing_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CLI.invoke(app, ["status"]).output == "no runs\n"
    for option in (["--for", "rfedavg/table1"], ["--scale", "paper"], ["--overlay", "mine.yaml"]):
        said = str(CLI.invoke(app, ["status", *option]).exception)
        assert said == "params.yaml: not here; expected the folder of a checkout", option
    assert str(CLI.invoke(app, ["status", "nowhere"]).exception) == "nowhere: no such folder"
