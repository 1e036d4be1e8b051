"""FedAvgR's searches: every combination, scored on rows that are neither trained on nor tested."""

from __future__ import annotations

import pytest
from pretended import catalogue

from pipeline.papers.fedavgr import GRIDS


@pytest.mark.parametrize(
    ("name", "rows"), [("search_fedavg", 20), ("search_fedprox", 4), ("search_fedavgr", 16)]
)
def test_the_grid_is_whole_and_its_runs_hold_rows_out(name: str, rows: int) -> None:
    fedavgr = catalogue("fedavgr", "paper")
    cells = fedavgr.cells("fedavgr", name)
    assert len(cells) == rows * 11
    method = GRIDS[name].method
    keys = fedavgr.params.papers["fedavgr"].algorithms[method].tune
    for (row, _), runs in cells.items():
        (run,) = runs
        assert run.algorithm == method
        assert run.spec["partition"]["validation"] == 0.2
        assert run.spec["evaluation"]["validation"]
        for section, key in (path.split(".") for path in keys):
            assert f"{key}_{run.spec[section][key]:g}" in row
    assert len({run.group for runs in cells.values() for run in runs}) == rows * 11


def test_short_runs_try_fewer_values() -> None:
    fedavgr = catalogue("fedavgr")
    assert len(fedavgr.cells("fedavgr", "search_fedavg")) == 4 * 11
    assert all(len(runs) == 2 for runs in fedavgr.cells("fedavgr", "search_fedavg").values())
