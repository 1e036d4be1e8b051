"""One damaged folder of results hides no other: all that is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedcore.base.files import sha256_file
from fedcore.execution import integrity
from fedcore.execution.integrity import check
from fedcore.execution.runner import Settings, run

SPEC = {
    "data": {"name": "quadratics"},
    "model": {"name": "scalar_quadratic"},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 1, "batch_size": "full", "lr": 0.02},
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for seed in (0, 1, 2):
        run({**SPEC, "seed": seed}, tmp_path / f"m/seed{seed}", Settings(device="cpu"))
    return tmp_path


def found(tree: Path) -> dict[str, list[str]]:
    named: dict[str, list[str]] = {}
    for problem in check(tree).problems:
        named.setdefault(problem.folder.name, []).append(problem.what)
    return named


@pytest.mark.parametrize(
    "extra",
    ["day: 2023-01-02\n", "1: a\n", "x: !!set {a, b}\n", "x: " + "[" * 5000 + "\n", "x: !!binary YQ==\n"],
    ids=["date", "integer key", "set", "brackets", "bytes"],
)
def test_a_specification_that_is_no_json_hides_nothing(tree: Path, extra: str) -> None:
    first, last = tree / "m/seed0", tree / "m/seed2"
    (first / "spec.yaml").write_text((first / "spec.yaml").read_text() + extra)
    (first / "summary.json").write_text("{}")
    (last / "history.csv").write_text("round\n0\n")
    named = found(tree)
    assert set(named) == {"seed0", "seed2"}
    assert any(what.startswith("summary.json is changed") for what in named["seed0"])
    assert any(what.startswith("spec.yaml is") for what in named["seed0"])
    assert any(what.startswith("history.csv is changed") for what in named["seed2"])


def test_an_unreadable_file_hides_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> str:
        if path == tree / "m/seed0/history.csv":
            raise PermissionError(13, "Permission denied")
        return sha256_file(path)

    monkeypatch.setattr(integrity, "sha256_file", refuse)
    (tree / "m/seed0/summary.json").write_text("{}")
    (tree / "m/seed1/summary.json").write_text("{}")
    named = found(tree)
    assert "history.csv can't be read ([Errno 13] Permission denied)" in named["seed0"]
    assert all(any("summary.json is changed" in what for what in named[seed]) for seed in ("seed0", "seed1"))
