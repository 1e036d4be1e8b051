"""`fedcore paper new`: a folder and a section that build as they are; what is there stays."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import forked
import pytest
from copies import copy_folder

HOME = Path(__file__).parents[2]
NEW = ("paper", "new", "mini", "--data", "mnist", "--edition", "demo", "--partition", "iid,dirichlet:0.1")


def fedcore(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return forked.call(folder, ["python", "-m", "pipeline", *words])


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("pipeline", "fedcore"):
        copy_folder(HOME / name, tmp_path / name)
    shutil.copy(HOME / "params.yaml", tmp_path)
    return tmp_path


def test_a_new_paper_has_reports_and_lets_the_rest_be(checkout: Path) -> None:
    before = (checkout / "params.yaml").read_text()
    process = fedcore(checkout, *NEW, "--title", 'Its "Own"\nPaper')
    assert process.returncode == 0, process.stderr
    after = (checkout / "params.yaml").read_text()
    start = after.index("\n  mini:\n")
    end = after.index("\nscales:\n", start)
    assert after[:start] + after[end:] == before
    files = {path.name for path in (checkout / "pipeline/papers/mini").iterdir()}
    assert files == {"__init__.py", "README.md", "published.csv", "claims.yaml"}
    listed = fedcore(checkout, "targets").stdout
    assert "reports/mini/table1                  4 runs" in listed, "two seeds of demo scale, two splits"
    assert "reports/mini/fig1 " in listed
    again = fedcore(checkout, *NEW)
    assert again.returncode != 0
    assert "'mini' is there already, expected a new name" in again.stderr
    assert (checkout / "params.yaml").read_text() == after


def test_what_cannot_be_written_leaves_nothing(checkout: Path) -> None:
    before = (checkout / "params.yaml").read_text()
    for words, message in (
        (("paper", "new", "Mini", "--data", "mnist"), "got 'Mini', expected a name of the form"),
        (("paper", "new", "mini", "--data", "mnits"), "mnits"),
        (("paper", "new", "radfed", "--data", "mnist"), "'radfed' is there already"),
        (
            ("paper", "new", "mini", "--data", "mnist", "--partition", "dirichlet:-1"),
            "error: datasets.mnist.splits.dirichlet__1.alpha: got -1, expected",
        ),
    ):
        process = fedcore(checkout, *words)
        assert process.returncode != 0
        assert message in process.stderr
    assert not (checkout / "pipeline/papers/mini").exists()
    assert (checkout / "params.yaml").read_text() == before
