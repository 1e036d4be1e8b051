"""RADFed's targets: folds, relative numbers, and partitions before and after random moves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pretended import one_line
from project import parameters, seal, seal_partition

from fedcore.base.errors import DataError
from fedcore.base.files import canonical_json, sha256_text
from pipeline.catalogue import Catalogue, weights
from pipeline.catalogue.targets import PlannedRun
from pipeline.papers import build_catalogue, papers, published
from pipeline.papers.radfed.settings import SETTINGS, metric_of
from pipeline.papers.radfed.tables import example, late_score_of, relative_to_fedavg, score_of
from pipeline.reports.drawings import Inputs
from pipeline.reports.pooling import pooled, skew, variation
from pipeline.reports.results import RunFacts, read
from pipeline.reports.tables import Table, tidy

TABLE2 = {
    "mnist_1": (22, 22, 0.9),
    "mnist_01": (15, 15, 0.9),
    "cifar10": (15, 100, 0.9),
    "covcls_g": (22, 22, 0.9),
    "covfeat_l": (20, 20, 0.9),
    "shakespeare": (15, 100, 0.8),
    "eicu": (80, 80, 0.9),
}


def catalogue(scale: str) -> Catalogue:
    return build_catalogue(parameters("radfed") | {"scale": scale, "primary_paper": "radfed"})


@pytest.fixture(scope="module")
def paper() -> Catalogue:
    return catalogue("paper")


def test_a_cell_is_five_folds_of_three_seeds(paper: Catalogue) -> None:
    cells = paper.cells("radfed", "table3")
    assert len(cells) == 9 * 10
    runs = cells["radfed", "mnist_1"]
    folds = {(run.seed, run.spec["partition"]["fold"]["index"]) for run in runs}
    assert folds == {(seed, fold) for seed in range(3) for fold in range(5)}
    assert len(cells["radfed", "avg"]) == 9 * 15
    assert len(paper.needed("radfed", "table3")) == 9 * 9 * 15


def test_at_demo_scale_a_cell_is_one_fold() -> None:
    runs = catalogue("demo").cells("radfed", "table3")["fedavg", "covcls_l"]
    assert [(run.seed, run.spec["partition"]["fold"]["index"]) for run in runs] == [(0, 0), (1, 0)]


@pytest.mark.parametrize(("column", "expected"), TABLE2.items())
def test_delays_are_those_of_table_2(paper: Catalogue, column: str, expected: tuple[int, int, float]) -> None:
    cells = paper.cells("radfed", "table3")
    plain, drawn = (cells[row, column][0].spec["algorithm"] for row in ("radfed", "radfed_i"))
    assert (plain["redistributions"], drawn["redistributions"], drawn["gamma"]) == expected


@pytest.mark.parametrize("column", SETTINGS)
def test_fedasync_is_measured_as_often_as_the_others(paper: Catalogue, column: str) -> None:
    spec, others = (paper.cells("radfed", "table3")[row, column][0].spec for row in ("fedasync", "fedavg"))
    assert others["evaluation"]["every"] == 1
    assert spec["training"]["rounds"] // spec["evaluation"]["every"] == others["training"]["rounds"]


def test_partitions_of_table_1_are_drawn_twenty_times_without_folds(paper: Catalogue) -> None:
    cells = paper.cells("radfed", "table1")
    assert [run.seed for run in cells["covfeat", "c_score"]] == list(range(20))
    assert cells["covfeat", "c_score"][0].spec["partition"]["fold"] is None
    (released,) = cells["cifar10_released", "min"]
    assert released.spec["partition"]["legacy_seed"] == 2366
    assert not any(row.endswith("_released") for row, _ in catalogue("demo").cells("radfed", "table1"))


def test_a_mean_over_draws_is_not_judged_beside_one_draw() -> None:
    table = papers()["radfed"].targets["table1"]
    assert isinstance(table, Table)
    assert table.finish
    lines = table.finish(pd.DataFrame({"seeds": [20, 1], "verdict": ["agrees", "differs"]}))
    assert lines["verdict"].to_list() == ["", "differs"]


@pytest.mark.parametrize("row", ["shakespeare", "eicu"])
def test_clients_that_the_data_name_are_there_once(paper: Catalogue, row: str) -> None:
    (run,) = paper.cells("radfed", "table1")[row, "std"]
    assert run.spec["partition"]["name"] == "natural"
    assert run.spec["partition"]["fold"] is None
    assert run.spec["data"]["pool"] is True


def test_table_1_has_the_paper_s_rows(paper: Catalogue) -> None:
    printed = pd.read_csv(published("radfed")).query("target == 'table1'")
    rows = dict.fromkeys(row for row, _ in paper.cells("radfed", "table1") if not row.endswith("_released"))
    assert list(rows) == list(dict.fromkeys(printed["row"]))


def test_images_go_through_a_pre_trained_network_where_it_can_be_fetched(paper: Catalogue) -> None:
    run = paper.cells("radfed", "table3")["radfed", "cifar10"][0]
    assert weights(run) == {"name": "mobilenetv2", "edition": "full"}
    assert "mobilenetv2-full" in paper.data
    demo = catalogue("demo")
    run = demo.cells("radfed", "table3")["radfed", "cifar10"][0]
    assert run.spec["model"]["name"] == "cnn"
    assert weights(run) is None
    assert not any(name.startswith("mobilenetv2") for name in demo.data)
    table = demo.target("radfed", "table3")
    assert isinstance(table, Table)
    assert table.columns(demo.params.papers["radfed"])[0].label == "CIFAR-10 (CNN)"


def finish(
    run: PlannedRun, root: Path, history: dict[str, list[float]] | None = None, **final: float
) -> None:
    """Pretend a finished run on twelve clients."""
    folder = root / run.folder
    folder.mkdir(parents=True, exist_ok=True)
    summary = {"spec_sha256": sha256_text(canonical_json(run.spec)), "clients": 12}
    (folder / "summary.json").write_text(json.dumps({**summary, "final": final}))
    if history:
        pd.DataFrame(history).to_csv(folder / "history.csv", index=False)
    seal(folder, run.spec)


def lines(cells: dict[tuple[str, str], float], **more: Any) -> pd.DataFrame:
    rows = [{"row": row, "column": column, "mean": mean} for (row, column), mean in cells.items()]
    printed: dict[str, Any] = {
        "published_mean": 1.0,
        "published_std": 0.1,
        "published_unit": "relative_percent",
    }
    return pd.DataFrame(rows).assign(
        **{
            **printed,
            "data": "own",
            "data_state": "real",
            "std": 2.0,
            "margin": 1.0,
            "margin_rule": "1 point",
            "scale": "paper",
            "values": "",
            "n": 1,
            **more,
        }
    )


def test_numbers_are_relative_to_fedavg_and_the_average_is_that_of_scores() -> None:
    scores = {("fedavg", "mnist_1"): 80.0, ("fedavg", "eicu"): 40.0, ("fedavg", "avg"): 0.0}
    scores |= {("radfed", "mnist_1"): 84.0, ("radfed", "eicu"): 44.0, ("radfed", "avg"): 0.0}
    frame = lines(scores, n=2)
    frame["values"] = ["a=70 b=90", "a=30 b=50", "", "a=77 b=91", "a=30 b=58", ""]
    frame = relative_to_fedavg(frame).set_index(["row", "column"])
    assert frame.loc[("fedavg", "avg"), "mean"] == pytest.approx(60.0)
    assert frame.loc[("radfed", "mnist_1"), "mean"] == pytest.approx(5.0)
    assert frame.loc[("radfed", "mnist_1"), "std"] == pytest.approx(stdev([10, 100 / 90]))
    assert frame.loc[("radfed", "eicu"), "std"] == pytest.approx(stdev([0, 16]))
    assert frame.loc[[("fedavg", "avg"), ("radfed", "avg")]]["std"].isna().all()
    assert frame.loc[("radfed", "avg"), "mean"] == pytest.approx(100 * 4 / 60)
    assert one_line(frame[["mean", "std"]], "fedavg", "mnist_1").tolist() == [80.0, 2.0]
    assert frame.loc[("radfed", "mnist_1"), "verdict"] == "differs"
    assert frame["data"].tolist() == ["own", "own", ""] * 2, "the average repeats no notes on data"


@pytest.mark.parametrize("column", SETTINGS)
def test_each_data_set_has_the_paper_s_metric(paper: Catalogue, column: str) -> None:
    """The units of the published scores say which metric a column has."""
    printed = pd.read_csv(published("radfed")).query("target == 'table3' and row == 'fedavg'")
    unit = printed.set_index("column").loc[column, "unit"]
    metric = {"percent": "accuracy", "f1_percent": "f1", "auc_percent": "auc"}[str(unit)]
    for run in paper.cells("radfed", "table3")["radfed_m", column]:
        assert metric_of(run) == metric
        assert run.spec["evaluation"]["validation"] is True


def test_the_average_takes_each_data_set_by_its_own_metric(tmp_path: Path) -> None:
    demo = catalogue("demo")
    runs = demo.cells("radfed", "table3")["fedavg", "avg"]
    for run in runs:
        finish(run, tmp_path, test_accuracy=0.1, test_f1=0.4, test_auc=0.7)
    scores = [score_of(RunFacts(run, tmp_path), "avg") for run in runs]
    assert sorted(scores) == pytest.approx([10] * 8 + [40] * 8 + [70] * 2)  # type: ignore[type-var]


def test_late_scores_are_means_over_the_last_sixth_of_a_run(tmp_path: Path) -> None:
    demo = catalogue("demo")
    run = demo.cells("radfed", "table3_late")["fedavg", "eicu"][0]
    measured = {"round": [0.0, 2, 4, 6, 8, 10, 12], "test_auc": [0.1, 0.9, 0.9, 0.9, 0.9, 0.5, 0.6]}
    finish(run, tmp_path, measured, test_auc=0.6)
    assert late_score_of(RunFacts(run, tmp_path), "eicu") == pytest.approx(60), "rounds after the tenth"
    finish(run, tmp_path, {**measured, "round": [0.0, 1, 2, 9, 10, 11, 12]}, test_auc=0.6)
    assert late_score_of(RunFacts(run, tmp_path), "eicu") == pytest.approx(55), "by rounds, not by lines"
    finish(run, tmp_path, measured)
    assert late_score_of(RunFacts(run, tmp_path), "eicu") is None, "diverged: no final measurements"


def test_late_scores_are_of_table_3_s_runs_beside_its_numbers(paper: Catalogue) -> None:
    assert paper.cells("radfed", "table3_late") == paper.cells("radfed", "table3")
    late = paper.target("radfed", "table3_late")
    assert isinstance(late, Table)
    assert (late.beside, late.measure) == ("table3", late_score_of)


def test_a_missing_column_leaves_the_average_open() -> None:
    scores = {("fedavg", "mnist_1"): 80.0, ("fedavg", "eicu"): float("nan"), ("fedavg", "avg"): 50.0}
    frame = relative_to_fedavg(lines(scores)).set_index(["row", "column"])
    assert pd.isna(frame["mean"]["fedavg", "avg"])


def test_a_part_of_the_table_has_no_average() -> None:
    frame = lines({("fedavg", "eicu"): 40.0, ("radfed", "eicu"): 44.0})
    relative = relative_to_fedavg(frame).set_index(["row", "column"])
    assert relative.loc[("radfed", "eicu"), "mean"] == pytest.approx(10)


def test_methods_are_relative_to_fedavg_s_runs_on_the_same_folds() -> None:
    cells = {(row, column): 80.0 for row in ("fedavg", "radfed") for column in ("mnist_1", "eicu", "avg")}
    frame = lines(cells, n=2)
    frame["values"] = ["a/seed0=90 b/seed0=70", "c/seed0=50 d/seed0=60", "", "b/seed0=77", "e/seed0=50", ""]
    relative = relative_to_fedavg(frame).set_index(["row", "column"])
    assert relative.loc[("radfed", "mnist_1"), "mean"] == pytest.approx(10.0), "77 against 70 on fold b"
    assert relative.loc[("radfed", "mnist_1"), "n"] == 1
    assert pd.isna(relative["std"]["radfed", "mnist_1"])
    assert relative.loc[("fedavg", "mnist_1"), "mean"] == 80.0
    assert pd.isna(relative["mean"]["radfed", "eicu"]), "no run of FedAvg shares a fold"
    assert relative.loc[("radfed", "eicu"), "n"] == 0
    assert relative.loc[("radfed", "eicu"), "verdict"] == ""
    assert pd.isna(relative["mean"]["radfed", "avg"])


def test_released_draws_stand_beside_the_same_published_numbers(tmp_path: Path) -> None:
    demo = catalogue("demo")
    table, runs = demo.target("radfed", "table1"), demo.cells("radfed", "table1")["mnist_1", "c_score"][:1]
    assert isinstance(table, Table)
    write_partition(tmp_path / runs[0].partition, {"c_score": 0.5, "sizes": {}})
    cells = {(row, "c_score"): runs for row in ("mnist_1", "mnist_1_released")}
    beside = tidy("radfed", "table1", table, read(cells, tmp_path), published("radfed"))
    assert beside["published_mean"].notna().all()
    assert (beside["difference"] == 0.5 - beside["published_mean"]).all()
    keys = ["published_mean", "published_std", "published_unit", "margin", "margin_rule", "verdict"]
    assert all(beside[keys].nunique(dropna=False) == 1)
    assert set(beside["verdict"]) == {"not tested at demo scale"}, "one draw each"


def write_partition(folder: Path, statistics: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True)
    (folder / "stats.json").write_text(json.dumps(statistics))
    seal_partition(folder)


def found(tmp_path: Path, counts: Mapping[str, list[list[int]] | None]) -> Inputs:
    demo = catalogue("demo")
    cells = demo.cells("radfed", "partition")
    placed = {(stage, key): (replace(runs[0], division=stage),) for (stage, key), runs in cells.items()}
    for (stage, _), (run,) in placed.items():
        write_partition(tmp_path / run.partition, {"label_counts": counts[stage], "c_score": 0.5})
    return Inputs(demo.params.papers["radfed"], read(placed, tmp_path))


def test_a_partition_is_drawn_with_the_largest_client_first(tmp_path: Path) -> None:
    counts = {"before": [[1, 0], [0, 9]], "after": [[0, 1], [1, 8]]}
    frame, figure, _ = example.draw(found(tmp_path, counts))
    rows = frame.set_index(["stage", "client", "class"])["rows"]
    assert rows.loc["before"].tolist() == [0, 9, 1, 0]
    assert rows.loc["after"].tolist() == [1, 8, 0, 1]
    assert "Algorithm 3" in figure.axes[1].get_title(loc="left")


def test_statistics_without_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"before/seed0/stats\.json: expected 'label_counts'"):
        example.draw(found(tmp_path, {"before": None, "after": None}))


def test_a_model_may_visit_a_client_again_and_a_cohort_has_it_once() -> None:
    facts: Any = SimpleNamespace(statistics={"label_counts": [[10, 0], [0, 30]]}, run=SimpleNamespace(seed=0))
    assert (pooled(facts, 2) == [10, 30]).all()
    groups, often = np.unique(pooled(facts, 2, again=True), axis=0, return_counts=True)
    assert groups.tolist() == [[0, 60], [10, 30], [20, 0]]
    assert often / often.sum() == pytest.approx([0.25, 0.5, 0.25], abs=0.06)
    assert sorted(map(tuple, np.unique(pooled(facts, 1), axis=0).tolist())) == [(0, 30), (10, 0)]


def test_what_models_see_is_in_per_cent_of_the_largest_skew_and_of_the_mean_size() -> None:
    assert skew(np.array([[3, 6], [1, 2]])) == 0
    assert skew(np.eye(4, dtype=np.int64)) == pytest.approx(75), "100 in the limit of ever more classes"
    assert variation(np.array([[10, 0], [0, 30]])) == pytest.approx(50)
