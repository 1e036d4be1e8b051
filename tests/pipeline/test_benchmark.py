"""A benchmark: shared trials, stages that follow from what is there, and its reports."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from pretended import finish
from project import HOME, parameters, seal

from fedcore.base.errors import SpecError
from fedcore.base.registry import plugins
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import overlay
from pipeline.catalogue.schema import Range, TuneParams
from pipeline.catalogue.targets import PlannedRun
from pipeline.papers import build_catalogue
from pipeline.reports.search import candidates

FILE = "studies/benchmark/bench.yaml"
SETS = {"validation": 0.05, "validation_from": "pool", "selection": 0.1, "test": 0.25}
RATE = {"low": 0.01, "high": 1.0, "log": True}
STUDY: dict[str, Any] = {
    "title": "Which method, where?",
    "seeds": [0, 1],
    "equal_trainings": True,
    "measurements": 5,
    "common": {"evaluation": {"count_rows": True}},
    "regimes": {"b": {"clients": 4, "training": {"rounds": 10, "batch_size": 10, "lr": 0.1}}},
    "datasets": {
        name: {
            "data": {"name": name, "edition": "demo"},
            "model": {"name": "mlp", "hidden": [8]},
            "splits": {"s": {"name": "iid", **SETS}},
        }
        for name in ("mnist", "a1a", "svmguide1")
    },
    "tune": {
        "how": "sobol",
        "trials": 4,
        "held_out": "selection",
        "columns": ["training.lr", "algorithm.mu"],
        "over": {"training.lr": RATE},
    },
    "algorithms": {
        "fedavg": {},
        "fedprox": {"tune": {"algorithm.mu": RATE}},
        "radfed": {"tune": {"algorithm.redistributions": [2, 5]}},
        "moon": {"mu": 1.0},
        "oneshot": {"once": True},
    },
    "benchmark": {
        "base": "fedavg",
        "seeds": [101],
        "best": 2,
        "families": {"main": ["fedprox"], "rest": ["radfed", "moon"]},
        "kinds": {"none": ["mnist", "a1a"], "label": ["svmguide1"]},
        "omit": {"a1a": ["moon"]},
    },
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(changes: dict[str, Any] | None = None) -> Catalogue:
    study = overlay(copy.deepcopy(STUDY), changes or {})
    return build_catalogue(parameters() | {"studies": {FILE: study}})


def build(catalogue: Catalogue, target: str) -> pd.DataFrame:
    outputs = catalogue.target("bench", target).paths(Path("reports/bench"), target)
    outputs["csv"].parent.mkdir(parents=True, exist_ok=True)
    catalogue.build("bench", target, outputs)
    return pd.read_csv(outputs["csv"])


def accuracy(run: PlannedRun) -> float | None:
    """Return a run's pretended accuracy: best at a rate of .1; FedProx is ahead, RADFed may diverge."""
    rate = run.spec["training"]["lr"]
    if run.algorithm == "radfed" and rate > 0.3:
        return None
    gain = {"fedprox": 0.02, "moon": -0.02}.get(run.algorithm, 0.0)
    return float(0.8 + gain - 0.05 * abs(np.log10(rate) + 1) + 0.001 * run.seed)


def pretend(runs: list[PlannedRun]) -> None:
    for run in runs:
        finish(run, Path(), accuracy(run), bytes_down=[0, 1, 1], bytes_up=[0, 1, 1])
        path = Path(run.folder) / "summary.json"
        text = path.read_text()
        work = 2 if run.algorithm == "moon" else 1
        more = f'"bytes_down": {work}, "bytes_up": {work}, '
        more += f'"rows_gradient": 10, "rows_forward": {30 * (work - 1)}'
        path.write_text(f"{text[:-1]}, {more}}}")
        seal(Path(run.folder), run.spec, code=run.code)


def test_stages_follow_from_what_is_there() -> None:
    catalogue = made()
    assert set(catalogue.papers["bench"].targets) == {"partitions", "trials"}
    trials = catalogue.needed("bench", "trials")
    assert len(trials) == (5 * 3 - 1) * 4
    assert {run.seed for run in trials} == {100}
    assert {run.spec["evaluation"]["tested_on"] for run in trials} == {"selection"}
    pretend(trials)
    build(catalogue, "trials")

    catalogue = made()
    assert set(catalogue.papers["bench"].targets) == {"partitions", "trials", "again"}
    again = catalogue.needed("bench", "again")
    assert len(again) == (5 * 3 - 1) * 2 * 2
    assert {run.seed for run in again} == {100, 101}
    assert len({run.folder for run in again} - {run.folder for run in trials}) == len(again) / 2
    for (row, column), runs in catalogue.cells("bench", "again").items():
        rates = sorted(
            (abs(np.log10(own[0].spec["training"]["lr"]) + 1), row)
            for (row, place), own in catalogue.cells("bench", "trials").items()
            if place == column and own[0].algorithm == runs[0].algorithm and accuracy(own[0]) is not None
        )
        assert row in [name for _, name in rates[:2]]
    pretend(again)
    build(catalogue, "again")

    catalogue = made()
    finals = catalogue.needed("bench", "board")
    assert {run.seed for run in finals} == {0, 1}
    assert all("tested_on" not in run.spec["evaluation"] for run in finals)
    assert len(finals) == (5 * 3 - 1) * 2
    pretend(finals)
    board = build(catalogue, "board").set_index("row")
    assert next(iter(board.index)) == "fedprox"
    assert board.loc["fedprox", "effect"] == pytest.approx(2.0)
    assert board.loc["fedprox", "verdict"] == "better"
    assert board.loc["moon", "verdict"] == "worse"
    assert board.loc["radfed", "sets"] == 3
    assert board.loc["moon", "sets"] == 2
    assert [board.loc["moon", key] for key in ("bytes", "rows")] == [2.0, 2.0]
    assert board.loc["fedprox", "p"] == 2 / 2**3, "alone in its family"
    assert board["missing"].tolist() == [0] * 5
    assert board["rank"].isna()["oneshot"], "is in no family"
    for figure in ("effects", "profiles", "budget"):
        build(catalogue, figure)
    assert build(catalogue, "kinds").set_index("row").loc["fedprox", "none"] == "+2.00 (2)"
    matrix = build(catalogue, "matrix").set_index(["row", "column"])
    assert ("moon", "a1a-s") not in matrix.index
    worth = pd.read_csv("reports/bench/budget.csv").set_index(["row", "column"])["mean"]
    assert worth["fedavg", 4] >= worth["fedavg", 2] >= worth["fedavg", 1]


def test_a_report_of_what_is_there_says_what_is_missing() -> None:
    for stage in ("trials", "again"):
        catalogue = made()
        pretend(catalogue.needed("bench", stage))
        build(catalogue, stage)
    catalogue = made()
    pretend([run for run in catalogue.needed("bench", "board") if run.dataset != "mnist"])
    board = build(catalogue, "board").set_index("row")
    assert [board.loc["fedprox", key] for key in ("missing", "sets")] == [1, 2]
    text = Path("reports/bench/board.md").read_text()
    assert "18 of 28 runs are here" in text


def test_a_cell_goes_on_without_waiting_and_other_ranges_begin_anew() -> None:
    catalogue = made()
    pretend([run for run in catalogue.needed("bench", "trials") if run.dataset == "mnist"])
    build(catalogue, "trials")
    assert {column for _, column in made().cells("bench", "again")} == {"mnist-s"}
    assert "again" not in made({"tune": {"over": {"training.lr": {"high": 2.0}}}}).papers["bench"].targets


def test_diverged_trials_count_and_rank_last() -> None:
    catalogue = made()
    pretend(catalogue.needed("bench", "trials"))
    frame = build(catalogue, "trials")
    gone = frame[frame["diverged"] > 0]
    assert set(gone["row"].str.split("-").str[0]) == {"radfed"}
    assert (gone["mean"] == 10.0).all()
    assert (frame["n"] == frame["seeds"]).all()
    chosen = {row for row, _ in made().cells("bench", "again")}
    lost = {(row, column) for row, column in zip(gone["row"], gone["column"], strict=True)}
    assert not lost & set(made().cells("bench", "again"))
    assert len(chosen) > 2


def test_all_methods_try_the_same_shares_in_each_setting() -> None:
    cells = made().cells("bench", "trials")
    rates = {
        (runs[0].algorithm, column, row.rpartition("-")[2]): runs[0].spec["training"]["lr"]
        for (row, column), runs in cells.items()
    }
    for (method, column, number), rate in rates.items():
        assert rates["fedavg", column, number] == rate, method
    assert len({rates["fedavg", "mnist-s", f"{n:02d}"] for n in range(4)}) == 4
    assert rates["fedavg", "mnist-s", "00"] != rates["fedavg", "a1a-s", "00"]


def test_a_sobol_sequence_has_one_point_in_each_part_of_a_range() -> None:
    tune = TuneParams(how="sobol", trials=16, columns=("a", "b"))
    ranges = {"a": Range(low=0, high=16), "b": Range(low=0, high=16), "c": Range(low=0, high=16)}
    found = candidates(tune, ranges, "place")
    for key in ranges:
        assert sorted(int(own[key]) for own in found) == list(range(16))
    alone = candidates(tune, {"b": ranges["b"]}, "place")
    assert [own["b"] for own in alone] == [own["b"] for own in found]
    assert candidates(tune, ranges, "elsewhere") != found
    with pytest.raises(SpecError, match="expected a power of 2"):
        candidates(TuneParams(how="sobol", trials=12), ranges)


def test_runs_are_equally_long_and_equally_often_measured() -> None:
    runs = made().needed("bench", "trials")
    found = {(run.algorithm, run.spec["algorithm"].get("redistributions")): run.spec for run in runs}
    lengths = {key: (own["training"]["rounds"], own["evaluation"]["every"]) for key, own in found.items()}
    assert lengths["fedavg", None] == (10, 2)
    assert (lengths["radfed", 2], lengths["radfed", 5]) == ((5, 1), (2, 1))
    assert lengths["oneshot", None] == (1, 1)
    assert found["oneshot", None]["training"]["local_epochs"] == 10
    half = {"datasets": {"mnist": {"fraction": 0.5}}}
    once = [run for run in made(half).needed("bench", "trials") if run.algorithm == "oneshot"]
    assert {run.spec["training"]["local_epochs"] for run in once if run.dataset == "mnist"} == {5}
    assert {run.spec["participation"]["fraction"] for run in once} == {1.0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"benchmark": {"base": "fedagv"}}, r"benchmark\.base: got 'fedagv'.*did you mean 'fedavg'"),
        ({"benchmark": {"families": {"main": ["x"]}}}, r"benchmark\.families\.main: got 'x'"),
        ({"benchmark": {"families": {"rest": ["fedprox"]}}}, r"families: got 'fedprox' twice or as base"),
        ({"benchmark": {"families": {"rest": ["fedavg"]}}}, r"families: got 'fedavg' twice or as base"),
        ({"benchmark": {"omit": {"mnits": ["moon"]}}}, r"benchmark\.omit: got 'mnits'.*'mnist'"),
        ({"benchmark": {"omit": {"a1a": ["mon"]}}}, r"benchmark\.omit\.a1a: got 'mon'.*'moon'"),
        ({"benchmark": {"kinds": {"label": ["b"]}}}, r"benchmark\.kinds\.label: got 'b'"),
        ({"benchmark": {"best": 9}}, r"benchmark\.best: got 9, expected at most the 4 trials"),
        ({"tune": {"held_out": 0.2}}, r"tune: a benchmark expects 'how: sobol', 'trials' and 'held_out: sel"),
        ({"tune": {"trials": 6}}, r"tune: got 6 trials of 1 keys, expected a power of 2"),
        ({"benchmark": {"margin": 0}}, r"benchmark\.margin: .*greater than 0"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=f"^{FILE}: .*{said}") as refused:
        made(changes)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["benchmark", "benchmark_small"])
def test_the_benchmarks_here_are_valid(name: str) -> None:
    path = HOME / "studies" / "benchmark" / f"{name}.yaml"
    study = yaml.safe_load(path.read_text())
    catalogue = build_catalogue(parameters() | {"studies": {str(path): study}})
    cells = catalogue.papers[name].targets["trials"].cells(catalogue.params.papers[name])
    methods = {query[0].algorithm for query in cells.values()}
    if name == "benchmark":
        assert methods == set(plugins("algorithm")), "all algorithms take part"
        assert len({column for _, column in cells}) == 24
        in_families = [one for own in study["benchmark"]["families"].values() for one in own]
        assert len(in_families) == 34
