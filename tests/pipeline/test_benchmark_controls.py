"""Controls of the benchmark: planted methods, trained for real, must land where they belong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from project import HOME, parameters

from fedcore.data import Source
from fedcore.execution.runner import Settings
from pipeline.catalogue import Catalogue
from pipeline.papers import build_catalogue
from pipeline.reports import effects
from pipeline.workflow.sitting import sit

SETS = ("dna", "pendigits", "satimage", "usps", "vehicle")
FILE = "studies/controls.yaml"
STUDY: dict[str, Any] = {
    "title": "Do planted methods land where they must?",
    "seeds": [0, 1],
    "measurements": 5,
    "common": {"evaluation": {"count_rows": True}},
    "regimes": {
        "r": {"clients": 5, "training": {"rounds": 15, "local_steps": 4, "batch_size": 10, "lr": 0.1}}
    },
    "datasets": {
        name: {
            "data": {"name": name, "edition": "demo"},
            "model": {"name": "linear"},
            "splits": {"s": {"name": "iid", "selection": 0.2}},
        }
        for name in SETS
    },
    "tune": {
        "how": "sobol",
        "trials": 2,
        "held_out": "selection",
        "columns": ["training.lr"],
        "over": {"training.lr": {"low": 0.02, "high": 0.2, "log": True}},
    },
    "algorithms": {
        "fedavg": {},
        "twin": {"name": "fedavg"},
        "short": {"name": "fedavg", "training": {"rounds": 2}},
    },
    "benchmark": {
        "base": "fedavg",
        "seeds": [101],
        "best": 1,
        "families": {"all": ["twin", "short"]},
    },
}


def planned() -> Catalogue:
    return build_catalogue(parameters() | {"studies": {FILE: STUDY}})


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_methods_land_where_they_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(None, Source(HOME / "data", None), "cpu")
    whole = sit(planned, "controls", 600, settings, lambda run: True)
    assert whole is not None
    Path("reports/controls").mkdir(exist_ok=True)
    frames = {}
    for name in ("board", "matrix", "trials"):
        outputs = whole.target("controls", name).paths(Path("reports/controls"), name)
        whole.sources("controls", name).build(outputs)
        frames[name] = pd.read_csv(outputs["csv"])
    board = frames["board"].set_index("row")
    assert board.loc["twin", "verdict"] == "equivalent"
    assert board.loc["twin", "effect"] == 0
    assert board.loc["short", "verdict"] == "worse"
    assert board.loc["short", "work"] == pytest.approx(2 / 15, abs=1e-5)
    scores = frames["matrix"].pivot_table(index="row", columns="column", values="mean")
    assert (scores.loc["short"] < scores.loc["fedavg"]).mean() >= 0.8, "else a workload saturates"
    assert frames["trials"].groupby("column").size().tolist() == [2 * len(STUDY["algorithms"])] * len(SETS)


@pytest.mark.slow
def test_gains_are_found_as_often_as_the_protocol_says() -> None:
    """14 data sets, with spreads of .6, .8, .5 and 1 points between sets, settings, choices and seeds."""
    rng = np.random.default_rng(0)
    workloads = [2] * 10 + [1] * 4
    found = {}
    for gain in (0.0, 0.5, 1.0, 2.0):
        hits = []
        for _ in range(60):
            sets = [
                gain
                + rng.normal(0, 0.6)
                + rng.normal(0, np.hypot(0.8, 0.5), k).mean()
                + rng.normal(0, 1.0, (k, 5)).mean()
                for k in workloads
            ]
            hits.append(effects.sign_flip(np.array(sets)) <= 0.05)
        found[gain] = float(np.mean(hits))
    assert found == pytest.approx({0.0: 0.05, 0.5: 0.38, 1.0: 0.9, 2.0: 1.0}, abs=0.13)
