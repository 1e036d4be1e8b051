"""What rFedAvg's and FedAvgR's own targets ask for, and what they make of known numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from pretended import CLIENTS, MODEL, catalogue, drawn, finish, one_line
from project import seal

from fedcore.execution.integrity import sealed
from pipeline.catalogue.targets import PlannedRun
from pipeline.papers import published
from pipeline.papers.fedavgr import farthest, principal, without
from pipeline.papers.rfedavg.figures import worst
from pipeline.reports import figures
from pipeline.reports.drawings import Curves
from pipeline.reports.results import read
from pipeline.reports.tables import Table, tidy


@pytest.mark.parametrize(
    ("algorithm", "models", "vectors"), [("rfedavg", CLIENTS, CLIENTS), ("rfedavg_plus", 15, 1)]
)
def test_bytes_of_delta_are_what_exceeds_the_models(
    tmp_path: Path, algorithm: str, models: int, vectors: int
) -> None:
    rfedavg = catalogue("rfedavg")
    table = rfedavg.target("rfedavg", "table3")
    assert isinstance(table, Table)
    runs = rfedavg.cells("rfedavg", "table3")[algorithm, "cross_silo-cnn"]
    width = 8
    down = 4 * MODEL * models + 4 * CLIENTS * vectors * width
    for run in runs:
        finish(run, tmp_path, 0.5, bytes_down=[0, 1, down])
    cells = {(algorithm, "cross_silo-cnn"): runs}
    frame = tidy("rfedavg", "table3", table, read(cells, tmp_path), published("rfedavg"))
    assert frame["mean"].tolist() == [4.0 * vectors * width]
    assert frame["published_mean"].tolist() == [56160.0 if algorithm == "rfedavg" else 2808.0]


def test_the_study_moves_one_parameter_at_a_time() -> None:
    rfedavg = catalogue("rfedavg", "paper")
    cells = rfedavg.cells("rfedavg", "fig9")
    centre = rfedavg.cells("rfedavg", "table2")["rfedavg_plus", "cifar10-sim0"][0]
    parameters: dict[str, Callable[[PlannedRun], float]] = {
        "lambda_1e-07": lambda run: float(run.spec["algorithm"]["lambda"]),
        "clients_50": lambda run: float(run.spec["partition"]["clients"]),
        "steps_20": lambda run: float(run.spec["training"]["local_steps"]),
        "ratio_0.5": lambda run: float(run.spec["participation"]["fraction"]),
    }
    for column, value in parameters.items():
        run = cells["rfedavg_plus", column][0]
        assert value(run) == float(column.split("_")[1])
        assert [at for at in parameters if parameters[at](run) != parameters[at](centre)] == [column]
    assert cells["rfedavg_plus", "lambda_1e-05"][0].folder == centre.folder


@pytest.mark.parametrize(
    ("targets", "printed"),
    [
        (("fig2", "fig3", "fig4", "fig5"), ["device-sim0", "silo-sim0", "device-sim10", "silo-sim10"]),
        (("fig6", "fig7"), ["device-noniid", "device-iid", "silo-noniid", "silo-iid"]),
    ],
)
def test_panels_stand_in_the_printed_order(targets: tuple[str, ...], printed: list[str]) -> None:
    rfedavg = catalogue("rfedavg")
    for name in targets:
        figure = rfedavg.target("rfedavg", name)
        assert isinstance(figure, Curves)
        assert [*figure.panels] == [f"cross_{panel}" for panel in printed]


def test_study_noise_and_mmd_are_means_over_seeds(tmp_path: Path) -> None:
    rfedavg = catalogue("rfedavg")
    for target in ("fig9", "fig12"):
        for run in rfedavg.needed("rfedavg", target):
            finish(run, tmp_path, 0.5 + 0.2 * run.seed)
    study = drawn(rfedavg, "rfedavg", "fig9", tmp_path)
    assert study["mean"].tolist() == pytest.approx([60.0] * len(study))
    assert study["std"].tolist() == pytest.approx([200**0.5] * len(study))
    noise = drawn(rfedavg, "rfedavg", "fig12", tmp_path)["mean"]
    assert noise["rfedavg_plus_sigma5", "mnist"].tolist() == pytest.approx([10.0, 30.0, 60.0])
    fedavgr = catalogue("fedavgr")
    for run in fedavgr.needed("fedavgr", "fig_mmd"):
        finish(run, tmp_path, 0.5, mmd=[0.8 + 0.1 * run.seed, 0.4, 0.1])
        features = np.arange(24.0).reshape(2, 6, 2) ** 1.5
        arrays: dict[str, Any] = {"round": [0, 20], "client": [0, 0, 1, 1, 2, 2], "features": features}
        np.savez(tmp_path / run.folder / "mixture.npz", **arrays)
        seal(tmp_path / run.folder, run.spec)
    mmd = drawn(fedavgr, "fedavgr", "fig_mmd", tmp_path)
    assert mmd.loc[("fedavgr", "0"), "mean"] == pytest.approx(0.85)


def test_features_lie_on_their_principal_axes_and_the_farthest_client_is_found() -> None:
    rng = np.random.default_rng(0)
    wide = np.c_[5 * rng.normal(size=200), rng.normal(size=200), 0.01 * rng.normal(size=200)]
    turned, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    flat = principal(wide @ turned + 7.0)
    centred = wide - wide.mean(axis=0)
    for k in range(2):
        assert abs(np.corrcoef(flat[:, k], centred[:, k])[0, 1]) > 0.99
    np.testing.assert_allclose(flat.std(axis=0), centred[:, :2].std(axis=0), rtol=0.01)
    client = np.array([0, 0, 1, 1, 2, 2])
    assert farthest(np.array([[0.0], [1.0], [0.0], [1.0], [9.0], [9.0]]), client) == 2
    assert farthest(np.zeros((6, 1)), client) == 0


def test_the_worst_clients_are_the_lowest_tenth(tmp_path: Path) -> None:
    assert worst(pd.Series([0.5, 0.1, 0.9])).tolist() == [0.1]
    assert worst(pd.Series(np.arange(20.0))).tolist() == [0, 1]
    rfedavg = catalogue("rfedavg")
    for run in rfedavg.needed("rfedavg", "fig11"):
        assert run.spec["evaluation"]["clients"] is True
        finish(run, tmp_path, 0.5)
        scores = pd.DataFrame({"client": range(CLIENTS), "test_accuracy": [0.2] + [0.7] * (CLIENTS - 1)})
        scores.to_csv(tmp_path / run.folder / "clients.csv", index=False)
        seal(tmp_path / run.folder, run.spec)
    frame = drawn(rfedavg, "rfedavg", "fig11", tmp_path)
    assert frame.loc[("fedavg", "mnist-worst"), "mean"] == pytest.approx(20.0)
    assert frame.loc[("rfedavg_plus", "cifar10-mean"), "mean"] == pytest.approx(65.0)


def test_rounds_to_an_accuracy_and_the_time_of_a_round(tmp_path: Path) -> None:
    """A run has 10% at first, then half its end; FedAvg's ends make the levels 44.3, 49.2 and 54.1%."""
    rfedavg = catalogue("rfedavg")
    ends = {"fedavg": (0.5, 0.68), "rfedavg": (0.9, 1.0), "rfedavg_plus": (0.3, 0.3)}
    spent = {"fedavg": 1.0, "rfedavg": 4.0, "rfedavg_plus": 2.0}
    for (row, column), runs in rfedavg.cells("rfedavg", "fig10").items():
        for run in runs:
            finish(run, tmp_path, ends.get(row, (0.6, 0.6))[run.seed])
            time = spent.get(row, 1.0) * (1.5 if row == "rfedavg_plus" and column == "mnist-sim0" else 1)
            times = {
                "median_round_seconds": time,
                "machine": "m",
                "processors": 9,
                "device": "cpu",
                "threads": 1,
            }
            (tmp_path / run.folder / "timing.json").write_text(json.dumps(sealed(times)))
    frame = drawn(rfedavg, "rfedavg", "fig10", tmp_path)
    assert frame.loc[("qfedavg", "rounds80-mnist"), "accuracy"] == pytest.approx(49.2)
    numbers = frame[["mean", "n", "seeds"]]
    assert one_line(numbers, "fedavg", "rounds70-mnist").tolist() == [2.0, 2, 2]
    assert one_line(numbers, "fedavg", "rounds90-cifar10").tolist() == [2.0, 1, 2]
    assert one_line(numbers, "rfedavg", "rounds70-mnist").tolist() == [1.0, 2, 2]
    assert one_line(numbers, "rfedavg", "rounds80-mnist").tolist() == [1.5, 2, 2]
    assert numbers.loc[("rfedavg_plus", "rounds70-mnist"), "n"] == 0
    assert isnan(numbers["mean"]["rfedavg_plus", "rounds70-mnist"])
    assert numbers.loc[("rfedavg", "seconds-cifar10-sim10"), "mean"] == 4.0
    assert numbers.loc[("rfedavg_plus", "time_over_rfedavg"), "mean"] == pytest.approx((0.75 + 0.5) / 2)
    assert numbers.loc[("rfedavg_plus", "time_over_rfedavg-sim10"), "mean"] == pytest.approx(0.5)


def test_a_round_that_was_not_timed_has_no_number(tmp_path: Path) -> None:
    rfedavg = catalogue("rfedavg")
    for run in rfedavg.needed("rfedavg", "fig10"):
        finish(run, tmp_path, 0.5)
    frame = drawn(rfedavg, "rfedavg", "fig10", tmp_path)
    timed = frame[[column.startswith(("seconds", "time")) for _, column in frame.index]]
    assert set(timed["n"]) == {0}
    assert set(frame.loc[("fedavg", "rounds90-mnist"), ["mean", "n"]]) == {2.0}


def test_bars_of_what_is_not_reached_are_as_long_as_runs_were_asked_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FedAvg's first run diverged in its first round, so its history ends there; rFedAvg reaches nothing."""
    rfedavg = catalogue("rfedavg")
    pictures: list[Figure] = []
    monkeypatch.setattr(figures, "save", lambda figure, paths: pictures.append(figure))
    for (row, _), runs in rfedavg.cells("rfedavg", "fig10").items():
        for run in runs:
            finish(run, tmp_path, 0.2 if row == "rfedavg" else 0.5)
        if row == "fedavg":
            finish(runs[0], tmp_path, None, round=[0, 1], test_accuracy=[0.1, float("nan")])
    outputs = rfedavg.target("rfedavg", "fig10").paths(tmp_path, "fig10")
    rfedavg.sources("rfedavg", "fig10", tmp_path).build(outputs)
    dashed = [bar for bar in pictures[0].axes[0].patches if bar.get_linestyle() == "--"]
    assert dashed
    assert {bar.get_height() for bar in dashed if isinstance(bar, Rectangle)} == {
        rfedavg.needed("rfedavg", "fig10")[0].spec["training"]["rounds"]
    }


def test_there_is_nothing_to_reach_where_fedavg_never_improves(tmp_path: Path) -> None:
    rfedavg = catalogue("rfedavg")
    for run in rfedavg.needed("rfedavg", "fig10"):
        finish(run, tmp_path, 0.05)
    frame = drawn(rfedavg, "rfedavg", "fig10", tmp_path)
    rounds = frame[[column.startswith("rounds") for _, column in frame.index]]
    assert rounds[["accuracy", "mean"]].isna().all(axis=None)
    assert set(rounds["n"]) == {0}


def test_the_efficiency_figure_makes_no_runs_of_its_own() -> None:
    rfedavg = catalogue("rfedavg", "paper")
    of_table = {run.folder for run in rfedavg.needed("rfedavg", "table2")}
    assert {run.folder for run in rfedavg.needed("rfedavg", "fig10")} < of_table


@pytest.mark.parametrize(
    ("row", "kept"),
    [("fedavgr_non", []), ("fedavgr_w", ["alpha"]), ("fedavgr_phi", ["beta"]), ("fedavgr_mmd", ["gamma"])],
)
def test_ablations_keep_one_regulariser(row: str, kept: list[str]) -> None:
    run = catalogue("fedavgr", "paper").cells("fedavgr", "table3")[row, "synthetic"][0]
    weights = {name: run.spec["algorithm"][name] for name in ("alpha", "beta", "gamma")}
    assert [name for name, weight in weights.items() if weight] == kept
    assert without("fedavgr") == ()
    assert (run.spec["training"]["rounds"], run.spec["data"]["u"]) == (250, 0.5)


def test_tables_have_the_published_cells() -> None:
    for paper, targets in {"rfedavg": ["table3"], "fedavgr": ["table2", "table3"]}.items():
        planned, printed = catalogue(paper, "paper"), pd.read_csv(published(paper))
        for target in targets:
            lines = printed[printed["target"] == target]
            assert set(planned.cells(paper, target)) == set(zip(lines["row"], lines["column"], strict=True))


def test_table_1_in_epochs_has_the_cells_that_its_text_names() -> None:
    cells = catalogue("rfedavg", "paper").cells("rfedavg", "table1_released")
    rows = ("fedavg", "qfedavg", "rfedavg", "rfedavg_plus")
    columns = ("mnist-sim0", "mnist-sim10", "mnist-sim100", "cifar10-sim0")
    assert [*cells] == [*product(rows, columns)]
    for (row, column), runs in cells.items():
        spec = runs[0].spec
        similar = {"sim0": 0.0, "sim10": 0.1, "sim100": 1.0}[column.split("-")[1]]
        assert (spec["data"]["name"], spec["partition"]["similarity"]) == (column.split("-")[0], similar)
        assert (spec["algorithm"]["name"], spec["variant"]) == (row, "released")
        assert (spec["training"]["local_epochs"], spec["training"]["local_steps"]) == (5, None)
