"""What a command can't use is said in one line, with exit code 2, and not in a traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from project import parameters

from fedcore.cli.main import main

COMMANDS = {
    "chosen empty.csv": "empty.csv: no table: No columns to parse from file",
    "chosen binary.csv": "binary.csv: no table: 'utf-8' codec can't decode",
    "chosen results": "results: no table: ",
    "metrics none.csv --out m.json": "none.csv: no such file",
    "metrics params.yaml --out m.json": "params.yaml: no table of a report: 'row'",
    "metrics binary.csv --out m.json": "binary.csv: no table of a report: 'utf-8' codec",
    "metrics torn.csv --out m.json": "torn.csv: no table of a report: a line has no value in some column",
    "readings nosuch/table2 --points labels": "reports/nosuch/table2: no such report",
    "runs radfed/table3 --overlay five.yaml": "params.yaml with five.yaml: studies: got 5, expected files of",
    "study new x --like run.yaml --rounds 3": "--rounds: given beside --like, whose run has its own",
    "study new x --like run.yaml --clients 3": "--clients: given beside --like, whose run has its own",
    "pdf none.tex x.pdf": "none.tex: no such file",
    "verify --params none.yaml": "none.yaml: ",
    "prune --overlay none.yaml": "none.yaml: ",
    "partial radfed/table1": "reports/radfed/table1: needs partitions and no run",
    "partial radfed/partition": "reports/radfed/partition: needs partitions and no run",
    "partial radfed/table2": "reports/radfed/table2: needs no run; `fedcore build radfed/table2` makes it",
    "runs table2": "table2: needs no run; `fedcore build radfed/table2` makes it",
}


RUN = {
    "data": {"name": "mnist", "edition": "demo"},
    "partition": {"name": "iid", "clients": 4},
    "model": {"name": "linear"},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 2, "lr": 0.1, "batch_size": 10},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_cannot_use_is_one_line(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeline.reports.render.engine", lambda: "tectonic")
    monkeypatch.setattr(sys, "argv", ["fedcore", *command.split()])
    config = parameters("radfed") | {"primary_paper": "radfed"}
    Path("params.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    Path("five.yaml").write_text("studies: 5")
    Path("run.yaml").write_text(yaml.safe_dump(RUN))
    Path("empty.csv").touch()
    Path("torn.csv").write_text("row,column,mean\na,b,1.5\na,c")
    Path("binary.csv").write_bytes(b"\xff\x00")
    Path("results").mkdir()
    with pytest.raises(SystemExit) as ended:
        main()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {COMMANDS[command]}")
    assert ended.value.code == 2
