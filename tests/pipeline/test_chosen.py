"""What a search chose, in params.yaml's terms: the best candidate, at the place where its values belong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from pretended import catalogue
from project import HOME, parameters
from typer.testing import CliRunner

from fedcore.base.errors import DataError, SpecError
from pipeline.__main__ import app
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import overlay
from pipeline.papers import build_catalogue
from pipeline.reports.results import short_hash
from pipeline.reports.search import chosen


def report(
    planned: Catalogue, paper: str, target: str, scores: dict[tuple[str, str], float], path: Path
) -> Path:
    """Write a search's csv; candidates without a score reach 50, and one that is negative did not run."""
    about = {"paper": paper, "target": target, "scale": planned.params.scale_of(paper)}
    lines = []
    for (row, column), runs in planned.cells(paper, target).items():
        score = scores.get((row, column), 50.0)
        measured = score >= 0
        values: dict[str, Any] = {
            "mean": score if measured else None,
            "n": int(measured),
            "seeds": 1,
            "diverged": 0,
        }
        specs = {"specs": " ".join(map(short_hash, runs))}
        lines.append(about | {"row": row, "column": column} | values | specs)
    pd.DataFrame(lines).to_csv(path, index=False)
    return path


def test_what_concerns_all_algorithms_goes_to_the_data_set(tmp_path: Path) -> None:
    planned = catalogue("fedavgr")
    scores = {("sigma_0.3-lr_0.02", "dna"): 60.0, ("sigma_0.1-lr_0.08", "mnist"): -1.0}
    choices = chosen(planned, report(planned, "fedavgr", "search_fedavg", scores, tmp_path / "s.csv"))
    entries = choices["papers"]["fedavgr"]["chosen"]
    assert all("of" not in entry for entry in entries)
    sets = {entry["at"]: entry["values"] for entry in entries}
    assert sets["dna"] == {"model.sigma": 0.3, "training.lr": 0.02}, "rows held out are no part of it"
    assert sets["usps"] == {"model.sigma": 0.1, "training.lr": 0.02}, "of equal ones the first"
    (source,) = (entry["source"] for entry in entries if entry["at"] == "dna")
    assert source == "fedavgr/search_fedavg at demo scale: 60, the best of 4 candidates"
    assert set(sets) == set(planned.params.papers["fedavgr"].datasets) - {"mnist"}, (
        "a candidate of mnist was not measured"
    )


def test_a_value_at_an_end_of_what_was_tried_is_named(tmp_path: Path) -> None:
    study = yaml.safe_load((HOME / "studies" / "label_skew.yaml").read_text()) | {"grid": {}}
    over = {"training.weight_decay": [0.0, 0.1], "training.batch_size": [10, 20, 40]}
    study["tune"] = {"over": {"training.lr": [0.1, 0.01, 0.3], **over}}
    planned = build_catalogue({**parameters(), "studies": {"studies/own.yaml": study}})
    largest, smallest = (f", training.lr the {end} tried" for end in ("largest", "smallest"))
    for rate, end in ((0.3, largest), (0.1, ""), (0.01, smallest)):
        best = {(f"lr_{rate}-weight_decay_0-batch_size_40", "mnist-dirichlet"): 60.0}
        choices = chosen(planned, report(planned, "own", "tune_fedavg", best, tmp_path / "s.csv"))
        (entry,) = choices["papers"]["own"]["chosen"]
        ends = f"{end}, training.batch_size the largest tried"
        assert entry["source"] == f"own/tune_fedavg: 60, the best of 18 candidates{ends}"
        assert (entry["of"], entry["at"]) == ("fedavg", "mnist-dirichlet")


def test_a_value_that_is_the_only_one_tried_is_chosen_too(tmp_path: Path) -> None:
    study = yaml.safe_load((HOME / "studies" / "label_skew.yaml").read_text()) | {"grid": {}}
    study |= {"tune": {"over": {"training.lr": [0.1, 0.3]}}}
    study["algorithms"] = {"fedprox": {"tune": {"algorithm.mu": [0.01]}}}
    planned = build_catalogue({**parameters(), "studies": {"studies/own.yaml": study}})
    choices = chosen(planned, report(planned, "own", "tune_fedprox", {}, tmp_path / "s.csv"))
    (entry,) = choices["papers"]["own"]["chosen"]
    assert entry["values"] == {"training.lr": 0.1, "algorithm.mu": 0.01}


def test_a_search_of_other_runs_or_candidates_is_refused_and_what_lacks_a_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = yaml.safe_load((HOME / "studies" / "label_skew.yaml").read_text()) | {"grid": {}}

    def made(trials: int, momentum: float) -> Catalogue:
        study["tune"] = {"trials": trials, "over": {"training.lr": {"low": 0.1, "high": 1.0}}}
        study["datasets"]["mnist"]["training"] = {"momentum": momentum}
        return build_catalogue({**parameters(), "studies": {"studies/own.yaml": study}})

    path = report(made(2, 0.0), "own", "tune_fedavg", {}, tmp_path / "s.csv")
    assert chosen(made(2, 0.0), path)
    for other in (made(2, 0.5), made(3, 0.0)):
        with pytest.raises(DataError, match=r"s\.csv: built for another study or other parameters; build it"):
            chosen(other, path)
    report(made(2, 0.0), "own", "tune_fedavg", {("lr_0.1", "mnist-dirichlet"): -1.0}, path)
    assert chosen(made(2, 0.0), path) == {}
    assert "s.csv: nothing is chosen for mnist-dirichlet: a candidate lacks a run" in capsys.readouterr().err


def test_values_are_printed_by_the_names_that_the_paper_gives_them() -> None:
    planned = catalogue("radfed", "paper")
    rows = planned.target("radfed", "grid_radfed").row_labels(planned.params.papers["radfed"])
    assert rows["redistributions_50"] == "S = 50"


def test_what_concerns_one_algorithm_goes_to_it_and_makes_its_runs(tmp_path: Path) -> None:
    planned = catalogue("fedavgr")
    path = report(planned, "fedavgr", "search_fedprox", {("mu_0.1", "dna"): 60.0}, tmp_path / "s.csv")
    choices = chosen(planned, path)
    (entry,) = (entry for entry in choices["papers"]["fedavgr"]["chosen"] if entry["at"] == "dna")
    assert (entry["of"], entry["values"]) == ("fedprox", {"algorithm.mu": 0.1})
    values = parameters("fedavgr") | {"primary_paper": "fedavgr"}
    tuned = build_catalogue(overlay(values, choices))
    (run, *_) = tuned.cells("fedavgr", "table2")["fedprox", "dna"]
    assert run.spec["algorithm"]["mu"] == 0.1
    (other, *_) = tuned.cells("fedavgr", "table2")["fedavg", "dna"]
    assert other == planned.cells("fedavgr", "table2")["fedavg", "dna"][0]


def test_two_splits_of_a_data_set_have_values_of_their_own(tmp_path: Path) -> None:
    planned = catalogue("radfed", "paper")
    scores = {("redistributions_50", "mnist_1"): 60.0, ("redistributions_80", "mnist_01"): 60.0}
    choices = chosen(planned, report(planned, "radfed", "grid_radfed", scores, tmp_path / "s.csv"))
    per = {entry["at"]: entry["values"] for entry in choices["papers"]["radfed"]["chosen"]}
    rounds = planned.params.papers["radfed"].datasets["mnist"].training.rounds
    assert rounds
    assert per["mnist_1"] == {"algorithm.redistributions": 50, "training.rounds": rounds // 50}
    assert per["mnist_01"] == {"algorithm.redistributions": 80, "training.rounds": rounds // 80}
    assert "eicu" in per


def test_the_smallest_distance_wins_where_the_search_is_for_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = catalogue("comfed", "paper")
    client = {"at": "cifar10", "values": {"training.lr": 0.01, "training.batch_size": 32}}
    server = {"of": "fedyogi", "at": "cifar10", "values": {"algorithm.tau": 0.01}}
    for target, row, expected in (
        ("calibration", "lr 0.01, B 32", client),
        ("calibration_server", "tau 0.01", server),
    ):
        path = report(planned, "comfed", target, {(row, "distance"): 1.0}, tmp_path / "s.csv")
        (entry,) = chosen(planned, path)["papers"]["comfed"]["chosen"]
        assert entry.items() > expected.items()
    path = report(planned, "comfed", "calibration", {("in_use", "distance"): 1.0}, tmp_path / "s.csv")
    assert chosen(planned, path) == {}, "the values in use stay"
    assert not capsys.readouterr().err, "columns that choose nothing lack nothing"


def test_a_report_that_is_not_there_or_no_search_is_refused(tmp_path: Path) -> None:
    planned = catalogue("fedavgr")
    with pytest.raises(DataError, match="not built"):
        chosen(planned, tmp_path / "none.csv")
    with pytest.raises(DataError, match="fedavgr/table2 is no search"):
        chosen(planned, report(planned, "fedavgr", "table2", {}, tmp_path / "t.csv"))
    path = report(planned, "fedavgr", "search_fedavg", {}, tmp_path / "s.csv")
    figure = pd.read_csv(path).assign(target="fig_mmd")
    figure.to_csv(tmp_path / "f.csv", index=False)
    with pytest.raises(DataError, match="fedavgr/fig_mmd is no search"):
        chosen(planned, tmp_path / "f.csv")
    with pytest.raises(DataError, match="made at demo scale, expected paper"):
        chosen(catalogue("fedavgr", "paper"), path)
    pd.read_csv(path).assign(paper="mini").to_csv(path, index=False)
    with pytest.raises(SpecError, match="reports/mini/search_fedavg"):
        chosen(planned, path)
    (tmp_path / "w.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="found the columns a, b"):
        chosen(planned, tmp_path / "w.csv")


def test_the_command_prints_an_overlay(tmp_path: Path) -> None:
    planned = catalogue("fedavgr")
    path = report(planned, "fedavgr", "search_fedprox", {}, tmp_path / "s.csv")
    result = CliRunner().invoke(app, ["chosen", str(path), "--scale", "demo"])
    assert result.exit_code == 0, result.output
    assert yaml.safe_load(result.output) == chosen(planned, path)
