"""``fedcore partition``: what it writes, that it writes the same again, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml
from matplotlib.collections import PathCollection
from matplotlib.patches import Rectangle, StepPatch
from typer.testing import CliRunner
from wording import one_line

from fedcore.base import registry
from fedcore.base.errors import BrokenContract, FedcoreError, SpecError
from fedcore.base.files import sha256_file
from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.cli.run import partition
from fedcore.data import Dataset, Rows, Source
from fedcore.partitions import figure
from fedcore.partitions.file import identity, load
from fedcore.partitions.stats import c_score, entropies, pairwise_distances
from fedcore.spec import load as load_spec

FILES = ("partition.npz", "stats.json", "partition.png", "partition.svg")


def run(spec: dict[str, Any], folder: Path, out: str, *more: str) -> Path:
    app = typer.Typer()
    app.command()(partition)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    result = CliRunner().invoke(app, [str(folder / "spec.yaml"), "--out", str(folder / out), *more])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return folder / out


def test_writes_partition_statistics_and_figure(spec: dict[str, Any], tmp_path: Path) -> None:
    out = run(spec, tmp_path, "out")
    loaded, origin = load(out / "partition.npz")
    checked = load_spec(tmp_path / "spec.yaml")
    assert [len(rows) for rows in loaded.clients] == [40, 60, 80, 100, 120]
    assert origin == identity(checked.partition.resolved(), checked.data.resolved(), 3, origin["data_sha256"])
    stats = json.loads((out / "stats.json").read_text())
    assert stats["sizes"] == {"min": 40, "max": 120, "mean": 80, "std": pytest.approx(800**0.5), "total": 400}
    assert stats["c_score"] == pytest.approx(1.50333333333)
    assert stats["empty_clients"] == []
    assert stats["data"] == "npz"
    assert (out / "partition.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "partition.svg").read_text()


def test_twice_the_same_bytes(spec: dict[str, Any], tmp_path: Path) -> None:
    spec["partition"] = {"name": "dirichlet", "convention": "by_class", "alpha": 0.1, "clients": 50}
    first, second = run(spec, tmp_path, "a"), run(spec, tmp_path, "b")
    for name in FILES:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_without_the_figure(spec: dict[str, Any], tmp_path: Path) -> None:
    out = run(spec, tmp_path, "out", "--no-figure")
    assert sorted(path.name for path in out.iterdir()) == ["partition.npz", "stats.json"]


def test_more_clients_than_rows(spec: dict[str, Any], tmp_path: Path) -> None:
    spec["partition"] = {"name": "iid", "clients": 450}
    stats = json.loads((run(spec, tmp_path, "out") / "stats.json").read_text())
    assert stats["empty_clients"] == list(range(400, 450))
    assert stats["sizes"]["min"] == 0
    assert "50 of 450 clients are empty" in stats["note"]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"name": "similarity", "clients": 4, "similarity": 1.4}, "partition.similarity: got 1.4"),
        ({"name": "similarty", "clients": 4}, "partition.name: no partition named 'similarty' (did you mean"),
        (
            {"name": "iid", "clients": 4, "client": 4},
            "partition.client: unknown key (did you mean 'clients'?)",
        ),
        ({"name": "natural", "clients": 9}, "partition.clients: got 9, expected at most 5"),
    ],
)
def test_refuses_bad_input(
    section: dict[str, Any], message: str, spec: dict[str, Any], tmp_path: Path
) -> None:
    spec["partition"] = section
    with pytest.raises(FedcoreError) as caught:
        run(spec, tmp_path, "out")
    assert message in str(caught.value)
    one_line(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("holds", ["summary.json", "checkpoint.npz"])
def test_does_not_write_into_a_run(holds: str, spec: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / holds).touch()
    with pytest.raises(SpecError, match=f"out: holds {holds} of a run, expected a folder without one$"):
        run(spec, tmp_path, "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [holds]


def test_does_not_write_over_the_partition_it_reads(spec: dict[str, Any], tmp_path: Path) -> None:
    path = run(spec, tmp_path, "out", "--no-figure") / "partition.npz"
    before, sha256 = path.read_bytes(), sha256_file(path)
    again = {**spec, "partition": {"name": "file", "path": str(path), "sha256": sha256}, "seed": 4}
    with pytest.raises(SpecError, match=r"partition\.npz: is read, and would be replaced; take another"):
        run(again, tmp_path, "out", "--no-figure")
    assert path.read_bytes() == before
    assert load(run(again, tmp_path, "other", "--no-figure") / "partition.npz")[1]["seed"] == 4


def _labels_beyond(options: Any, source: Source) -> Dataset:
    rows = Rows(np.zeros((2, 1), np.float32), np.array([0, 7]))
    return Dataset("broken", rows, rows, classes=2, state="synthetic", note="")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda options, source: None, "returned NoneType, expected a Dataset"),
        (_labels_beyond, "train: labels from 0 to 7, expected 0 to 1"),
    ],
)
def test_refuses_data_that_no_run_accepts(
    build: Any, message: str, spec: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._REGISTERED["data"], "broken", Plugin("broken", Options, build, "", ""))
    registry.plugins.cache_clear()
    spec |= {"data": {"name": "broken"}, "partition": {"name": "iid", "clients": 2}}
    with pytest.raises(BrokenContract, match=f"^data 'broken': {message}$"):
        run(spec, tmp_path, "out")
    registry.plugins.cache_clear()
    assert not (tmp_path / "out").exists()


def test_figures_hold_what_they_show(tmp_path: Path) -> None:
    few = np.array([[4, 0, 0], [0, 9, 0], [0, 0, 0]])
    upper, lower = figure.draw(few, "title", "subtitle").axes
    (dots,) = upper.collections
    assert isinstance(dots, PathCollection)
    np.testing.assert_array_equal(dots.get_offsets(), [[0, 0], [1, 1]])
    areas = dots.get_sizes()
    assert areas[1] / areas[0] == pytest.approx(9 / 4)
    assert [bar.get_height() for bar in lower.patches if isinstance(bar, Rectangle)] == [4, 9, 0]
    many = np.random.default_rng(0).integers(0, 500, size=(60, 5))
    many[7] = 0
    upper, lower = figure.draw(many, "title", "subtitle").axes
    assert len(upper.collections) == 5
    top = np.asarray(upper.collections[-1].get_paths()[0].vertices)
    assert top[:, 1].max() == pytest.approx(1)
    assert 0.0 in top[top[:, 0] == 6.5, 1]
    assert 0.0 not in top[top[:, 0] == 3.5, 1]
    steps = lower.patches[0]
    assert isinstance(steps, StepPatch)
    np.testing.assert_array_equal(steps.get_data()[0], many.sum(axis=1))
    skewed = figure.draw(np.array([[1], [1000]]), "title", "subtitle")
    assert skewed.axes[1].get_yscale() == "log"
    figure.write(figure.draw(np.zeros((3, 2), int), "nothing", ""), tmp_path / "empty")
    assert (tmp_path / "empty.png").exists()


def test_statistics_on_known_counts() -> None:
    assert c_score(np.array([[5, 5], [1, 1]])) == 0
    assert c_score(np.eye(10, dtype=int)) == pytest.approx(1.8)
    assert c_score(np.array([[3, 0], [0, 1]])) == pytest.approx((0.5 + 1.5) / 2)
    assert c_score(np.array([[3, 0], [0, 1], [0, 0]])) == c_score(np.array([[3, 0], [0, 1]]))
    assert c_score(np.zeros((2, 3), int)) == 0
    np.testing.assert_allclose(entropies(np.array([[2, 2], [7, 0], [0, 0]])), [np.log(2), 0])
    np.testing.assert_allclose(pairwise_distances(np.array([[4, 0], [0, 2], [1, 1]])), [1, 0.5, 0.5])
