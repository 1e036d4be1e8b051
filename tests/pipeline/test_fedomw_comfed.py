"""What the parameters of FedOMW's and ComFed's papers become: specifications with the papers' values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from project import HOME

from pipeline.catalogue import Catalogue
from pipeline.params import load
from pipeline.report.collect import published_cells


@pytest.fixture(scope="module")
def paper() -> Catalogue:
    return Catalogue(load(yaml.safe_load((HOME / "params.yaml").read_text()) | {"scale": "paper"}))


def spec(paper: Catalogue, name: str, target: str, row: str, column: str) -> Mapping[str, Any]:
    return paper.cells(name, target)[row, column][0].spec


@pytest.mark.parametrize(
    ("name", "target"),
    [("fedomw", "table2"), ("fedomw", "table3"), ("fedomw", "table4"), ("fedomw", "table5")],
)
def test_cells_are_those_that_are_published(paper: Catalogue, name: str, target: str) -> None:
    printed = published_cells(HOME / f"pipeline/papers/{name}/published.csv", target)
    assert set(paper.cells(name, target)) == set(printed)


def test_fedomw_trains_as_its_section_5_1_says(paper: Catalogue) -> None:
    once = spec(paper, "fedomw", "table2", "dl_opt", "letter")
    assert (once["training"]["rounds"], once["training"]["local_epochs"]) == (1, 200)
    often = spec(paper, "fedomw", "table3", "fedomw", "letter")
    assert (often["training"]["rounds"], often["training"]["local_epochs"]) == (100, 2)
    for found in (once, often):
        assert found["variant"] == "paper"
        assert found["model"]["features"] == 2000
        partition = found["partition"]
        assert (partition["clients"], partition["alpha"], partition["validation"]) == (50, 0.01, 0.2)
        assert not partition["shuffled"]
        assert found["algorithm"]["epochs_p"] == 100


@pytest.mark.parametrize(("target", "row"), [("table4", "dl_opt"), ("table5", "fedomw")])
def test_ablations_leave_out_what_their_names_say(paper: Catalogue, target: str, row: str) -> None:
    for column in ("usps", "dna"):
        whole = spec(paper, "fedomw", target, row, column)["algorithm"]
        assert whole["gamma"] > 0
        for ending, norm, learned in (("non", False, False), ("w", True, False), ("p", False, True)):
            part = spec(paper, "fedomw", target, f"{row}_{ending}", column)["algorithm"]
            assert part["gamma"] == (whole["gamma"] if norm else 0.0)
            assert part["steps_p"] == (None if learned else 0)
            assert not learned or part["lr_p"] == whole["lr_p"]


@pytest.mark.parametrize("row", ["fedavg", "fedprox", "fedomw"])
def test_released_runs_follow_the_code_on_shuffled_labels(paper: Catalogue, row: str) -> None:
    found = spec(paper, "fedomw", "table3_released", row, "dna")
    assert found["variant"] == "released"
    assert found["partition"]["shuffled"]
    assert found["partition"]["legacy_seed"] == 2020
    assert found["algorithm"].get("chained", True)
    assert not spec(paper, "fedomw", "table3", row, "dna")["algorithm"].get("chained", False)
