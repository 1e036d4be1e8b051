"""What the parameters of FedOMW's and ComFed's papers become: specifications with the papers' values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from pretended import finish
from project import HOME, seal

from fedcore.base.files import canonical_json, sha256_text
from pipeline.catalogue import Catalogue
from pipeline.papers import build_catalogue, fedomw
from pipeline.papers.comfed import PAPER, best_so_far
from pipeline.reports import captions
from pipeline.reports.drawings import Curves, Drawing, Inputs
from pipeline.reports.results import RunFacts, published_cells, read
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
    for values in (once, often):
        assert values["variant"] == "paper"
        assert values["model"]["features"] == 2000
        partition = values["partition"]
        assert (partition["clients"], partition["alpha"], partition["validation"]) == (50, 0.01, 0.2)
        assert not partition["shuffled"]
        assert values["algorithm"]["epochs_p"] == 100


def test_a_loss_is_the_expected_cross_entropy_under_a_client_s_labels() -> None:
    """Client 1 holds only class 1; client 2 holds both classes in equal parts."""
    assert fedomw.losses(0.75) == pytest.approx([math.log(4 / 3), math.log(16 / 3) / 2])
    assert fedomw.losses(0.5) == pytest.approx([math.log(2)] * 2)


def test_the_example_of_theorem_2_has_its_solutions_in_closed_form() -> None:
    """The uniform loss is -(3 log q + log(1 - q)) / 4, least at q = 3/4; client 1's alone falls to 0."""
    solved = fedomw.solve()
    uniform = (3 * math.log(4 / 3) + math.log(4)) / 4
    assert solved["uniform"] == pytest.approx((0.75, 0.5, uniform), abs=1e-6)
    assert solved["optimal"] == pytest.approx((0.75, 1.0, math.log(4 / 3)), abs=1e-6)
    assert solved["joint"] == pytest.approx((1.0, 1.0, 0.0), abs=1e-6)


def test_the_example_is_drawn_with_its_solutions_on_their_curves(paper: Catalogue) -> None:
    frame, figure, sentences = fedomw.example.draw(Inputs(paper.params.papers["fedomw"], {}))
    table = frame.pivot_table(index="row", columns="column", values="mean").round(4)
    assert table.loc["uniform"].to_dict() == {"class_1": 0.75, "weight_1": 0.5, "loss": 0.5623}
    assert table.loc["optimal"].to_dict() == {"class_1": 0.75, "weight_1": 1.0, "loss": 0.2877}
    assert frame[["n", "seeds"]].eq(1).all(axis=None)
    (axes,) = figure.axes
    drawn = {str(line.get_label()): np.asarray(line.get_xydata(), np.float64) for line in axes.lines}
    assert [label for label in drawn if label.startswith("p = ")] == [
        "p = (0.5, 0.5)",
        "p = (0.75, 0.25)",
        "p = (1, 0)",
    ]
    for mixture, row, label in (
        ("p = (0.5, 0.5)", "uniform", "best model for p = (1/2, 1/2): 0.5623"),
        ("p = (1, 0)", "optimal", "that model, best p (the proof): 0.2877"),
        ("p = (1, 0)", "joint", "best model and p together: 0.0000"),
    ):
        ((q, loss),) = drawn[label]
        assert (q, loss) == pytest.approx((table.at[row, "class_1"], table.at[row, "loss"]), abs=1e-4)
        curve = drawn[mixture]
        if q < curve[-1, 0]:
            assert np.interp(q, *curve.T) == pytest.approx(loss, abs=1e-3)
    assert all(curve[:, 1].min() >= 0 for curve in drawn.values())
    assert sentences[1] == "The proof keeps the uniform framework's model while it minimises over p."


def test_the_mixture_is_drawn_of_the_five_clients_with_the_most_rows(
    paper: Catalogue, tmp_path: Path
) -> None:
    cells = paper.cells("fedomw", "fig2")
    ((key, runs),) = cells.items()
    assert key == (fedomw.METHOD, fedomw.DATASET)
    start = {f"p_{client}": share for client, share in enumerate((0.1, 0.2, 0.05, 0.25, 0.15, 0.2, 0.05))}
    weights = pd.DataFrame({"pass": [0, 1, 2], **{name: [w, w / 2, w / 4] for name, w in start.items()}})
    for run in runs:
        finish(run, tmp_path, 0.8)
        weights.to_csv(tmp_path / run.folder / "mixture.csv", index=False)
        seal(tmp_path / run.folder, run.spec, code=run.code)
    drawing = paper.target("fedomw", "fig2")
    assert isinstance(drawing, Drawing)
    frame, figure, (sentence, *_) = drawing.draw(Inputs(paper.params.papers["fedomw"], read(cells, tmp_path)))
    assert list(dict.fromkeys(frame["row"])) == ["p_3", "p_1", "p_5", "p_4", "p_0"]
    assert frame.loc[frame["row"] == "p_3", ["round", "mean"]].to_numpy().tolist() == [
        [0, 0.25],
        [1, 0.125],
        [2, 0.0625],
    ]
    assert sentence == f"The 5 clients with the most rows, seed {runs[0].seed}."
    lines = [line for line in figure.axes[0].lines if line.get_linestyle() == ":"]
    dotted = [np.asarray(line.get_ydata())[0] for line in lines]
    assert dotted == [0.25, 0.2, 0.2, 0.15, 0.1]


@pytest.mark.parametrize(("target", "row"), [("table4", "dl_opt"), ("table5", "fedomw")])
def test_ablations_leave_out_what_their_names_say(paper: Catalogue, target: str, row: str) -> None:
    for column in ("usps", "dna"):
        full = spec(paper, "fedomw", target, row, column)["algorithm"]
        assert full["gamma"] > 0
        for ending, norm, learned in (("non", False, False), ("w", True, False), ("p", False, True)):
            part = spec(paper, "fedomw", target, f"{row}_{ending}", column)["algorithm"]
            assert part["gamma"] == (full["gamma"] if norm else 0.0)
            assert part["steps_p"] == (None if learned else 0)
            assert not learned or part["lr_p"] == full["lr_p"]


@pytest.mark.parametrize("row", ["fedavg", "fedprox", "fedomw"])
def test_released_runs_follow_the_code_on_shuffled_labels(paper: Catalogue, row: str) -> None:
    values = spec(paper, "fedomw", "table3_released", row, "dna")
    assert values["variant"] == "released"
    assert values["partition"]["shuffled"]
    assert values["partition"]["legacy_seed"] == 2020
    assert values["algorithm"].get("chained", True)
    assert not spec(paper, "fedomw", "table3", row, "dna")["algorithm"].get("chained", False)


def test_comfed_trains_as_its_section_v_says(paper: Catalogue) -> None:
    for algorithm in paper.params.papers["comfed"].algorithms:
        values = spec(paper, "comfed", "table4", algorithm, "2000")
        assert (values["partition"]["clients"], values["participation"]["fraction"]) == (100, 0.1)
        assert (values["partition"]["convention"], values["partition"]["alpha"]) == ("by_class_min", 0.1)
        training = values["training"]
        assert (training["rounds"], training["momentum"], training["weight_decay"]) == (2000, 0.9, 1e-4)
        assert values["algorithm"]["name"] == algorithm
        assert values["algorithm"].get("option", 1) == 1
        assert values["algorithm"].get("averaging", "nk") == "nk"
        assert (values["algorithm"].get("beta1", 0.9), values["algorithm"].get("beta2", 0.99)) == (0.9, 0.99)


def test_checkpoints_share_runs_and_keep_the_best(paper: Catalogue, tmp_path: Path) -> None:
    assert len(paper.needed("comfed", "table4")) == 16 * 3
    (run, *_) = paper.cells("comfed", "table4")["fedavg", "100"]
    folder = tmp_path / run.folder
    folder.mkdir(parents=True)
    summary = {"spec_sha256": sha256_text(canonical_json(run.spec)), "final": {"test_accuracy": 0.2}}
    (folder / "summary.json").write_text(json.dumps(summary))
    rounds = pd.DataFrame({"round": [0, 100, 200, 300], "test_accuracy": [0.1, 0.3, 0.2, 0.4]})
    rounds.to_csv(folder / "history.csv", index=False)
    seal(folder, run.spec)
    best = [best_so_far(RunFacts(run, tmp_path), column) for column in ("100", "200", "300")]
    assert best == pytest.approx([30.0, 30.0, 40.0])
    (folder / "summary.json").write_text(json.dumps(summary | {"final": None}))
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
