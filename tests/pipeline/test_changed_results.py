"""Reports are made of unchanged results only, and name what they refuse."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from project import parameters, seal, seal_partition
from wording import one_line

from fedcore.base.errors import DataError
from fedcore.base.files import canonical_json, sha256_text
from pipeline.catalogue import Catalogue
from pipeline.catalogue.targets import PlannedRun
from pipeline.papers import build_catalogue
from pipeline.reports import results
from pipeline.reports.results import RunFacts

PAPER = "rfedavg"
TARGETS = ("table3", "fig2", "fig11")


@pytest.fixture(scope="module")
def made() -> Catalogue:
    return build_catalogue(parameters(PAPER) | {"primary_paper": PAPER})


def finish(run: PlannedRun, root: Path) -> None:
    folder = root / run.folder
    folder.mkdir(parents=True, exist_ok=True)
    summary = {
        "final": {"test_accuracy": 0.5},
        "spec_sha256": sha256_text(canonical_json(run.spec)),
        "data_note": "made up",
        "data_state": "synthetic",
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    rounds = {"round": [0, 1], "test_accuracy": [0.1, 0.5], "train_loss": [2.0, 1.0]}
    pd.DataFrame(rounds).to_csv(folder / "history.csv", index=False)
    (folder / "clients.csv").write_text("client,test_accuracy\n0,0.5\n")
    seal(folder, run.spec)
    (root / run.partition).mkdir(parents=True, exist_ok=True)
    (root / run.partition / "stats.json").write_text("{}")
    seal_partition(root / run.partition)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a digit of the summary": (
        lambda run: (run / "summary.json").write_text(
            (run / "summary.json").read_text().replace("0.5", "0.6")
        ),
        "summary.json is changed",
    ),
    "a history cut short": (
        lambda run: (run / "history.csv").write_bytes((run / "history.csv").read_bytes()[:-5]),
        "history.csv is changed",
    ),
    "a history taken away": (lambda run: (run / "history.csv").unlink(), "history.csv is missing"),
    "a summary taken away": (lambda run: (run / "summary.json").unlink(), "summary.json is missing"),
    "no provenance": (lambda run: (run / "provenance.json").unlink(), "provenance.json is missing"),
    "a time made up": (lambda run: (run / "timing.json").write_text('{"seconds": 1}'), "timing.json is"),
    "another specification": (
        lambda run: (run / "spec.yaml").write_text("seed: 1\n"),
        "spec.yaml is changed",
    ),
}


@pytest.fixture(scope="module")
def root(made: Catalogue, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all runs of the targets below, finished."""
    folder = tmp_path_factory.mktemp("results")
    for run in {run.folder: run for target in TARGETS for run in made.needed(PAPER, target)}.values():
        finish(run, folder)
    return folder


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_report_refuses_a_changed_run_and_names_it(
    target: str, damage: str, made: Catalogue, root: Path
) -> None:
    runs = made.needed(PAPER, target)
    spoil, message = DAMAGES[damage]
    spoil(root / runs[-1].folder)
    with pytest.raises(DataError) as refused:
        made.sources(PAPER, target, root).build({})
    line = str(refused.value)
    assert f"{root / runs[-1].folder}: {message}" in line
    assert line.endswith("delete the folder and build it again)")
    assert not any(str(root / run.folder) in line for run in runs[:-1])
    shutil.rmtree(root / runs[-1].folder)
    finish(runs[-1], root)


def test_all_that_is_wrong_is_named_at_once(made: Catalogue, tmp_path: Path) -> None:
    runs = made.needed(PAPER, "table3")
    for run in runs:
        finish(run, tmp_path)
    results.refuse_changed(runs, tmp_path)
    for run in runs[:2]:
        (tmp_path / run.folder / "history.csv").unlink()
    (tmp_path / runs[5].partition / "partition.npz").write_bytes(b"other rows")
    with pytest.raises(DataError) as refused:
        results.refuse_changed(runs, tmp_path)
    for named in (runs[0].folder, runs[1].folder, f"{runs[5].partition}: partition.npz is changed"):
        assert named in str(refused.value)
    for run in runs:
        shutil.rmtree(tmp_path / run.folder)
    with pytest.raises(DataError, match=r"partition\.npz is changed"):
        results.refuse_changed(runs, tmp_path)
    shutil.rmtree(tmp_path / runs[5].partition)
    results.refuse_changed(runs, tmp_path)


def test_a_change_between_two_looks_is_seen_and_files_are_hashed_once(
    made: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run, *_) = made.needed(PAPER, "table1")
    finish(run, tmp_path)
    looks = []

    def counted(folder: Path) -> str:
        looks.append(folder)
        return ""

    with monkeypatch.context() as patched:
        patched.setattr(results, "changed", counted)
        for _ in range(3):
            facts = RunFacts(run, tmp_path)
            assert facts.summary
            assert len(facts.history) == 2
        assert looks == [tmp_path / run.folder]
    history = tmp_path / run.folder / "history.csv"
    history.write_text(history.read_text() + "2,0.9,0.5\n")
    for name in ("summary", "history", "timing"):
        with pytest.raises(DataError, match=r"history\.csv is changed"):
            getattr(RunFacts(run, tmp_path), name)


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (
            "summary.json",
            '{"test_accuracy": 0.5}',
            "[0.5]",
            r"summary\.json: final: expected numbers by name",
        ),
        (
            "summary.json",
            '{"test_accuracy": 0.5}',
            '{"test_accuracy": "high"}',
            "final: expected numbers by name",
        ),
        (
            "summary.json",
            '{"test_accuracy": 0.5}',
            '{"test_accuracy": true}',
            "final: expected numbers by name",
        ),
        ("history.csv", "1,0.5", "1,high", r"history\.csv: test_accuracy: expected numbers"),
        (
            "history.csv",
            "round,test_accuracy,train_loss\n0,0.1,2.0\n1,0.5,1.0\n",
            "",
            r"history\.csv: no table",
        ),
        ("history.csv", "1,0.5,1.0", '1,0.5,1.0,7,8\n"', r"history\.csv: no table"),
    ],
)
def test_wrong_types_below_a_right_seal_are_one_line(
    made: Catalogue, tmp_path: Path, name: str, old: str, new: str, said: str
) -> None:
    run = made.needed(PAPER, "fig2")[0]
    finish(run, tmp_path)
    path = tmp_path / run.folder / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    seal(path.parent, run.spec)
    with pytest.raises(DataError, match=said) as refused:
        RunFacts(run, tmp_path).table("history.csv")
    one_line(refused.value)
