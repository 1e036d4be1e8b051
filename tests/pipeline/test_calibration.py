"""ComFed's search for lost hyperparameters: what is tried, what it is measured against, which is nearest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from project import parameters, seal

from fedcore.base.files import canonical_json, sha256_text
from pipeline.catalogue import Catalogue
from pipeline.papers import build_catalogue, papers, published
from pipeline.papers.comfed import DISTANCE, IN_USE, STEPS
from pipeline.reports.results import read
from pipeline.reports.tables import Table, arrange, tidy

PRINTED = {"calibration": 33.1, "calibration_server": 43.9, "calibration_prox": 34.8}
FAR = 10.0
CLIENT = {"lr 0.01, B 128": 1, "lr 0.01, B 128, E 5": 20}
NEAR = {"lr 0.01, B 128": 1.0, "lr 0.01, B 128, E 5": -20.0, "tau 0.01": 4.0}


@pytest.fixture(scope="module")
def made() -> Catalogue:
    return build_catalogue(parameters("comfed") | {"primary_paper": "comfed", "scale": "paper"})


def collected(made: Catalogue, target: str, root: Path) -> tuple[Table, pd.DataFrame]:
    """Pretend runs that are FAR above what is printed, or as far as NEAR says."""
    table = made.target("comfed", target)
    assert isinstance(table, Table)
    cells = made.cells("comfed", target)
    algorithm, *_ = STEPS[target]
    for distance, row in ((FAR, IN_USE), *((distance, row) for row, distance in NEAR.items())):
        for run in cells.get((row, algorithm), ()):
            folder = root / run.folder
            folder.mkdir(parents=True, exist_ok=True)
            summary = {"final": {"test_accuracy": 0.1}, "spec_sha256": sha256_text(canonical_json(run.spec))}
            (folder / "summary.json").write_text(json.dumps(summary | {"data_note": "n", "data_state": "s"}))
            best = (PRINTED[target] + distance) / 100
            history = {"round": [0, 1, 2], "test_accuracy": [0.0, best, best / 2]}
            pd.DataFrame(history).to_csv(folder / "history.csv", index=False)
            seal(folder, run.spec)
    frame = tidy("comfed", target, table, read(cells, root), published("comfed"))
    return table, frame


def test_each_candidate_changes_what_it_names_and_nothing_else(made: Catalogue) -> None:
    cells = {(target, *key): runs for target in STEPS for key, runs in made.cells("comfed", target).items()}

    def spec(target: str, row: str) -> dict[str, Any]:
        (run,) = cells[target, row, STEPS[target][0]]
        assert cells[target, row, DISTANCE] == (run,), "the distance is that of the same run"
        return dict(run.spec)

    base = {target: spec(target, IN_USE) for target in STEPS}
    assert [base[target]["algorithm"]["name"] for target in STEPS] == ["fedavg", "fedyogi", "fedprox"]
    client = base["calibration"]
    longer = {"lr": 0.01, "batch_size": 128, "local_epochs": 5}
    changed = client | {"training": client["training"] | longer}
    assert spec("calibration", "lr 0.01, B 128, E 5") == changed
    for target, row, key, value in (
        ("calibration_server", "tau 0.0001", "tau", 1e-4),
        ("calibration_server", "server lr 0.03", "server_lr", 0.03),
        ("calibration_prox", "mu 1", "mu", 1.0),
    ):
        base_spec = base[target]
        assert spec(target, row) == base_spec | {"algorithm": base_spec["algorithm"] | {key: value}}


@pytest.mark.parametrize(
    ("target", "nearest", "distances"),
    [
        ("calibration", "lr 0.01, B 128", {IN_USE: 10, "lr 0.003, B 128": 10} | CLIENT),
        ("calibration_server", "tau 0.01", {IN_USE: 10, "tau 0.01": 4}),
        ("calibration_prox", None, {IN_USE: 10}),
    ],
)
def test_the_nearest_candidate_is_bold_and_the_distance_is_that_from_the_printed_number(
    made: Catalogue, tmp_path: Path, target: str, nearest: str | None, distances: dict[str, float]
) -> None:
    table, frame = collected(made, target, tmp_path)
    lines = frame.set_index(["row", "column"])
    algorithm, *_ = STEPS[target]
    assert set(lines["published_mean"].xs(algorithm, level="column")) == {PRINTED[target]}
    away = lines["mean"].xs(DISTANCE, level="column").dropna()
    assert away.to_dict() == pytest.approx(distances), "and what did not run is no distance away"

    params = made.params.papers["comfed"]
    laid = arrange(frame, table, table.columns(params), papers()["comfed"], table.rows(params))
    best = [label for label, cells in laid.rows if cells[-1].best]
    assert best == ([nearest] if nearest else []), "one candidate alone is the nearest of nothing"
    assert laid.caption.text.count("CIFAR-10: n (s)") == 1
