"""The terms of FedAvgR's bound: how they add up to G1, G2 and G3, and where they come from."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from pathlib import Path

import pandas as pd
import pytest
from pretended import catalogue, drawn, finish
from project import seal

from fedcore.base.errors import DataError
from fedcore.execution.runner import Settings
from fedcore.execution.runner import run as train
from pipeline.papers.fedavgr import terms_of
from pipeline.reports.results import RunFacts


def test_terms_add_up_over_seeds(tmp_path: Path) -> None:
    fedavgr = catalogue("fedavgr")
    for run in fedavgr.needed("fedavgr", "excess_risk"):
        finish(run, tmp_path, 0.5)
        table = pd.DataFrame(
            {
                "round": [0, 1],
                "discrepancy": [0.5, 0.25 + run.seed],
                "mmd": [0.7, 0.1],
                "agnostic_complexity": [8.0, 6.0],
                "agnostic_deviation": [0.1, 0.1],
                "approximation": [3.0, 2.0],
                "federated": [9.0, 7.0],
            }
        )
        table.to_csv(tmp_path / run.folder / "risk.csv", index=False)
        seal(tmp_path / run.folder, run.spec)
    frame = (
        drawn(fedavgr, "fedavgr", "excess_risk", tmp_path).reset_index().set_index(["row", "column", "round"])
    )
    means = {
        column: frame.loc[("fedavgr", column, 1), "mean"] for column in ("g1", "g2", "g3", "chi_squared")
    }
    assert means == pytest.approx({"g1": 6.1, "g2": 2.0, "g3": 7.75, "chi_squared": 0.1})
    assert frame.loc[("fedavg", "g3", 1), "std"] == pytest.approx(sqrt(0.5))
    assert {row for row, _, _ in frame.index} == {"fedavg", "fedprox", "fedavgr"}
    (tmp_path / run.folder / "risk.csv").unlink()
    seal(tmp_path / run.folder, run.spec)
    with pytest.raises(DataError, match=r"risk\.csv: missing"):
        drawn(fedavgr, "fedavgr", "excess_risk", tmp_path)


def test_a_real_run_has_all_terms(tmp_path: Path) -> None:
    planned = catalogue("fedavgr").needed("fedavgr", "excess_risk")[-1]
    run = replace(planned, spec={**planned.spec, "training": {**planned.spec["training"], "rounds": 2}})
    assert run.algorithm == "fedavgr"
    result = train(dict(run.spec), tmp_path / run.folder, Settings(device="cpu"))
    terms = terms_of(RunFacts(run, tmp_path))
    assert list(terms.index) == [0, 1, 2]
    assert (terms > 0).all(axis=None)
    rows = result.summary["samples"]
    assert terms["chi_squared"].tolist() == pytest.approx([rows**-0.5] * 3)
    assert (terms["g3"] > terms["discrepancy"] + terms["rademacher"]).all()
    assert (terms["g2"] < terms["g1"]).all()
    assert (terms["mmd"] < sqrt(2)).all()
