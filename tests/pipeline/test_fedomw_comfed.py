"""What the parameters of FedOMW's and ComFed's papers become: specifications with the papers' values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from project import HOME, seal

from fedcore.base.files import canonical_json, sha256_text
from pipeline.catalogue import Catalogue
from pipeline.papers import build_catalogue
from pipeline.papers.comfed import PAPER, best_so_far
from pipeline.reports import captions
from pipeline.reports.drawings import Curves
from pipeline.reports.results import RunFacts, published_cells
from pipeline.reports.tables import Table


@pytest.fixture(scope="module")
def paper() -> Catalogue:
    return build_catalogue(yaml.safe_load((HOME / "params.yaml").read_text()) | {"scale": "paper"})


def spec(paper: Catalogue, name: str, target: str, row: str, column: str) -> Mapping[str, Any]:
    return paper.cells(name, target)[row, column][0].spec


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("fedomw", "table2"),
        ("fedomw", "table3"),
        ("fedomw", "table4"),
        ("fedomw", "table5"),
        ("comfed", "table4"),
    ],
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


def test_comfed_trains_as_its_section_v_says(paper: Catalogue) -> None:
    for algorithm in paper.params.papers["comfed"].algorithms:
        found = spec(paper, "comfed", "table4", algorithm, "2000")
        assert (found["partition"]["clients"], found["participation"]["fraction"]) == (100, 0.1)
        assert (found["partition"]["convention"], found["partition"]["alpha"]) == ("by_class_min", 0.1)
        training = found["training"]
        assert (training["rounds"], training["momentum"], training["weight_decay"]) == (2000, 0.9, 1e-4)
        assert found["algorithm"]["name"] == algorithm
        assert found["algorithm"].get("option", 1) == 1
        assert found["algorithm"].get("averaging", "nk") == "nk"
        assert (found["algorithm"].get("beta1", 0.9), found["algorithm"].get("beta2", 0.99)) == (0.9, 0.99)


def test_checkpoints_share_runs_and_keep_the_best(paper: Catalogue, tmp_path: Path) -> None:
    assert len(paper.needed("comfed", "table4")) == 16 * 3
    (run, *_) = paper.cells("comfed", "table4")["fedavg", "100"]
    folder = tmp_path / run.folder
    folder.mkdir(parents=True)
    known = {"spec_sha256": sha256_text(canonical_json(run.spec)), "final": {"test_accuracy": 0.2}}
    (folder / "summary.json").write_text(json.dumps(known))
    rounds = pd.DataFrame({"round": [0, 100, 200, 300], "test_accuracy": [0.1, 0.3, 0.2, 0.4]})
    rounds.to_csv(folder / "history.csv", index=False)
    seal(folder, run.spec)
    found = [best_so_far(RunFacts(run, tmp_path), column) for column in ("100", "200", "300")]
    assert found == pytest.approx([30.0, 30.0, 40.0])
    (folder / "summary.json").write_text(json.dumps(known | {"final": None}))
    seal(folder, run.spec)
    assert best_so_far(RunFacts(run, tmp_path), "100") is None


@pytest.mark.parametrize(
    ("name", "rounds", "said"),
    [
        ("table4", {"column": ["5", "100"]}, "Training stopped after 100 of 2,000 rounds."),
        ("table4", {"column": ["100", "2000"]}, ""),
        (
            "fig2",
            {"column": ["fedavg", "fedavg"], "round": [0, 30]},
            "Training stopped after 30 of 2,000 rounds.",
        ),
        ("fig2", {"column": ["fedavg", "fedavg"], "round": [0, 2000]}, ""),
    ],
)
def test_a_caption_says_when_training_stopped_early(name: str, rounds: dict[str, Any], said: str) -> None:
    target = PAPER.targets[name]
    assert isinstance(target, Table | Curves)
    assert captions.note(target.note, pd.DataFrame(rounds)) == said
