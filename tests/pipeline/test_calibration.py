"""ComFed's search for lost hyperparameters: what is tried, what it is measured against, which is nearest."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from project import parameters, seal

from fedcore.files import canonical_json, sha256_text
from pipeline.catalogue import Catalogue
from pipeline.papers import papers, published
from pipeline.papers.comfed.calibration import DISTANCE, IN_USE
from pipeline.params import load
from pipeline.report import grid
from pipeline.report.collect import tidy
from pipeline.targets import Table

PRINTED = {"fedavg": 33.1, "fedyogi": 43.9, "fedprox": 34.8}
FAR = 10.0
NEAR = {"lr 0.003, B 128": 1.0, "tau 0.01": 4.0, "E 2": -20.0}


@pytest.fixture(scope="module")
def made() -> Catalogue:
    return Catalogue(load(parameters("comfed") | {"primary_paper": "comfed", "scale": "paper"}))


def collected(made: Catalogue, root: Path) -> tuple[Table, pd.DataFrame]:
    """Pretend runs that are FAR above what is printed, or as far as NEAR says."""
    table = made.target("comfed", "calibration")
    assert isinstance(table, Table)
    cells = made.cells("comfed", "calibration")
    for distance, row in ((FAR, IN_USE), *((own, row) for row, own in NEAR.items())):
        for (name, algorithm), runs in cells.items():
            if name != row or algorithm == DISTANCE:
                continue
            base = cells[IN_USE, algorithm]
            for run in runs if row == IN_USE or runs != base else ():
                folder = root / run.folder
                folder.mkdir(parents=True, exist_ok=True)
                said = {"final": {"test_accuracy": 0.1}, "spec_sha256": sha256_text(canonical_json(run.spec))}
                (folder / "summary.json").write_text(json.dumps(said | {"data_note": "n", "data_state": "s"}))
                best = (PRINTED[algorithm] + distance) / 100
                history = {"round": [0, 1, 2], "test_accuracy": [0.0, best, best / 2]}
                pd.DataFrame(history).to_csv(folder / "history.csv", index=False)
                seal(folder, run.spec)
    frame = tidy("comfed", "calibration", table, cells, published("comfed"), root)
    return table, frame


def test_each_candidate_changes_what_it_names_and_nothing_else(made: Catalogue) -> None:
    cells = made.cells("comfed", "calibration")
    base = {name: cells[IN_USE, name][0].spec for name in PRINTED}
    for name in PRINTED:
        found = cells["lr 0.01, B 128", name][0].spec
        changed = {"lr": 0.01, "batch_size": 128}
        assert found == {**base[name], "training": {**base[name]["training"], **changed}}
    tau = cells["tau 0.0001", "fedyogi"][0].spec
    assert tau == {**base["fedyogi"], "algorithm": {**base["fedyogi"]["algorithm"], "tau": 1e-4}}
    for row, name in (("tau 0.0001", "fedavg"), ("tau 0.0001", "fedprox"), ("mu 1", "fedyogi")):
        assert cells[row, name] == cells[IN_USE, name], "no run of its own where nothing changes"
    assert cells["mu 1", "fedprox"][0].spec["algorithm"]["mu"] == 1.0


def test_the_nearest_candidate_is_bold_and_the_distance_is_that_from_the_printed_numbers(
    made: Catalogue, tmp_path: Path
) -> None:
    table, frame = collected(made, tmp_path)
    lines = frame.set_index(["row", "column"])
    assert lines.loc[IN_USE, "published_mean"].drop(DISTANCE).to_dict() == PRINTED
    assert lines.loc[(IN_USE, DISTANCE), "mean"] == pytest.approx(FAR)
    assert lines.loc[("lr 0.003, B 128", DISTANCE), "mean"] == pytest.approx(1.0)
    assert lines.loc[("tau 0.01", DISTANCE), "mean"] == pytest.approx((2 * FAR + 4.0) / 3)
    assert lines.loc[("E 2", DISTANCE), "mean"] == pytest.approx(20.0), (
        "the lowest scores are not the nearest"
    )
    assert pd.isna(lines.loc[("lr 0.01, B 32", DISTANCE), "mean"]), "what did not run is no distance away"

    params = made.params.papers["comfed"]
    assert table.rows is not None
    laid = grid.arrange(frame, table, table.columns(params), papers()["comfed"], table.rows(params))
    assert [label for label, cells in laid.rows if cells[-1].best] == ["lr 0.003, B 128"]
    assert laid.caption.text.count("CIFAR-10: n (s)") == 1
