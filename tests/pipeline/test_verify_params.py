"""`fedcore verify` beside a params.yaml: runs that it doesn't describe, other code, other partitions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pretended import catalogue, finish
from project import parameters, seal
from typer.testing import CliRunner

from fedcore.base.files import canonical_json, sha256_text
from fedcore.cli.main import app
from fedcore.execution.integrity import check as integrity
from pipeline.catalogue.targets import PlannedRun
from pipeline.workflow.expected import check

PAPER, TARGET = "rfedavg", "theory"
Record = Callable[[str, int], None]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with params.yaml and the runs of one small figure, all as described."""
    config = parameters(PAPER) | {"primary_paper": PAPER}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    for run in runs():
        finish(run, tmp_path, 0.5)
        seal(tmp_path / run.folder, run.spec, code=run.code)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def runs() -> list[PlannedRun]:
    return catalogue(PAPER).needed(PAPER, TARGET)


def problems(home: Path) -> dict[str, str]:
    """Return how the runs of a folder differ from what params.yaml describes, by their place."""
    report = integrity(home / "results")
    wrong = check(report, home / "params.yaml")
    return {problem.folder.relative_to(home).as_posix(): problem.what for problem in wrong}


def test_runs_as_described_have_no_problem(home: Path) -> None:
    assert problems(home) == {}
    assert CliRunner().invoke(app, ["verify", "results"]).exit_code == 0


def test_a_run_of_other_parameters_is_named(home: Path, record_property: Record) -> None:
    config = yaml.safe_load((home / "params.yaml").read_text())
    config["papers"][PAPER]["datasets"]["convex"]["training"]["lr"] = 0.5
    (home / "params.yaml").write_text(yaml.safe_dump(config))
    wrong = problems(home)
    record_property("trials", len(wrong))
    assert set(wrong) == {run.folder for run in runs()}
    assert all("describes no such run at demo scale" in what for what in wrong.values())
    result = CliRunner().invoke(app, ["verify", "results"])
    assert result.exit_code == 1
    assert result.stdout.count("describes no such run") == len(wrong)


def test_a_specification_that_is_not_the_described_one_is_named(home: Path) -> None:
    first = runs()[0]
    other = {**first.spec, "seed": 99}
    summary = home / first.folder / "summary.json"
    stated = json.loads(summary.read_text())
    summary.write_text(json.dumps(stated | {"spec_sha256": sha256_text(canonical_json(other))}))
    seal(home / first.folder, other, code=first.code)
    assert list(problems(home)) == [first.folder]
    assert "its specification is not the one that" in problems(home)[first.folder]


def test_a_run_of_other_code_is_named(home: Path) -> None:
    for run in (run for run in runs() if run.group == runs()[0].group):
        seal(home / run.folder, run.spec, code="0123456789abcdef")
        problem = problems(home)[run.folder]
        assert problem == f"made by other code or data files (0123456789ab, now {run.code[:12]})"


def test_a_run_of_another_partition_is_named(home: Path) -> None:
    first = runs()[0]
    division = catalogue(PAPER).partitions[first.partition]
    (home / "spec.json").write_text(json.dumps(dict(division.spec)))
    arguments = ["partition", "spec.json", "--out", first.partition, "--no-figure", "--code", division.code]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    summary = home / first.folder / "summary.json"
    stated = json.loads(summary.read_text())
    summary.write_text(json.dumps(stated | {"partition_sha256": "0" * 64}))
    seal(home / first.folder, first.spec, code=first.code)
    sharing = {run.folder for run in runs() if run.partition == first.partition}
    assert set(problems(home)) == sharing
    assert problems(home)[first.folder].startswith(f"made with another partition than {first.partition}/")
