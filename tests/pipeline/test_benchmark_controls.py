"""Controls of the benchmark: planted methods, trained for real, must land where they belong."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from project import HOME, parameters

from fedcore.base.registry import plugins
from fedcore.data import Dataset, Source
from fedcore.execution import runner
from fedcore.execution.runner import Settings
from pipeline.catalogue import Catalogue
from pipeline.cli.benchmark import sit
from pipeline.papers import build_catalogue
from pipeline.reports import effects

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
    catalogue = sit(planned, "controls", 600, settings, lambda run: True)
    assert catalogue is not None
    Path("reports/controls").mkdir(exist_ok=True)
    frames = {}
    for name in ("board", "matrix", "trials"):
        outputs = catalogue.target("controls", name).paths(Path("reports/controls"), name)
        catalogue.sources("controls", name).build(outputs)
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
@pytest.mark.timeout(600)
def test_nothing_is_learnt_from_permuted_labels(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each algorithm's accuracy is chance, within three standard errors over the permutations."""
    load, draws = runner.load_data, 8

    def permuted(seed: int, section: str, source: Source) -> tuple[Dataset, str]:
        data, sha = load(section, source)
        assert data.validation
        rows, rng = (data.train, data.validation), np.random.default_rng(seed)
        train, validation = (replace(part, y=rng.permutation(part.y)) for part in rows)
        return replace(data, train=train, validation=validation), sha

    def accuracy(name: str, seed: int) -> float:
        once = name in {"dl_opt", "dl_u", "oneshot"}
        length = {"rounds": 1, "local_epochs": 40} if once else {"rounds": 20, "local_epochs": 2}
        changes = {
            "algorithm": {"name": name},
            "training": {**spec["training"], **length, "lr": 0.2},
            "seed": seed,
        }
        return float(runner.run(spec | changes).summary["final"]["test_accuracy"])

    assert np.mean([accuracy("fedavg", seed) for seed in range(draws)]) > 0.5, "true labels are learnt"
    accuracies: dict[str, list[float]] = defaultdict(list)
    for seed in range(draws):
        monkeypatch.setattr(runner, "load_data", partial(permuted, seed))
        for name in plugins("algorithm"):
            accuracies[name].append(accuracy(name, seed))
    scores = np.array([*accuracies.values()])
    error = np.sqrt(scores.var(axis=1, ddof=1).mean() / draws)
    assert 0.002 < error < 0.03
    apart = dict(zip(accuracies, np.abs(scores.mean(axis=1) - 0.1) / error, strict=True))
    assert {name: distance for name, distance in apart.items() if distance > 3} == {}


@pytest.mark.slow
def test_gains_are_found_as_often_as_the_protocol_says() -> None:
    """14 data sets, with spreads of .6, .8, .5 and 1 points between sets, settings, choices and seeds."""
    rng = np.random.default_rng(0)
    workloads = [2] * 10 + [1] * 4
    shares = {}
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
        shares[gain] = float(np.mean(hits))
    assert shares == pytest.approx({0.0: 0.05, 0.5: 0.38, 1.0: 0.9, 2.0: 1.0}, abs=0.13)
