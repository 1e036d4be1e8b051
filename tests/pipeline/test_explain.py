"""A cell explains itself: by key or label, with what is on disk and what is not."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from project import HOME
from wording import one_line

from fedcore.base.errors import SpecError
from fedcore.base.files import canonical_json, sha256_text
from fedcore.execution.machine import commit
from pipeline.catalogue import Catalogue
from pipeline.cli.lookup import cell_facts, text
from pipeline.papers import catalogue_of

REPORT = "reports/fedomw/table3.csv"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return catalogue_of(HOME / "params.yaml", "demo")


@pytest.mark.parametrize(
    ("report", "row", "column"),
    [
        (REPORT, "fedomw", "letter"),
        ("reports/fedomw/table3.standalone.tex", "FedOMW", "letter"),
        ("fedomw/table3", "fedOMW", "LETTER"),
    ],
)
def test_a_cell_is_found_by_key_and_by_label(
    catalogue: Catalogue, report: str, row: str, column: str
) -> None:
    cell = cell_facts(catalogue, report, row, column)
    keys = {"paper": "fedomw", "target": "table3", "row": "fedomw", "column": "letter"}
    assert {name: cell[name] for name in keys} == keys
    expected = catalogue.cells("fedomw", "table3")["fedomw", "letter"]
    assert [entry["run"] for entry in cell["runs"]] == [run.folder for run in expected]


def test_reports_at_the_top_are_the_primary_paper_s(catalogue: Catalogue) -> None:
    cell = cell_facts(catalogue, "reports/table1.tex", "rFedAvg+", "MNIST Sim 0%")
    assert (cell["paper"], cell["row"], cell["column"]) == ("rfedavg", "rfedavg_plus", "mnist-sim0")
    assert cell["column_label"] == "MNIST Sim 0%"


def test_facts_are_those_of_the_files(catalogue: Catalogue, tmp_path: Path) -> None:
    first, second = catalogue.cells("fedomw", "table3")["fedomw", "letter"]
    folder = tmp_path / first.folder
    folder.mkdir(parents=True)
    summary = {
        "status": "completed",
        "final": {"test_accuracy": 0.5},
        "data_sha256": "d",
        "partition_sha256": "p",
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    times = {"seconds": 1.5, "finished": "2023-01-01T00:00:00Z", "device": "cpu", "commit": "abc"}
    (folder / "timing.json").write_text(json.dumps({**times, "peak_mb": 7}))
    run, missing = cell_facts(catalogue, REPORT, "fedomw", "letter", tmp_path)["runs"]
    planned = {"seed": first.seed, "code": first.code, "partition": first.partition}
    assert run["facts"] == {**planned, "spec": sha256_text(canonical_json(first.spec)), **summary, **times}
    assert missing["facts"]["status"] == "not run yet"
    (folder / "timing.json").write_text(json.dumps({**times, "commit": "", "device": None}))
    unsaid, _ = cell_facts(catalogue, REPORT, "fedomw", "letter", tmp_path)["runs"]
    assert unsaid["facts"] == {k: v for k, v in run["facts"].items() if k not in {"commit", "device"}}
    (folder / "timing.json").write_text(json.dumps(times))
    assert (run["facts"]["seed"], missing["facts"]["seed"]) == (first.seed, second.seed)
    shown = "\n".join(text(cell_facts(catalogue, REPORT, "fedomw", "letter", tmp_path)))
    for part in (first.folder, second.folder, "abc", "2023-01-01T00:00:00Z", "not run yet"):
        assert part in shown


@pytest.mark.parametrize(
    ("report", "row", "column", "said"),
    [
        (REPORT, "FedOMV", "letter", "no row 'FedOMV' (did you mean 'FedOMW'?); known: fedavg (FedAvg)"),
        (REPORT, "fedomw", "numbers", "no column 'numbers'"),
        ("reports/fedomw/table9.csv", "fedomw", "letter", "reports/fedomw/table9: no such report"),
    ],
)
def test_what_is_not_there_is_one_line(
    catalogue: Catalogue, report: str, row: str, column: str, said: str
) -> None:
    with pytest.raises(SpecError) as refused:
        cell_facts(catalogue, report, row, column)
    assert said in str(refused.value)
    one_line(refused.value)


def test_a_folder_without_git_has_no_commit(tmp_path: Path) -> None:
    assert commit(tmp_path) == ""
    assert commit(HOME / "pipeline") == ""


def test_a_commit_that_lacks_what_runs_has_a_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> str:
        commit.cache_clear()
        return commit(tmp_path)[10:]

    monkeypatch.setenv("FEDCORE_PLUGINS", os.pathsep.join([str(tmp_path / "mine"), str(tmp_path.parent)]))
    (tmp_path / "read.me").write_text("one")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for call in (["init", "-q"], ["add", "read.me"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *call], cwd=tmp_path, check=True)
    (tmp_path / "notes.txt").write_text("no code")
    assert seen() == ""
    for place in ("fedcore/more.py", "studies/own.yaml", "mine/algorithms/own.py"):
        file = tmp_path / place
        file.parent.mkdir(parents=True)
        file.write_text("new")
        assert seen() == "+", place
        file.unlink()
    (tmp_path / "read.me").write_text("two")
    assert seen() == "+"
    commit.cache_clear()
