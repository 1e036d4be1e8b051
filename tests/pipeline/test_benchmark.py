"""A benchmark: shared trials, stages that follow from what is there, and its reports."""

from __future__ import annotations

import copy
import json
import random
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
import yaml
from pretended import finish
from project import HOME, parameters, seal
from wording import one_line

from fedcore.base.errors import DataError, SpecError
from fedcore.base.options import validate
from fedcore.base.registry import plugins
from fedcore.execution.runner import Settings
from pipeline.catalogue import Catalogue, codehash
from pipeline.catalogue.params import overlay
from pipeline.catalogue.schema import Range, ReportParams, StudyParams, TuneParams
from pipeline.catalogue.targets import PlannedRun
from pipeline.cli import benchmark as sitting
from pipeline.cli.benchmark import SMALL, WHOLE, _through, rank, with_method, work
from pipeline.cli.cost import bill
from pipeline.cli.cost import text as text_of
from pipeline.fidelity.reference import keep
from pipeline.papers import build_catalogue
from pipeline.reports import effects
from pipeline.reports.results import RunFacts
from pipeline.reports.results import is_made as done
from pipeline.reports.search import candidates
from pipeline.reports.trials import Plan, curve, late_mean
from pipeline.workflow.answers import Workflow
from pipeline.workflow.dvc import means_json

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
    monkeypatch.setattr(effects, "bootstrap", partial(effects.bootstrap, draws=10_000))


def made(changes: dict[str, Any] | None = None) -> Catalogue:
    study = overlay(copy.deepcopy(STUDY), changes or {})
    return build_catalogue(parameters() | {"studies": {FILE: study}})


def build(catalogue: Catalogue, target: str) -> pd.DataFrame:
    outputs = catalogue.target("bench", target).paths(Path("reports/bench"), target)
    outputs["csv"].parent.mkdir(parents=True, exist_ok=True)
    catalogue.sources("bench", target).build(outputs)
    return pd.read_csv(outputs["csv"])


def accuracy(run: PlannedRun) -> float | None:
    """Return a run's pretended accuracy: best at a rate of .1; FedProx is ahead, RADFed may diverge."""
    rate = run.spec["training"]["lr"]
    if run.algorithm == "radfed" and rate > 0.3:
        return None
    gain = {"fedprox": 0.02, "moon": -0.02}.get(run.algorithm, 0.0)
    return float(0.8 + gain - 0.05 * abs(np.log10(rate) + 1) + 0.001 * run.seed)


def pretend(runs: list[PlannedRun], score: Callable[[PlannedRun], float | None] = accuracy) -> None:
    for run in runs:
        work = 2 if run.algorithm == "moon" else 1
        sent: dict[str, list[float]] = {"bytes_down": [0, work, work], "bytes_up": [0, 1, 1]}
        finish(run, Path(), score(run), **sent)
        path = Path(run.folder) / "summary.json"
        text = path.read_text()
        more = f'"rows_gradient": 10, "rows_forward": {30 * (work - 1)}'
        path.write_text(f"{text[:-1]}, {more}}}")
        path.with_name("timing.json").write_text(f'{{"device": "cpu", "seconds": {3 * work}}}')
        seal(Path(run.folder), run.spec, code=run.code)


def heat_map_lacks_what_was_not_run(catalogue: Catalogue, finals: list[PlannedRun]) -> None:
    for method, left in (("moon", {"fedprox", "radfed"}), ("fedavg", set())):
        for run in finals:
            if run.algorithm == method and "svmguide1" in run.folder:
                shutil.rmtree(run.folder)
        kinds = build(catalogue, "kinds")
        assert {*kinds.loc[kinds["column"] == "label", "row"]} - {"oneshot"} == left
    assert "95% interval, not corrected for how many" in Path("reports/bench/kinds.caption.md").read_text()


def figures_and_costs_are_of_all_stages(catalogue: Catalogue) -> None:
    assert {*build(catalogue, "profiles")["row"]} == {*build(catalogue, "budget")["row"]} - {"oneshot"}
    cost = build(catalogue, "cost").set_index("row")
    assert [*cost.loc["moon", ["runs", "ratio"]]] == [2 * (4 + 2 + 2), 2.0], "trials, two again, finals"
    assert cost["hours"].sum() == pytest.approx(3 * (4 * 24 + 2 * 16) / 3600)
    trade = build(catalogue, "tradeoff").set_index(["row", "column"])["mean"]
    assert [*trade["moon"][["traffic", "work"]], trade["fedprox", "effect"]] == pytest.approx([1.5, 2.0, 2.0])


def test_stages_follow_from_what_is_there() -> None:
    catalogue = made()
    assert set(catalogue.papers["bench"].targets) == {"partitions", "trials", "decisions"}
    trials = catalogue.needed("bench", "trials")
    assert len(trials) == (5 * 3 - 1) * 4
    assert {run.seed for run in trials} == {100}
    assert {run.spec["evaluation"]["tested_on"] for run in trials} == {"selection"}
    pretend(trials)
    build(catalogue, "trials")

    catalogue = made()
    assert set(catalogue.papers["bench"].targets) == {"partitions", "trials", "again", "decisions"}
    again = catalogue.needed("bench", "again")
    assert len(again) == (5 * 3 - 1) * 2 * 2
    assert {run.seed for run in again} == {100, 101}
    assert len({run.folder for run in again} - {run.folder for run in trials}) == len(again) / 2
    for (row, column), runs in catalogue.cells("bench", "again").items():
        rates = sorted(
            (abs(np.log10(tried[0].spec["training"]["lr"]) + 1), row)
            for (row, place), tried in catalogue.cells("bench", "trials").items()
            if place == column and tried[0].algorithm == runs[0].algorithm and accuracy(tried[0]) is not None
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
    assert {*board["verdict"].drop("fedavg")} == {"undecided"}, "of three data sets nothing is said"
    assert board.loc["radfed", "sets"] == 3
    assert board.loc["moon", "sets"] == 2
    assert [board.loc["moon", key] for key in ("traffic", "work")] == [1.5, 2.0]
    assert board.loc["fedprox", "p"] == 2 / 2**3, "alone in its family"
    assert board["missing"].tolist() == [0] * 5
    gone = sum(accuracy(run) is None for run in trials if run.algorithm == "radfed")
    assert board.loc["radfed", "gone"] == f"{gone / 12:.0%}, 0%", "of trials, and of final runs"
    assert board["rank"].isna()["oneshot"], "is in no family"
    figures_and_costs_are_of_all_stages(catalogue)
    assert build(catalogue, "effects").set_index("row").loc["fedprox", "n"] == 3
    kinds = build(catalogue, "kinds").set_index(["row", "column"])
    assert [*kinds.loc[("fedprox", "none"), ["mean", "n"]]] == pytest.approx([2.0, 2])
    drawn = {name: Path(f"reports/bench/{name}.svg").read_text() for name in ("kinds", "budget", "profiles")}
    assert {">none<", ">n = 2<", ">+2.0<"} <= {*re.findall(">[^<]+<", drawn["kinds"])}
    heat_map_lacks_what_was_not_run(catalogue, finals)
    assert not re.search(r">\d\.\d<", drawn["budget"].partition(">trials<")[0]), "trials are whole"
    assert all(drawn[name].count("<use ") > 30 for name in ("budget", "profiles")), "lines have markers"
    assert "Budget of studies/benchmark/bench.yaml." in Path("reports/bench/budget.caption.md").read_text()
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
    build(catalogue, "decisions")
    text = Path("reports/bench/decisions.md").read_text()
    assert {*re.findall(r"(\w+) \S+(?: \([^)]*\))?, keeps state", text)} == {"MOON"}


@pytest.mark.slow
def test_reports_can_be_made_while_the_base_lacks_runs() -> None:
    for stage in ("trials", "again"):
        pretend(made().needed("bench", stage))
        build(made(), stage)
    finals = made().needed("bench", "board")
    pretend([run for run in finals if run.algorithm == "moon" or (run.algorithm, run.seed) == ("fedavg", 1)])
    for name in made().papers["bench"].targets:
        if name not in {"partitions", "trials", "again"}:
            build(made(), name)
    assert build(made(), "board")["effect"].isna().all()
    assert "No setting has all runs of the base." in Path("reports/bench/sensitivity.md").read_text()
    pretend([run for run in finals if run.dataset == "a1a" and not done(run, Path())])
    of_one = build(made(), "board").set_index("row").loc["fedprox"]
    assert (of_one["sets"], of_one["verdict"]) == (1, "undecided")
    assert of_one.isna()["interval"], "seeds of one data set say nothing about others"


@pytest.mark.slow
def test_a_method_is_ranked_where_all_others_are_through() -> None:
    for stage in ("trials", "again", "board"):
        pretend(made().needed("bench", stage))
        build(made(), stage)
    everywhere = {"b-mnist-s", "b-a1a-s", "b-svmguide1-s"}
    assert _through(made(), "bench", "moon") == everywhere
    again = Path("reports/bench/again.csv")
    lines = again.read_text().splitlines(keepends=True)
    again.write_text("".join(line for line in lines if not ("fedprox" in line and "a1a-s" in line)))
    assert _through(made(), "bench", "moon") == everywhere - {"b-a1a-s"}
    assert _through(made(), "bench", "fedprox") == everywhere
    again.unlink()
    assert _through(made(), "bench", "moon") == set()


@pytest.mark.slow
def test_a_second_stage_may_have_lines_of_trials_that_are_no_longer_the_best() -> None:
    for stage in ("trials", "again"):
        pretend(made().needed("bench", stage))
        frame = build(made(), stage)
    cells = made().cells("bench", "matrix")
    row, column = frame[["row", "column"]].iloc[0]
    lines = frame[frame["column"] == column]
    other = next(name for number in range(4) if (name := f"{row[:-1]}{number}") not in {*lines["row"]})
    stale = lines[lines["row"] == row].assign(row=other, mean=100.0)
    pd.concat([frame, stale]).to_csv("reports/bench/again.csv", index=False)
    assert made().cells("bench", "matrix") == cells


@pytest.mark.slow
def test_a_base_whose_chosen_rates_lie_at_an_end_of_their_range_is_flagged() -> None:
    changes = {"tune": {"trials": 16}, "algorithms": {"radfed": {}, "moon": {}, "oneshot": {}}}
    for stage in ("trials", "again", "board", "decisions"):
        catalogue = made(changes)
        runs = [run for run in catalogue.needed("bench", stage) if run.algorithm in {"fedavg", "fedprox"}]
        new = [run for run in runs if not done(run, Path())]
        pretend(new, lambda run: 0.8 + 0.1 * np.log10(run.spec["training"]["lr"]))
        build(catalogue, stage)
    board = build(catalogue, "board").set_index("row")
    assert board.loc["fedavg", "edge"] == "100%, too narrow"
    flag = "Range too narrow: 3 of 3 values chosen for FedAvg lie at an end (training.lr the largest 3 times)"
    for name in ("board", "decisions"):
        assert flag in Path(f"reports/bench/{name}.md").read_text()


def test_controls_stand_beside_the_methods() -> None:
    """Test rows that favour a rate of .3 choose it, and rows dealt to clients are worth a point."""
    changes = {"oracle": {"evaluation.tested_on": "test"}, "dealt": {"partition.validation": 0}}
    with_controls = {"report": {"controls": changes, "labels": {"dealt": "More rows"}}}

    def score(run: PlannedRun) -> float:
        best = -1.5 if "tested_on" in run.spec["evaluation"] else -0.5
        rows = 0.01 * (run.spec["partition"]["validation"] == 0)
        return float(0.8 + rows - 0.05 * abs(np.log10(run.spec["training"]["lr"]) - best))

    catalogue = made(with_controls)
    for stage in ("trials", "again", "board"):
        pretend([run for run in catalogue.needed("bench", stage) if not done(run, Path())], score)
        board = build(catalogue, stage).set_index("row")
        catalogue = made(with_controls)
    trials = catalogue.cells("bench", "trials")
    tested = {
        row[:6] for row, column in trials if "tested_on" not in trials[row, column][0].spec["evaluation"]
    }
    assert tested == {"oracle"}
    assert {*board.index[-2:]} == {"oracle", "dealt"}, "below the methods"
    assert board.loc["dealt", "effect"] == pytest.approx(1.0)
    assert float(board["effect"]["oracle"]) > 0.2, "at the rate that test rows favour"
    assert board.loc[["dealt", "oracle"], ["p", "rank"]].isna().all(axis=None), "they are in no family"
    text = Path("reports/bench/board.md").read_text()
    assert "| More rows | 1.00 |" in text
    build(catalogue, "matrix")
    lines = Path("reports/bench/matrix.md").read_text().splitlines()
    bold = {line.split(" | ")[0].removeprefix("| ") for line in lines if "**" in line}
    assert bold == {"FedAvg", "FedProx", "RADFed", "MOON"}, "controls and methods in no family don't compete"
    assert "| FedAvg: oracle |" in text
    for drawn in ("effects", "budget"):
        assert not {*changes} & {*build(catalogue, drawn)["row"]}
    assert [*build(made(), "board")["row"]] == [*board.index[:-2]]
    protocol = re.search(r"Protocol \w+\.", Path("reports/bench/board.md").read_text())
    assert protocol
    assert protocol[0] in text, "controls are no part of it"


@pytest.mark.slow
def test_controls_may_draw_anew_or_have_a_multiple_of_something() -> None:
    """The twin has other trials and draws on the same partitions; half has half of the rounds."""
    controls = {"twin": {"draw": "twin", "repetition": 1}, "half": {"training.rounds": {"times": 0.5}}}
    catalogue = made({"report": {"controls": controls}})
    runs = {}
    for (row, place), (run,) in catalogue.cells("bench", "trials").items():
        name, _, number = row.partition("-")
        runs[name, place, number.rpartition("-")[2]] = run
    for (name, place, number), run in runs.items():
        if name in controls:
            assert run.partition == runs["fedavg", place, number].partition
    lengths = {(name, run.spec["training"]["rounds"]) for (name, *_), run in runs.items()}
    assert {("fedavg", 10), ("twin", 10), ("half", 5)} <= lengths
    rates = {
        name: {run.spec["training"]["lr"] for (row_name, *_), run in runs.items() if row_name == name}
        for name in ("fedavg", *controls)
    }
    assert rates["half"] == rates["fedavg"]
    assert rates["twin"].isdisjoint(rates["fedavg"])
    for stage in ("trials", "again", "board"):
        pretend([run for run in catalogue.needed("bench", stage) if not done(run, Path())])
        build(catalogue, stage)
        catalogue = made({"report": {"controls": controls}})
    text = Path("reports/bench/board.md").read_text()
    match = re.search(r"FedAvg: half is not below the base in 3 of 3: (.*?)\. Protocol", text)
    assert match, "nothing depends on rounds here"
    assert {*match[1].split(", ")} == {column for _, column in catalogue.cells("bench", "matrix")}


def through(catalogue: Catalogue, *stages: str) -> Catalogue:
    """Pretend the runs of stages, keep them, and delete what is not in git."""
    for stage in stages:
        pretend([run for run in catalogue.needed("bench", stage) if not done(run, Path())])
        build(catalogue, stage)
        catalogue = made()
    keep(catalogue, [f"bench/{name}" for name in catalogue.papers["bench"].targets])
    shutil.rmtree("results")
    shutil.rmtree("reports/bench")
    return made()


@pytest.mark.slow
def test_the_next_sitting_takes_up_what_is_kept() -> None:
    catalogue = through(made(), "trials", "again", "matrix")
    boards = {name: Path(f"reports/reference/bench/{name}.csv").read_text() for name in ("board", "effects")}
    assert all(done(run, Path()) for run in catalogue.needed("bench", "board"))
    for name, text in boards.items():
        build(catalogue, name)
        assert Path(f"reports/bench/{name}.csv").read_text() == text
    flow = Workflow(parameters() | {"studies": {FILE: STUDY}})
    wildcards = SimpleNamespace(paper="bench", table="board", get={"table": "board"}.get)
    assert not Path("reports/bench/trials.csv").exists()
    assert flow.summaries(wildcards) == ["reports/reference/bench/runs.parquet"]
    assert flow.histories(wildcards) == []
    assert "0 runs to make, 28 already made" in text_of(bill(catalogue, "bench/board"))[0]
    again = keep(catalogue, ["bench/board", "bench/trials"])
    assert again.written == (), "nothing is new"


def test_reports_that_decide_which_runs_there_are_are_written_first() -> None:
    """A board that is made while the trials' table is written anew would lack what that table says."""
    catalogue = made()
    for stage in ("trials", "again"):
        pretend(catalogue.needed("bench", stage))
        build(catalogue, stage)
        catalogue = made()
    flow = Workflow(parameters() | {"studies": {FILE: STUDY}})
    names = {
        "trials": [],
        "again": ["trials"],
        "board": ["trials", "again"],
        "decisions": ["trials", "again"],
    }
    for name, first in names.items():
        wildcards = SimpleNamespace(paper="bench", table=name, get={"table": name}.get)
        paths = flow.summaries(wildcards)
        assert paths[: len(first)] == [f"reports/bench/{table}.csv" for table in first]
        assert all(path.endswith("/summary.json") for path in paths[len(first) :])


@pytest.mark.slow
def test_a_kept_run_counts_only_for_its_own_specification() -> None:
    through(made(), "trials")
    other = made({"regimes": {"b": {"training": {"rounds": 20}}}})
    assert not any(done(run, Path()) for run in other.needed("bench", "trials"))
    assert "again" not in other.papers["bench"].targets, "a csv of another protocol chooses nothing"
    path = Path("reports/reference/bench/runs.parquet")
    frame = pd.read_parquet(path)
    frame["spec_sha256"] = "0" * 64
    frame.to_parquet(path)
    assert not any(done(run, Path()) for run in made().needed("bench", "trials"))


@pytest.mark.slow
def test_results_here_go_before_kept_ones() -> None:
    catalogue = through(made(), "trials")
    run = catalogue.needed("bench", "trials")[0]
    finish(run, Path(), 0.5)
    seal(Path(run.folder), run.spec, code=run.code)
    assert RunFacts(run, Path()).score("test_accuracy") == 50.0
    flow = Workflow(parameters() | {"studies": {FILE: STUDY}})
    wildcards = SimpleNamespace(paper="bench", table="trials", get={"table": "trials"}.get)
    lines = "reports/reference/bench/runs.parquet"
    assert flow.summaries(wildcards) == [f"{run.folder}/summary.json", lines]


@pytest.mark.slow
def test_a_diverged_run_is_kept_with_its_untrained_score() -> None:
    catalogue = through(made(), "trials")
    gone = [run for run in catalogue.needed("bench", "trials") if accuracy(run) is None]
    assert gone
    for run in gone:
        facts = RunFacts(run, Path())
        assert facts.diverged
        assert late_mean(curve(facts), 0.2) == 10.0


MINE = """
from fedcore.algorithms.fedprox import PLUGIN as FEDPROX
from dataclasses import replace

def build(options, spec):
    return FEDPROX.build(options, spec)

PLUGIN = replace(FEDPROX, name="mine", build=build, label="Mine")
TUNE = {"algorithm.mu": {"low": 0.001, "high": 0.1, "log": True}}
"""
STANDING = ("effect", "interval", "sets", "verdict", "p", "tests", "place", "equal", "files")
TINY: dict[str, Any] = {
    **STUDY,
    "seeds": [0],
    "regimes": {"b": {"clients": 3, "training": {"rounds": 2, "local_steps": 1, "batch_size": 5, "lr": 0.1}}},
    "datasets": {key: dataset for key, dataset in STUDY["datasets"].items() if key != "mnist"},
    "tune": {**STUDY["tune"], "trials": 2},
    "algorithms": {key: STUDY["algorithms"][key] for key in ("fedavg", "fedprox")},
    "benchmark": {"base": "fedavg", "seeds": [101], "best": 1, "families": {"all": ["fedprox"]}},
}


SMALL_BOARD = Path("reports/benchmark_small/board.md")


def contribute(
    folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, **files: str
) -> None:
    """Make files of algorithms, by their names, known until the test ends."""
    (folder / "mine/algorithms").mkdir(parents=True)
    for name, text in files.items():
        (folder / f"mine/algorithms/{name}.py").write_text(text)
    monkeypatch.setenv("FEDCORE_PLUGINS", str(folder / "mine"))
    plugins.cache_clear()
    request.addfinalizer(plugins.cache_clear)


def test_what_a_method_tries_is_that_of_its_file_or_of_the_whole_benchmark(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    WHOLE.parent.mkdir(parents=True)
    WHOLE.write_text(yaml.safe_dump(STUDY))
    reused = MINE.replace("build=build, ", "")
    files = {
        "reused": reused,
        "wrapped": "from functools import partial\n" + MINE.replace("build=build", "build=partial(build)"),
        "peeking": reused.replace("algorithm.mu", "evaluation.tested_on"),
        "wider": reused.replace("algorithm.mu", "training.lr"),
    }
    named = {name: text.replace('"mine"', f'"{name}"') for name, text in files.items()}
    contribute(tmp_path, monkeypatch, request, **named)
    ranges = {"algorithm.mu": {"low": 0.001, "high": 0.1, "log": True}}
    assert with_method(TINY, "reused")["algorithms"]["reused"] == {"tune": ranges}
    assert with_method(TINY, "oneshot")["algorithms"]["oneshot"] == {"once": True}
    with pytest.raises(
        SpecError, match=r"algorithms/peeking\.py: TUNE has the key 'evaluation\.tested_on', e"
    ):
        with_method(TINY, "peeking")
    with_method(TINY, "wider")
    said = capsys.readouterr().err
    assert said.endswith(
        "wider.py: TUNE has training.lr, so wider doesn't try the values that all others try\n"
    )
    with pytest.raises(SpecError, match="'wrapped': got a build of 'functools', expected a function of its"):
        codehash.of_run("wrapped", "mnist", "mlp", "iid")


def test_a_rank_that_another_command_took_off_the_board_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    board = pd.DataFrame({"sets": {"fedavg": 1.0}})
    monkeypatch.setattr("pipeline.cli.benchmark._sit", lambda *_: (board, []))
    with pytest.raises(DataError, match=r"^reports/benchmark_small: another command wrote it meanwhile"):
        rank("mine", small=True, minutes=5, root=HOME / "data", mirror=None)


@pytest.mark.parametrize(
    ("p", "tests", "said"),
    [
        (0.0625, 8, "undecided; p = 0.062 (corrected for 8 tests); place 1 of the 1 on"),
        (0.0004, 1, "undecided; p = 0.0004 (one test, so uncorrected); place 1 of the 1 on"),
        (np.nan, np.nan, "undecided; place 1 of the 1 on"),
    ],
)
def test_a_rank_says_for_how_many_tests_its_p_is_corrected(
    p: float, tests: float, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = {"effect": 1.0, "interval": "-0.50 to +1.50", "sets": 6.0, "verdict": "undecided"}
    board = pd.DataFrame({"mine": {**line, "p": p, "tests": tests}}).T
    monkeypatch.setattr("pipeline.cli.benchmark._sit", lambda *_: (board, [Path("board.md")]))
    rank("mine", small=True, minutes=5, root=HOME / "data", mirror=None)
    printed = capsys.readouterr().out
    assert said in printed
    assert printed.endswith("wrote ./: board.md\n")


def test_a_method_is_blamed_for_what_it_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    Path("params.yaml").write_text(yaml.safe_dump(parameters()))
    SMALL.parent.mkdir(parents=True)
    SMALL.write_text(yaml.safe_dump(TINY, sort_keys=False))
    WHOLE.write_text(yaml.safe_dump(STUDY))
    contribute(tmp_path, monkeypatch, request, mine=MINE.replace("algorithm.mu", "algorithm.mi"))
    with pytest.raises(SpecError, match=r"mine/algorithms/mine\.py: TUNE: algorithm\.mi: unknown key"):
        rank("mine", small=True, minutes=5, root=HOME / "data", mirror=None)


def test_a_benchmark_is_worked_on_in_sittings_and_ranks_a_plug_in(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    Path("params.yaml").write_text(yaml.safe_dump(parameters()))
    SMALL.parent.mkdir(parents=True)
    SMALL.write_text(yaml.safe_dump(TINY, sort_keys=False))
    WHOLE.write_text(yaml.safe_dump(STUDY))
    contribute(tmp_path, monkeypatch, request, mine=MINE)
    how: dict[str, Any] = {"small": True, "root": HOME / "data", "mirror": None}
    with pytest.raises(SpecError, match="no workload is through"):
        rank("mine", minutes=5, **how)
    with pytest.raises(typer.Exit) as ended:
        work(minutes=0, only=None, **how)
    assert ended.value.exit_code == 3
    work(minutes=5, only=["a1a"], **how)
    made_once = {path: path.read_bytes() for path in Path("results").rglob("timing.json")}
    assert len(made_once) == 2 * (2 + 1 + 1)
    work(minutes=5, only=["a1a"], **how | {"small": False, "study": SMALL})
    rank("mine", minutes=5, **how)
    assert all(path.read_bytes() == text for path, text in made_once.items()), "nothing runs twice"
    assert len([*Path("results").rglob("timing.json")]) == 12, "only where the base is through"
    printed = capsys.readouterr().out
    assert re.search(
        r"(?s)over 1 data set: undecided; p = 1 \(one test, so uncorrected\); place \d of the 3 on as many "
        r"data sets\n.* \+0\.00  fedavg\n.*wrote reports/benchmark_small/: board\.csv, board\.md, ",
        printed,
    )
    assert re.search(r"all \(1, uncorrected\), ranked \(1, uncorrected\)", SMALL_BOARD.read_text())
    kept = ("seeds", "regimes", "datasets")
    plain = {"title": "Plain", "algorithms": {"fedavg": {}}, **{key: TINY[key] for key in kept}}
    Path("plain.yaml").write_text(yaml.safe_dump(plain))
    with pytest.raises(
        SpecError, match=r"^plain\.yaml: has no section benchmark; `fedcore build plain\.yaml`"
    ):
        work(study=Path("plain.yaml"))
    with pytest.raises(SpecError, match="two studies, expected one"):
        work(small=True, study=Path("plain.yaml"))
    rank("mine", minutes=5, as_json=True, **how)
    standing = json.loads(capsys.readouterr().out)
    assert [*standing] == ["method", *STANDING]
    assert "Mine" in Path(standing["files"][6]).read_text(), "the figure's svg"
    assert standing["equal"][standing["place"] - 1] == {"method": "mine", "effect": standing["effect"]}
    with pytest.raises(SpecError, match="fedavg: is what the others are compared with"):
        rank("fedavg", minutes=5, **how)
    slower = MINE.replace("FEDPROX.build(options, spec)", "recipe(server=ServerSgd(0.01))")
    imports = "from fedcore.algorithms import recipe\nfrom fedcore.parts.server import ServerSgd\n"
    (tmp_path / "mine/algorithms/mine.py").write_text(imports + slower)
    for cached in (plugins, *vars(codehash).values()):
        getattr(cached, "cache_clear", int)()
    rank("mine", minutes=5, as_json=True, **how)
    assert json.loads(capsys.readouterr().out)["effect"] != standing["effect"], "its code is another one"
    shutil.rmtree(next(Path("results").rglob("fedprox-*/seed0")))
    with pytest.raises(SpecError, match="no workload is through"):
        rank("mine", minutes=5, **how)
    for trial in [*Path("results").rglob("fedprox-*")]:
        shutil.rmtree(trial)
    with pytest.raises(typer.Exit):
        work(minutes=0, only=None, **how)
    with pytest.raises(SpecError, match="no workload is through"):
        rank("mine", minutes=5, **how)


def test_sittings_side_by_side_take_the_runs_in_orders_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(seed: int) -> list[str]:
        folders: list[str] = []
        random.seed(seed)
        monkeypatch.setattr(sitting, "execute", lambda orders, *_, **__: folders.append(orders[0]["out"]))
        ticks = map(float, range(100))
        monkeypatch.setattr(sitting, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
        assert sitting.sit(made, "bench", 13, Settings(), lambda run: run.dataset == "mnist") is None
        return folders

    one, other = begun(0), begun(1)
    assert len({*one}) == len(one) == 12
    assert {*one} != {*other}, "two processes would wait for each other at each run"


def test_a_stage_without_a_run_of_here_is_not_gathered_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    gathered: list[str] = []
    monkeypatch.setattr(sitting, "write_partial", lambda sources: gathered.append(sources.name))
    trials = made().needed("bench", "trials")
    pretend(trials)
    keep(made(), ["bench/trials"])
    sitting.sit(made, "bench", 0, Settings(), lambda run: True)
    assert gathered[0] == "trials"
    shutil.rmtree("results")
    assert all(map(sitting.done, trials))
    gathered.clear()
    sitting.sit(made, "bench", 0, Settings(), lambda run: True)
    assert not gathered, "what is kept says all of it"


@pytest.mark.slow
def test_what_trials_are_worth_is_compared_on_the_same_finished_workloads() -> None:
    """Methods that are left out where all score 60 aren't ahead; nor one that is alone on a workload."""
    changes = {
        "datasets": {"harder": STUDY["datasets"]["mnist"]},
        "benchmark": {"omit": {"harder": [*STUDY["algorithms"]][1:]}},
    }
    scores = {"harder": 0.6, "svmguide1": 0.99}
    trials = [
        run
        for run in made(changes).needed("bench", "trials")
        if run.dataset != "svmguide1" or run.algorithm == "fedprox"
    ]
    pretend(trials, lambda run: scores.get(run.dataset, 0.9))
    build(made(changes), "trials")
    pretend(made(changes).needed("bench", "again"))
    build(made(changes), "again")
    worth = build(made(changes), "budget")
    assert {*worth["row"]} == {*STUDY["algorithms"]}
    assert (worth["mean"].abs() < 1e-9).all()


@pytest.mark.slow
def test_trials_are_worth_nothing_yet_where_no_workload_is_finished() -> None:
    for stage in ("trials", "again", "matrix"):
        pretend([run for run in made().needed("bench", stage) if run.algorithm in {"fedavg", "fedprox"}])
        build(made(), stage)
    assert build(made(), "budget").empty
    assert build(made(), "board")["all"].isna().all()


def test_a_cell_goes_on_without_waiting_and_other_ranges_begin_anew() -> None:
    catalogue = made()
    pretend([run for run in catalogue.needed("bench", "trials") if run.dataset == "mnist"])
    build(catalogue, "trials")
    assert {column for _, column in made().cells("bench", "again")} == {"mnist-s"}
    assert "again" not in made({"tune": {"over": {"training.lr": {"high": 2.0}}}}).papers["bench"].targets


def test_a_damaged_table_of_trials_is_one_line() -> None:
    Path("reports/bench").mkdir(parents=True)
    Path("reports/bench/trials.csv").write_text("<<<<<<< HEAD\nrow,column,n\n")
    with pytest.raises(SpecError, match=r"reports/bench/trials\.csv: no table of trials \('n'\); build it"):
        made()


@pytest.mark.slow
def test_trials_of_other_seeds_or_of_another_score_choose_nothing() -> None:
    for stage in ("trials", "again"):
        pretend(made().needed("bench", stage))
        build(made(), stage)
    first = {"partitions", "trials", "decisions"}
    for other, stages in (
        ({"seed": 200}, first),
        ({"late": 0.5}, first),
        ({"seeds": [9]}, {*first, "again"}),
    ):
        assert {*made({"benchmark": other}).papers["bench"].targets} == stages
    assert "board" in made().papers["bench"].targets


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
    points = candidates(tune, ranges, "place")
    for key in ranges:
        assert sorted(int(point[key]) for point in points) == list(range(16))
    alone = candidates(tune, {"b": ranges["b"]}, "place")
    assert [point["b"] for point in alone] == [point["b"] for point in points]
    assert candidates(tune, ranges, "elsewhere") != points
    with pytest.raises(SpecError, match="expected a power of 2"):
        candidates(TuneParams(how="sobol", trials=12), ranges)


def test_runs_are_equally_long_and_equally_often_measured() -> None:
    runs = made().needed("bench", "trials")
    specs = {(run.algorithm, run.spec["algorithm"].get("redistributions")): run.spec for run in runs}
    lengths = {key: (spec["training"]["rounds"], spec["evaluation"]["every"]) for key, spec in specs.items()}
    assert lengths["fedavg", None] == (10, 2)
    assert (lengths["radfed", 2], lengths["radfed", 5]) == ((5, 1), (2, 1))
    assert lengths["oneshot", None] == (1, 1)
    assert specs["oneshot", None]["training"]["local_epochs"] == 10
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
        ({"benchmark": {"seed": 101}}, r"benchmark: seeds: got 101, the seed of all trials, expected others"),
        ({"tune": {"columns": ["a"] * 9}}, r"tune: columns: got 9 with 'how: sobol', expected at most 8"),
        ({"tune": {"columns": ["a"], "how": "random"}}, r"columns: got 1 with 'how: random', expected at mo"),
        ({"tune": {"trials": 6}}, r"tune: got 6 trials of 1 keys, expected a power of 2"),
        ({"report": {"controls": {"moon": {"training.lr": 1}}}}, r"report\.controls\.moon: expected changes"),
        (
            {"report": {"controls": {"x": {"training.round": {"times": 2}}}}},
            r"report\.controls: training\.round: got a multiple, expected it of a number that runs get",
        ),
        (
            {"report": {"controls": {"x": {"model.name": {"times": 2}}}}},
            r"report\.controls: model\.name: got a",
        ),
        ({"report": {"controls": {"x": {}}}}, r"report\.controls\.x: expected changes"),
        ({"benchmark": {"margin": 0}}, r"benchmark\.margin: .*greater than 0"),
        ({"report": {"metric": "f1"}}, r"report\.metric: given, but a benchmark's reports don't have it"),
        ({"report": {"margin": 1.0}}, r"report\.margin: given, but a benchmark's reports don't have it"),
        ({"grid": {"training.local_epochs": [1, 2]}}, r"algorithms\.fedavg: its grid or variants, or the"),
        (
            {"algorithms": {"fedprox": {"grid": {"training.local_epochs": [1, 2]}}}},
            r"algorithms\.fedprox: its grid or variants, or the study's, give several rows, but",
        ),
        ({"report": {"without": {"x": ["mnits"]}}}, r"report\.without\.x: got 'mnits'.*'mnist'"),
        ({"report": {"factorial": {"plain": {"mean": "fedagv"}}}}, r"factorial\.plain: got 'fedagv'"),
        (
            {"report": {"contrasts": {"paper": {"fedavg": ["fedprox"]}}}},
            r"contrasts: expected papers that have a headline, got 'paper'",
        ),
        (
            {
                "report": {
                    "headlines": {"x": {"method": "fedprox", "above": ["fedavg"], "ground": []}},
                    "contrasts": {"x": {"fedprox": ["fedagv"]}},
                }
            },
            r"report\.contrasts\.x: got 'fedagv'",
        ),
        (
            {"report": {"factorial": {"plain": {"mean": "fedavg"}, "prox": {"adam": "fedprox"}}}},
            r"report: factorial: expected the same servers for each client's side",
        ),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=f"^{FILE}: .*{said}") as refused:
        made(changes)
    one_line(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["benchmark", "benchmark_small", "benchmark_wide"])
def test_the_benchmarks_here_are_valid(name: str) -> None:
    path = HOME / "studies" / "benchmark" / f"{name}.yaml"
    study = yaml.safe_load(path.read_text())
    catalogue = build_catalogue(parameters() | {"studies": {str(path): study}})
    cells = catalogue.papers[name].targets["trials"].cells(catalogue.params.papers[name])
    methods = {query[0].algorithm for query in cells.values()}
    if name == "benchmark":
        assert methods <= set(plugins("algorithm")), "later ones are ranked beside them"
        assert len(methods) == 40
        assert len({column for _, column in cells}) == 24
        in_families = [method for family in study["benchmark"]["families"].values() for method in family]
        assert len(in_families) == 34


@pytest.mark.parametrize("name", ["benchmark", "benchmark_small", "benchmark_wide"])
def test_the_protocol_is_the_frozen_one(name: str) -> None:
    path = HOME / "studies" / "benchmark" / f"{name}.yaml"
    params = validate(StudyParams, yaml.safe_load(path.read_text()), "")
    assert params.benchmark
    frozen = Plan(name, params, params.benchmark, {}, {}).protocol
    assert f"`{frozen}`" in (HOME / "docs/benchmark.md").read_text(), "a change of it is another benchmark"
    report = ReportParams(headlines=params.report.headlines, always=params.report.always)
    reworded = params.model_copy(update={"title": "Another", "report": report})
    assert Plan(name, reworded, params.benchmark, {}, {}).protocol == frozen, "words are no part of it"
    other = params.model_copy(update={"report": ReportParams(always="scaffold")})
    assert Plan(name, other, params.benchmark, {}, {}).protocol != frozen
    longer = params.model_copy(update={"seeds": (*params.seeds, 9)})
    assert Plan(name, longer, params.benchmark, {}, {}).protocol != frozen


def test_the_numbers_of_a_board_are_metrics_as_those_of_tables_are() -> None:
    tables = [
        HOME / f"reports/reference/benchmark_small/{name}.csv" for name in ("board", "matrix", "trials")
    ]
    means = json.loads(means_json(tables))
    boards = pd.read_csv(tables[0], index_col="row")
    assert means["board"]["fedyogi"]["effect"] == boards.loc["fedyogi", "effect"]
    assert "verdict" not in means["board"]["fedyogi"]
    assert [*means["matrix"]["fedyogi"]] == [*pd.read_csv(tables[1])["column"].unique()]
