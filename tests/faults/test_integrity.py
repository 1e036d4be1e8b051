"""Every changed byte in results is found, and so is what doesn't belong there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from fedcore.cli.main import app
from fedcore.execution.integrity import changed, check, read_sealed, sealed
from fedcore.execution.runner import Settings, run

SPEC = {
    "data": {"name": "quadratics"},
    "model": {"name": "scalar_quadratic"},
    "algorithm": {"name": "scaffold"},
    "training": {"rounds": 3, "batch_size": "full", "lr": 0.02},
    "dtype": "float64",
}
FILES = ("spec.yaml", "history.csv", "summary.json", "timing.json", "provenance.json", "model.npz")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder of results with two seeds of one method and a partition."""
    for seed in (0, 1):
        spec = {**SPEC, "seed": seed}
        settings = Settings(device="cpu", save_model=True, provenance={"code": "a" * 64})
        run(spec, tmp_path / "tree/setting/method" / f"seed{seed}", settings)
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(SPEC))
    result = CliRunner().invoke(
        app,
        [
            "partition",
            str(tmp_path / "spec.yaml"),
            "--out",
            str(tmp_path / "tree/partitions/p/seed0"),
            "--no-figure",
        ],
    )
    assert result.exit_code == 0, result.output
    return tmp_path / "tree"


def test_sound_results_have_no_problem(tree: Path) -> None:
    report = check(tree)
    assert (len(report.runs), len(report.partitions), report.unfinished, report.problems) == (2, 1, (), ())


def test_any_changed_byte_is_found(tree: Path, record_property: Callable[[str, int], None]) -> None:
    rng = np.random.default_rng(0)
    paths = [tree / "setting/method/seed0" / name for name in FILES]
    paths += [tree / "partitions/p/seed0" / name for name in ("partition.npz", "stats.json")]
    record_property("trials", 25 * len(paths))
    for path in paths:
        content = path.read_bytes()
        for place in rng.choice(len(content), size=25, replace=len(content) < 25):
            other = bytearray(content)
            other[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(other)
            if not _same_json(content, bytes(other)):
                assert {p.folder for p in check(tree).problems} == {path.parent}, (path.name, int(place))
        path.write_bytes(content)
    assert not check(tree).problems


def _same_json(before: bytes, after: bytes) -> bool:
    """Whether two texts are one JSON value, as with other spaces."""
    try:
        return bool(json.loads(before) == json.loads(after))
    except ValueError:
        return False


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tree: Path, name: str) -> None:
    folder = tree / "setting/method/seed1"
    (folder / name).unlink()
    assert name in changed(folder)


def test_a_file_too_many_is_named(tree: Path) -> None:
    folder = tree / "setting/method/seed1"
    (folder / "clients.csv").write_text("client\n")
    assert changed(folder) == "clients.csv is not listed in provenance.json"


def test_a_partition_in_its_folder_does_not_hide_a_run(tree: Path) -> None:
    folder = tree / "setting/method/seed1"
    (folder / "stats.json").write_text(json.dumps(sealed({})))
    (folder / "history.csv").write_text("round\n")
    report = check(tree)
    assert folder in report.runs
    assert [problem.what.split()[:3] for problem in report.problems] == [
        ["history.csv", "is", "changed"],
        ["stats.json", "is", "not"],
    ]


def test_what_is_sealed_is_unchanged_even_if_it_says_nothing(tree: Path) -> None:
    folder = tree / "setting/method/seed1"
    (folder / "timing.json").write_text(json.dumps(sealed({})))
    assert changed(folder) == ""
    (folder / "timing.json").write_text("{}")
    assert changed(folder) == "timing.json is missing, changed or damaged"


def test_mixed_code_is_named(tree: Path) -> None:
    path = tree / "setting/method/seed1/provenance.json"
    provenance = read_sealed(path)
    path.write_text(json.dumps(sealed(provenance | {"code": "b" * 64})))
    (problem,) = check(tree).problems
    assert problem.folder == tree / "setting/method"
    assert problem.what == f"mixed versions of the code: seed0 by {'a' * 12}; seed1 by {'b' * 12}"


def test_the_files_of_two_runs_exchanged(tree: Path) -> None:
    first, second = (tree / "setting/method" / name for name in ("seed0", "seed1"))
    shutil.copy(second / "summary.json", first / "summary.json")
    assert "summary.json is changed" in changed(first)


def test_a_run_that_did_not_end_is_no_problem(tree: Path) -> None:
    begun = tree / "setting/other/seed0"
    begun.mkdir(parents=True)
    (begun / "checkpoint.npz").write_bytes(b"")
    report = check(tree)
    assert report.unfinished == (begun,)
    assert not report.problems


def test_the_command_names_the_folder_and_fails(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree.parent)
    sound = CliRunner().invoke(app, ["verify", "tree"])
    assert (sound.exit_code, sound.stdout) == (0, "")
    history = tree / "setting/method/seed0/history.csv"
    history.write_bytes(history.read_bytes()[:-3])
    broken = CliRunner().invoke(app, ["verify", "tree"])
    assert broken.exit_code == 1
    assert broken.stdout.startswith("tree/setting/method/seed0: history.csv is changed")
