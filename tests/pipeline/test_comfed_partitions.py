"""ComFed on its two partitions: the text's draw per class, and the draw per client of the kept runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pretended import catalogue, finish, one_line

from fedcore.base.files import digest
from fedcore.base.options import validate
from fedcore.base.registry import find
from fedcore.data import Dataset, Rows, Source
from fedcore.execution.runner import load_data
from fedcore.partitions import PartitionOptions
from fedcore.partitions.build import make
from fedcore.spec import parse
from pipeline.catalogue import Catalogue
from pipeline.fidelity import reference
from pipeline.fidelity.scoreboard import claims, scoreboard
from pipeline.papers import catalogue_of, papers
from pipeline.papers.comfed import FOLLOWED, PARTITIONS, STEPS
from pipeline.reports.kept import REFERENCE
from pipeline.reports.results import published_cells

HOME = Path(__file__).parents[2]
NAMES = ("table4", "early", "fig2", *STEPS)


@pytest.fixture(scope="module")
def made() -> Catalogue:
    return catalogue("comfed", "paper")


@pytest.mark.parametrize("name", NAMES)
def test_a_target_and_its_other_reading_differ_in_the_partition_alone(made: Catalogue, name: str) -> None:
    by_class, by_client = (made.cells("comfed", f"{name}{ending}") for ending in PARTITIONS)
    assert by_class.keys() == by_client.keys()
    for cell, runs in by_class.items():
        for run, again in zip(runs, by_client[cell], strict=True):
            assert run.spec["partition"]["convention"] == "by_class_min"
            assert again.spec["partition"]["convention"] == "by_client"
            assert {**again.spec, "partition": None} == {**run.spec, "partition": None}
            assert again.spec["partition"] == run.spec["partition"] | {"convention": "by_client"}


def test_early_training_has_the_first_three_printed_columns(made: Catalogue) -> None:
    printed = published_cells(HOME / "pipeline/papers/comfed/published.csv", "table4")
    cells = made.cells("comfed", "early")
    assert [*cells] == [(row, column) for row in FOLLOWED for column in ("100", "200", "300")]
    assert cells.keys() <= printed.keys()
    (longest,) = {run.spec["training"]["rounds"] for runs in cells.values() for run in runs}
    assert longest == 300


def test_every_client_has_ten_rows_at_demo_scale_too() -> None:
    partition = parse(catalogue("comfed", "demo").needed("comfed", "table4")[0].spec).partition
    dataset, _ = load_data('{"edition":"demo","name":"cifar10"}', Source(HOME / "data"))
    for seed in (0, 1, 2):
        sizes = [len(rows) for rows in make(partition.plugin, partition.options, dataset, seed).clients]
        assert min(sizes) >= 10
        assert sum(sizes) == len(dataset.train)


def test_sizes_are_skewed_by_class_and_nearly_equal_by_client() -> None:
    """On as many labels as CIFAR-10 has; the page on fidelity gives these figures of its rows."""
    rows = Rows(np.zeros((50_000, 1), np.float32), np.repeat(np.arange(10), 5000))
    dataset = Dataset("cifar10", rows, rows, 10, "synthetic", "")
    plugin = find("partition", "dirichlet")
    sizes, two = {}, {}
    for convention in ("by_class_min", "by_client"):
        settings = {"clients": 100, "alpha": 0.1, "convention": convention}
        options = validate(plugin.options, settings, "partition")
        assert isinstance(options, PartitionOptions)
        counts = [np.bincount(rows.y[idx], minlength=10) for idx in make(plugin, options, dataset, 0).clients]
        sizes[convention] = np.sum(counts, axis=1)
        two[convention] = np.mean(np.sort(counts)[:, -2:].sum(axis=1) / sizes[convention])
    assert sizes["by_class_min"].min() >= 10
    assert sizes["by_class_min"].std() > 300 > 100 > sizes["by_client"].std()
    assert sizes["by_client"].min() > 200
    assert all(share > 0.8 for share in two.values())


@pytest.mark.slow
def test_kept_runs_of_a_partition_stand_in_reports_of_that_reading_alone() -> None:
    kept = catalogue_of(HOME / "params.yaml", "paper", HOME / "data/editions.yaml")
    runs = pd.read_parquet(HOME / REFERENCE / "comfed/runs.parquet")["run"]
    drawn = {run: kept.index[run].spec["partition"]["convention"] for run in runs}
    assert {*drawn.values()} == {"by_client", "by_class_min"}
    hashes = {digest(kept.index[run].spec)[:12]: convention for run, convention in drawn.items()}
    for path in (HOME / REFERENCE / "comfed").glob("[!r]*.csv"):
        frame = pd.read_csv(path)
        specs = {spec for text in frame.get("specs", pd.Series()).dropna() for spec in text.split()}
        expected = "by_client" if path.stem.endswith("_by_client") else "by_class_min"
        assert {hashes[spec] for spec in specs} <= {expected}, path
    lines = scoreboard(HOME / REFERENCE).set_index(["paper", "reading"])
    assert one_line(lines[["measured", "in_part"]], "comfed", "paper").tolist() == [16, 0]
    assert one_line(lines[["measured", "in_part"]], "comfed", "by_client").tolist() == [16, 0]


def test_a_claim_is_judged_on_each_reading_by_that_readings_report(made: Catalogue, tmp_path: Path) -> None:
    """Only the draw per client was measured: its claims are decided there, the text's not."""
    cells = made.cells("comfed", "table4")
    lines = [(row, column, 50.0 + (row == "prox_yogi")) for row, column in cells]
    frame = pd.DataFrame(lines, columns=["row", "column", "mean"]).assign(n=1, seeds=1, scale="paper")
    (tmp_path / "comfed").mkdir()
    frame.to_csv(tmp_path / "comfed" / "table4_by_client.csv", index=False)
    by_client = claims("comfed", "by_client", tmp_path).set_index("id")
    assert set(by_client["target"]) == {"table4_by_client", "early_by_client", "fig2_swings_by_client"}
    assert by_client.loc["prox-yogi-best", "verdict"] == "reproduced"
    decided = claims("comfed", "paper", tmp_path).query("target != ''")["verdict"]
    assert set(decided) == {"not enough runs"}


def test_every_title_of_the_other_reading_says_so() -> None:
    for name, target in papers()["comfed"].targets.items():
        assert ("with a Dirichlet draw per client" in target.title) == name.endswith("_by_client")


def test_distances_of_a_search_stay_what_they_are_in_a_second_sitting(
    made: Catalogue, tmp_path: Path
) -> None:
    cells = made.cells("comfed", "calibration_prox")
    for mu, root in (("mu 0.001", tmp_path / "a"), ("mu 1", tmp_path / "b"), ("in_use", tmp_path / "c")):
        for run in cells[mu, "fedprox"]:
            finish(run, root, 0.3)
            reference.keep(made, ["comfed/calibration_prox"], root, tmp_path / "kept")
    table = pd.read_csv(tmp_path / "kept/comfed/calibration_prox.csv").set_index(["row", "column"])
    away = table["mean"].xs("distance", level="column").dropna()
    assert away.to_dict() == pytest.approx({"mu 0.001": 4.8, "mu 1": 4.8, "in_use": 4.8})
