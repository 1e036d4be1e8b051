"""A table whose runs ran out of memory says so: in its cells, its numbers, its caption and on the site."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pretended import catalogue, finish
from project import parameters

from fedcore.base.errors import DataError
from fedcore.execution import forkserver
from fedcore.execution.progress import RECORD, lost, progress_kept
from fedcore.execution.status import cause
from pipeline import reports
from pipeline import site as building
from pipeline.site.survey import survey
from pipeline.workflow.adopt import inspect

PAPER, TARGET = "rfedavg", "table1"
CELL = ("scaffold", "cifar10-sim0")
HALF = ("fedprox", "cifar10-sim0")


def fail(folder: Path, error: BaseException) -> None:
    """Leave in a run's folder what a run leaves that fails."""
    with pytest.raises(type(error)), progress_kept(folder, "it", 5, True):
        raise error


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of which two runs in one cell, and one in another, ran out of memory, and two are to come."""
    root = tmp_path_factory.mktemp("partial")
    planned = catalogue(PAPER)
    for place, (cell, runs) in enumerate(planned.cells(PAPER, TARGET).items()):
        for seed, run in enumerate(runs):
            if cell == CELL or (cell == HALF and seed == 1):
                (root / run.folder).mkdir(parents=True)
                fail(root / run.folder, MemoryError("Unable to allocate 9 TiB"))
            elif cell == ("qfedavg", "mnist-sim0"):
                (root / run.folder).mkdir(parents=True)
                fail(root / run.folder, ValueError("a defect"))
            elif cell != ("fedavg", "mnist-sim0"):
                finish(run, root, 0.5 + place / 1000)
    stale = root / f"reports/{PAPER}/{TARGET}.pdf"
    stale.parent.mkdir(parents=True)
    stale.touch()
    reports.write_partial(planned.sources(PAPER, TARGET, root))
    assert not stale.exists()
    return root


def test_the_cells_and_the_caption_name_what_ran_out_of_memory(made: Path) -> None:
    text = (made / f"reports/{PAPER}/{TARGET}.md").read_text()
    assert len(re.findall("out of memory", text)) == 2, "one cell, and the caption"
    assert "Runs without a result: out of memory in 2 cells, failed in 1 cell." in text
    rows = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("|")}
    assert "| out of memory<br>" in rows["SCAFFOLD"]
    assert "| failed<br>" in rows["q-FedAvg"]
    assert "| –<br>" in rows["FedAvg"]
    assert "†" in rows["FedProx"]
    assert "1 out of memory" in (made / f"reports/{PAPER}/{TARGET}.html").read_text()


def test_the_numbers_name_it_too(made: Path) -> None:
    frame = pd.read_csv(made / f"reports/{PAPER}/{TARGET}.csv", keep_default_na=False)
    failed = frame.set_index(["row", "column"])["failed"]
    assert failed[CELL] == "2 out of memory"
    assert failed[HALF] == "1 out of memory"
    assert failed["qfedavg", "mnist-sim0"] == "2 failed"
    assert (failed != "").sum() == 3


def test_the_site_shows_the_table_as_one_with_some_runs(made: Path) -> None:
    config = parameters(PAPER) | {"primary_paper": PAPER}
    (shown,) = [target for target in survey(config, made).targets if target.name == TARGET]
    assert shown.state == "partly"
    building.build(config, made)
    assert "out of memory" in (made / f"reports/site/own/{PAPER}.html").read_text()


def test_its_files_look_older_than_any_run(made: Path) -> None:
    newest = max(path.stat().st_mtime for path in (made / "reports" / PAPER).glob(f"{TARGET}.*"))
    assert newest < min(path.stat().st_mtime for path in (made / "results").rglob("summary.json"))


def test_it_is_left_where_it_is_until_it_is_touched(made: Path) -> None:
    """A folder without Snakemake's records doesn't set it aside: a benchmark's plan follows from it."""
    name = f"reports/{PAPER}/{TARGET}"
    decided = inspect(catalogue(PAPER), made)
    assert name not in {**decided.believed, **decided.stale}
    (made / f"{name}.md").touch()
    assert name in inspect(catalogue(PAPER), made).stale
    os.utime(made / f"{name}.md", (reports.OLD, reports.OLD))


def test_a_figure_needs_all_runs_and_a_table_some(made: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="fig2: needs all of its runs, being no table"):
        reports.write_partial(catalogue(PAPER).sources(PAPER, "fig2", made))
    with pytest.raises(DataError, match="table1: none of its 96 runs is finished"):
        reports.write_partial(catalogue(PAPER).sources(PAPER, TARGET, tmp_path))


KILL = """
import json, os, signal, sys, time
from pathlib import Path
record = Path(sys.argv[1])
while not record.exists():
    time.sleep(0.02)
os.kill(json.loads(record.read_text())["process"], signal.SIGKILL)
"""
START = """
import sys
from fedcore.cli.start import main
from fedcore.execution import forkserver
forkserver.share()
counts = iter([3, int(sys.argv[1])])
forkserver.memory_kills = lambda: next(counts)
sys.argv = ["fedcore", *sys.argv[2:]]
main()
"""


@pytest.mark.parametrize("memory", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_run_whose_process_is_killed_says_so_in_its_folder(
    memory: bool, spec: dict[str, Any], tmp_path: Path, record_property: Callable[[str, int], None]
) -> None:
    """The system's counter is pretended: it alone tells a lack of memory from another kill -9."""
    record_property("trials", 1)
    out, order = tmp_path / "out", tmp_path / "order.json"
    long = {**spec, "training": {**spec["training"], "rounds": 10**6}}
    order.write_text(json.dumps([{"spec": long, "out": str(out)}]))
    arguments = ["--quiet", str(order)] if memory else [str(order), "--quiet"]
    killer = subprocess.Popen([sys.executable, "-c", KILL, str(out / RECORD)])
    process = subprocess.run(
        [sys.executable, "-c", START, "4" if memory else "3", "run-batch", *arguments],
        env={key: value for key, value in os.environ.items() if key != "FEDCORE_WARM"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert killer.wait() == 0
    assert process.returncode == forkserver.KILLED, process.stderr
    assert ("out of memory: the system killed the process" in process.stderr) == memory
    assert cause(out) == ("out of memory" if memory else "failed")


def test_what_others_left_is_not_blamed(tmp_path: Path) -> None:
    with progress_kept(tmp_path, "it", 5, True):
        before = json.loads((tmp_path / RECORD).read_text())
        lost([tmp_path, tmp_path / "none"], time.time() + 1, "the process was killed")
        assert json.loads((tmp_path / RECORD).read_text()) == before


@pytest.mark.parametrize(
    ("counters", "kills"),
    [("pgfault 12\noom_kill 3\noom_kill_disable 0\n", 3), ("pgfault 12\n", 0), (None, 0)],
)
def test_the_system_counts_what_it_kills(
    monkeypatch: pytest.MonkeyPatch, counters: str | None, kills: int
) -> None:
    """None: a system without such counters."""

    def opened(path: str) -> StringIO:
        assert path == "/proc/vmstat"
        if counters is None:
            raise FileNotFoundError(path)
        return StringIO(counters)

    monkeypatch.setattr(forkserver, "open", opened, raising=False)
    assert forkserver.memory_kills() == kills
