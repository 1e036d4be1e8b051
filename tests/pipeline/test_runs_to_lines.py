"""From runs' files to a table's lines: what is read, what is counted, and which verdict a number gets."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pretended import one_line, summary
from project import PLUGGED, seal, seal_partition

from fedcore.algorithms import example
from fedcore.base.errors import DataError
from fedcore.base.files import canonical_json, digest, sha256_text, write_json
from fedcore.execution.integrity import sealed
from pipeline.catalogue.targets import Column, PlannedRun, Query
from pipeline.reports import captions, results
from pipeline.reports.agreement import (
    ON_A_PART,
    Agreement,
    interval,
    ordering,
    within_interval,
    within_margin,
)
from pipeline.reports.results import RunFacts, published_cells, read, verdict
from pipeline.reports.tables import Table, tidy

NAN = math.nan
COLUMNS = (Column("x", "X"), Column("y", "Y"))
TABLE = Table(
    title="Accuracy",
    published="Table I",
    columns=lambda params: COLUMNS,
    query=lambda row, column: Query("regime", "mnist", column, row),
)
PRINTED = """target,row,column,mean,std,unit
table1,a,x,90,0.2,percent
table1,b,x,80,,percent
table2,a,x,7,1,bytes
"""


def run(row: str, seed: int, scale: str = "paper", *, fold: str = "p-0", **spec: Any) -> PlannedRun:
    return PlannedRun(
        paper="toy",
        scale=scale,
        setting="regime-mnist-x",
        dataset="mnist",
        algorithm=row,
        method=f"{row}-00000000",
        seed=seed,
        spec={"row": row, "seed": seed, "variant": "paper", **PLUGGED, **spec},
        division=fold,
        recipe=example("fedavg"),
    )


def write(
    root: Path, made: PlannedRun, accuracy: float | None, state: str = "full", note: str = "all rows"
) -> Path:
    """Write a finished run and its partition; no accuracy is a run that diverged."""
    folder = root / made.folder
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"data_note": note, "data_state": state, "spec_sha256": sha256_text(canonical_json(made.spec))}
    final = None if accuracy is None else {"test_accuracy": accuracy, "test_loss": 2.0}
    (folder / "summary.json").write_text(json.dumps({**facts, "final": final}))
    (folder / "history.csv").write_text("round,test_accuracy\n0,0.5\n")
    seal(folder, made.spec)
    cut = root / made.partition
    if not cut.exists():
        cut.mkdir(parents=True)
        (cut / "stats.json").write_text(
            json.dumps({"c_score": 1.5, "data_state": "of rows", "data_note": "n"})
        )
        seal_partition(cut)
    return folder


def lines(
    root: Path,
    cells: dict[tuple[str, str], Sequence[PlannedRun]],
    table: Table = TABLE,
    target: str = "table1",
) -> dict[tuple[str, str], dict[Hashable, Any]]:
    (root / "published.csv").write_text(PRINTED)
    frame = tidy("toy", target, table, read(cells, root), root / "published.csv", COLUMNS)
    return {(line["row"], line["column"]): line for line in frame.to_dict("records")}


def test_a_line_has_the_mean_the_spread_and_the_verdict_of_its_runs(tmp_path: Path) -> None:
    runs = [run("a", seed) for seed in range(4)]
    for planned, accuracy in zip(runs, (0.9, 0.91, None), strict=False):
        write(tmp_path, planned, accuracy)
    line = lines(tmp_path, {("a", "x"): runs})["a", "x"]
    assert line["mean"] == pytest.approx(90.5)
    assert line["std"] == pytest.approx(0.5**0.5)
    assert [line[key] for key in ("n", "seeds", "diverged", "failed")] == [2, 4, 1, ""]
    assert (line["published_mean"], line["published_std"], line["published_unit"]) == (90, 0.2, "percent")
    assert line["difference"] == pytest.approx(0.5)
    assert (line["margin"], line["margin_rule"], line["verdict"]) == (1.0, "1 point", "agrees")
    assert [line[key] for key in ("paper", "target", "scale", "variant", "data", "data_state")] == [
        *("toy", "table1", "paper", "paper", "all rows", "full")
    ]
    assert line["values"] == "p-0/seed0=90 p-0/seed1=91"
    assert len(set(line["specs"].split())) == 3


def test_a_number_far_from_the_published_one_differs_and_one_run_has_no_spread(tmp_path: Path) -> None:
    planned = run("b", 0)
    write(tmp_path, planned, 0.8101)
    line = lines(tmp_path, {("b", "x"): [planned], ("c", "y"): [run("c", 0)]})
    assert line["b", "x"]["verdict"] == "differs"
    assert math.isnan(line["b", "x"]["std"])
    empty = line["c", "y"]
    assert (empty["n"], empty["seeds"], empty["diverged"], empty["verdict"], empty["values"]) == (
        0,
        1,
        0,
        "",
        "",
    )
    assert all(math.isnan(empty[key]) for key in ("mean", "published_mean", "difference", "margin", "p_best"))


def test_a_table_may_stand_beside_another_and_take_another_number(tmp_path: Path) -> None:
    planned = run("z", 0)
    write(tmp_path, planned, 0.8)
    beside = replace(
        TABLE,
        measure=lambda facts, column: 3.0 * (facts.final or {})["test_loss"],
        beside="table2",
        beside_cell=lambda row, _: ("a", "x"),
    )
    line = lines(tmp_path, {("z", "y"): [planned]}, beside, "table9")["z", "y"]
    assert (line["mean"], line["published_mean"], line["published_unit"]) == (6.0, 7, "bytes")
    assert line["target"] == "table9"
    by_seed = replace(TABLE, measure=lambda facts, column: facts.run.seed + (0.5 if column == "y" else 0.0))
    assert lines(tmp_path, {("z", "y"): [planned]}, by_seed)["z", "y"]["mean"] == 0.5
    parts = replace(by_seed, needs="partitions")
    assert lines(tmp_path, {("z", "y"): [planned, run("z", 1)]}, parts)["z", "y"]["n"] == 1
    finished = replace(TABLE, finish=lambda frame: frame.assign(mean=-1.0))
    assert lines(tmp_path, {("z", "y"): [planned]}, finished)["z", "y"]["mean"] == -1


def test_runs_of_one_fold_and_seed_are_told_apart_and_tested_in_pairs(tmp_path: Path) -> None:
    cells: dict[tuple[str, str], Sequence[PlannedRun]] = {}
    for row, accuracies in (("a", (0.90, 0.92, 0.94, 0.93, 0.95)), ("b", (0.89, 0.90, 0.95, 0.91, 0.9))):
        cells[row, "x"] = [run(row, seed, twin=seed) for seed in range(5)]
        for planned, accuracy in zip(cells[row, "x"], accuracies, strict=True):
            write(tmp_path, planned, accuracy)
    measured = lines(tmp_path, cells)
    assert math.isnan(measured["a", "x"]["p_best"])
    assert 0 < measured["b", "x"]["p_best"] < 1
    twins = [
        run("a", 0),
        replace(run("a", 0), method="a-11111111"),
        replace(run("a", 0, fold="p-1"), method="a-22222222"),
    ]
    for planned, accuracy in zip(twins, (0.1, 0.2, 0.3), strict=True):
        write(tmp_path, planned, accuracy)
    line = lines(tmp_path, {("a", "x"): twins})["a", "x"]
    assert line["values"] == "p-0/seed0=10 p-0/seed0#1=20 p-1/seed0=30"


def test_states_and_notes_of_data_are_told_once(tmp_path: Path) -> None:
    runs = [run("a", seed) for seed in range(3)]
    for planned, state, note in zip(runs, ("full", "subset", "full"), ("one", "two", "one"), strict=True):
        write(tmp_path, planned, 0.9, state, note)
    line = lines(tmp_path, {("a", "x"): runs})["a", "x"]
    assert (line["data_state"], line["data"]) == ("full subset", "one two")
    assert RunFacts(runs[1], tmp_path).notes == ("subset", "two")
    assert RunFacts(run("q", 2), tmp_path).notes == ("of rows", "n"), "of the partition, until the run ends"
    assert RunFacts(run("q", 9), tmp_path).notes == ("", "")


@pytest.mark.parametrize(
    ("mean", "scale", "partial", "said"),
    [
        (90.0, "paper", False, "agrees"),
        (99.0, "paper", False, "differs"),
        (90.0, "paper", True, ON_A_PART),
        (90.0, "demo", False, "not tested at demo scale"),
        (90.0, "demo", True, "not tested at demo scale"),
        (NAN, "paper", True, ""),
        (NAN, "demo", False, ""),
    ],
)
def test_only_full_runs_on_full_data_agree_or_differ(
    mean: float, scale: str, partial: bool, said: str
) -> None:
    assert verdict(Agreement(mean, 90.0), scale, partial) == said
    if not partial:
        assert verdict(Agreement(mean, 90.0), scale) == said


def test_what_was_published_is_read_by_target(tmp_path: Path) -> None:
    path = tmp_path / "published.csv"
    path.write_text("target,row,column,mean,std,unit\nt,1,02,3,,nats\nu,1,02,4,0.5,bytes\n")
    assert published_cells(path, "u") == {("1", "02"): (4.0, 0.5, "bytes")}
    (cell,) = published_cells(path, "t").values()
    assert (cell.mean, math.isnan(cell.std), cell.unit) == (3.0, True, "nats")
    path.write_text("target,row,column,mean,std\nt,a,x,3,1\n")
    assert published_cells(path, "t") == {("a", "x"): (3.0, 1.0, "percent")}


def test_runs_of_two_kinds_are_not_put_side_by_side() -> None:
    results.require_one_scale([run("a", 0), run("b", 1)])
    with pytest.raises(DataError, match="one table can't mix scales: demo, paper"):
        results.require_one_scale([run("a", 0), run("a", 0, "demo")])
    with pytest.raises(DataError, match="one table can't mix variants: paper, released"):
        results.require_one_scale([run("a", 0), run("a", 0, variant="released")])


def test_what_a_run_left_is_read_where_it_is_there(tmp_path: Path) -> None:
    ended, lost, absent = run("a", 0), run("a", 1), run("a", 2)
    folder = write(tmp_path, ended, 0.9)
    write(tmp_path, lost, None)
    assert [results.is_made(planned, tmp_path) for planned in (ended, lost, absent)] == [True, True, False]
    beside = run("b", 0)
    assert results.is_made(beside, tmp_path, partition=True), "another run has made its partition"
    assert not results.is_made(beside, tmp_path)
    assert not results.is_made(absent, tmp_path, partition=True)
    assert [RunFacts(planned, tmp_path).diverged for planned in (ended, lost, absent)] == [False, True, False]
    assert RunFacts(ended, tmp_path).final == {"test_accuracy": 0.9, "test_loss": 2.0}
    assert RunFacts(lost, tmp_path).final is None
    assert RunFacts(absent, tmp_path).final is None
    assert RunFacts(ended, tmp_path).statistics["c_score"] == 1.5
    with pytest.raises(DataError, match=r"stats\.json: missing, but a report needs it"):
        RunFacts(absent, tmp_path).statistics  # noqa: B018
    assert RunFacts(ended, tmp_path).history["test_accuracy"].tolist() == [0.5]
    assert RunFacts(ended, tmp_path).table("history.csv")["round"].tolist() == [0]
    assert RunFacts(lost, tmp_path).arrays("path.npz") is None
    for name, planned in (("path.npz", ended), ("history.csv", absent)):
        with pytest.raises(DataError, match=f"{name}: missing, but a report needs it"):
            RunFacts(planned, tmp_path).arrays(name)
    with pytest.raises(DataError, match=r"history\.csv: missing, but a report needs it"):
        RunFacts(absent, tmp_path).series("round")
    write_json(folder / "timing.json", sealed({"seconds": 3}))
    assert (RunFacts(ended, tmp_path).timing or {})["seconds"] == 3
    assert RunFacts(absent, tmp_path).timing is None
    cells = {("a", "x"): [ended, lost, absent], ("b", "x"): [ended]}
    assert results.lost(cells, lambda planned: planned.seed == 1) == {("a", "x"): (1, 3)}
    assert results.pair_key(ended) == "p-0/seed0"


def test_series_and_arrays_are_those_that_the_run_kept(tmp_path: Path) -> None:
    planned = run("a", 0)
    folder = write(tmp_path, planned, 0.9)
    (folder / "history.csv").write_text("round,test_accuracy\n0,0.5\n4,0.75\n")
    np.savez(folder / "path.npz", round=np.array([1, 2]), model=np.ones((2, 3)))
    np.savez(folder / "code.npz", model=np.array([print], dtype=object))
    seal(folder, planned.spec)
    facts = RunFacts(planned, tmp_path)
    assert facts.series("test_accuracy").to_dict() == {0: 0.5, 4: 0.75}
    with pytest.raises(DataError) as refused:
        facts.series("auc")
    assert str(refused.value) == f"{folder}/history.csv: no column 'auc'; there are round, test_accuracy"
    assert {name: array.tolist() for name, array in (facts.arrays("path.npz") or {}).items()} == {
        "round": [1, 2],
        "model": [[1.0] * 3] * 2,
    }
    with pytest.raises(ValueError, match="allow_pickle=False"):
        facts.arrays("code.npz")


def test_what_is_known_of_a_run_comes_from_the_plan_and_its_files(tmp_path: Path) -> None:
    planned = run("a", 3)
    plan = {"seed": 3, "code": planned.code, "partition": planned.partition, "spec": digest(planned.spec)}
    assert results.facts(planned, tmp_path) == plan | {"status": "not run yet"}
    folder = write(tmp_path, planned, 0.9, note="")
    measured = {"final": {"test_accuracy": 0.9, "test_loss": 2.0}, "data_state": "full"}
    (folder / "timing.json").unlink()
    assert results.facts(planned, tmp_path) == plan | measured, "an empty note is not told"
    (folder / "timing.json").write_text(json.dumps({"seconds": 1.5, "device": None, "commit": "c", "own": 1}))
    assert results.facts(planned, tmp_path) == plan | measured | {"seconds": 1.5, "commit": "c"}
    (folder / "timing.json").write_text("{")
    with pytest.raises(
        DataError, match=r"timing\.json: not valid JSON .*; delete the folder and build it again"
    ):
        results.facts(planned, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("test_accuracy\n0.5\n", "round: expected a column of whole numbers"),
        ("round,test_accuracy\n0.5,0.5\n", "round: expected a column of whole numbers"),
        ("round,test_accuracy\n0,high\n", "test_accuracy: expected numbers"),
        ("", "no table: No columns to parse from file"),
    ],
)
def test_a_history_is_a_table_of_numbers_by_whole_rounds(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("round,test_accuracy\n0,0.5\n2,\n")
    assert results.read_history(path)["round"].tolist() == [0, 2]
    path.write_text(text)
    with pytest.raises(DataError) as refused:
        results.read_history(path)
    assert str(refused.value) == f"{path}: {said}"


def test_cells_of_an_earlier_table_are_read_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    assert results.earlier_cells(path) == {}
    path.write_text("row,column,specs,values,mean\n1,02,s,NA,0.5\nnull,x,,p=1,\n")
    earlier = results.earlier_cells(path)
    assert {cell: (line["specs"], line["values"]) for cell, line in earlier.items()} == {
        ("1", "02"): ("s", "NA"),
        ("null", "x"): ("", "p=1"),
    }
    names = ("row", "column", "specs", "values")
    for missing in names:
        path.write_text(",".join(name for name in names if name != missing) + "\na,b,c\n")
        assert results.earlier_cells(path) == {}
    path.write_text(",".join(names) + "\na,b,c,d\n")
    assert [*results.earlier_cells(path)] == [("a", "b")]


def test_numbers_of_two_sittings_are_joined_by_their_pairs() -> None:
    pairs = ["p/2", "p/1", "p/0"]
    before, now = {"p/0": 1.0, "p/1": 2.0}, {"p/1": 3.0, "p/2": 4.0}
    joined = results.merge_samples(before, now, pairs)
    assert [*joined.items()] == [("p/2", 4.0), ("p/1", 3.0), ("p/0", 1.0)], "in the runs' order"
    assert results.merge_samples({"old/0": 9.0}, now, pairs) == {"p/2": 4.0, "p/1": 3.0}, (
        "a split was renamed"
    )
    twice = {"p/0#0": 1.0, "p/0#1": 2.0}
    assert results.merge_samples(twice, {"p/0": 5.0}, pairs) == twice, "the longer sitting"
    assert results.merge_samples({"p/0": 5.0}, twice, pairs) == twice
    same = {"p/0#0": 6.0, "p/0#1": 7.0}
    assert results.merge_samples(twice, same, pairs) == same, "the newer of two equally long ones"


def test_failed_runs_are_counted_by_what_they_failed_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [run("a", seed) for seed in range(5)]
    write(tmp_path, runs[0], 0.9)
    causes = ["failed", "out of memory", "failed", "", "failed"]
    ended = {tmp_path / planned.folder: what for planned, what in zip(runs, causes, strict=True)}
    monkeypatch.setattr(results, "cause", ended.__getitem__)
    facts = [RunFacts(planned, tmp_path) for planned in runs]
    assert results.causes(facts) == "1 out of memory; 2 failed", "the first one has a result"
    assert results.causes(facts[:1]) == ""
    assert results.each_once({("a", "x"): facts[:2], ("b", "x"): facts[1:3]}) == facts[:3]


def test_a_run_without_a_history_is_no_report(tmp_path: Path) -> None:
    planned = run("a", 0)
    folder = write(tmp_path, planned, 0.9)
    (folder / "history.csv").unlink()
    (folder / "provenance.json").unlink()
    seal(folder, planned.spec)
    with pytest.raises(DataError, match=r"history\.csv: missing"):
        RunFacts(planned, tmp_path).series("round")


def test_the_caption_tells_commit_newest_run_and_arithmetic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captions, "commit", lambda: "abc1234567")
    plain = [run("a", 0), run("a", 1)]
    reduced = [run("b", 0, precision="bf16"), run("b", 1, evaluation={"precision": "bf16"})]
    for planned, day in zip([*plain, *reduced], ("2024-03-01", "2024-01-09", "2023-05-05"), strict=False):
        folder = write(tmp_path, planned, 0.9)
        write_json(folder / "timing.json", sealed({"finished": f"{day}T10:00:00"}))
    cells = read({("a", "x"): plain, ("b", "x"): reduced}, tmp_path)
    plain_facts, reduced_facts = cells.values()
    assert captions.origin_of(plain_facts) == "Commit abc1234567, newest run 2024-03-01."
    origin = captions.origin_of(reduced_facts)
    assert origin.startswith("Forward and backward passes in bfloat16. Commit abc1234567, newest run ")
    origin = captions.origin_of([*plain_facts, *reduced_facts])
    assert origin.startswith("Forward and backward passes of some runs in bfloat16. Commit")
    assert captions.origin_of([]) == "Commit abc1234567."
    for facts, device in ((plain_facts, "cpu"), (reduced_facts, "cuda")):
        for facts_of_run in facts:
            write_json(tmp_path / facts_of_run.run.folder / "timing.json", sealed({"device": device}))
    facts_now = [RunFacts(facts.run, tmp_path) for facts in (*plain_facts, *reduced_facts)]
    assert captions.origin_of(facts_now).startswith("Some runs were made on a CPU, others on a GPU. Forward")
    assert "GPU" not in captions.origin_of(facts_now[:2])
    monkeypatch.setattr(captions, "commit", lambda: "")
    assert captions.origin_of(plain_facts) == "Newest run 2024-03-01."
    assert captions.origin_of([]) == ""


def test_many_changed_results_are_named_up_to_five(tmp_path: Path) -> None:
    runs = [run("a", seed) for seed in range(7)]
    for planned in runs:
        (write(tmp_path, planned, 0.9) / "history.csv").unlink()
    with pytest.raises(DataError) as refused:
        results.refuse_changed(runs, tmp_path)
    assert str(refused.value).count("history.csv is missing") == 5
    assert "; and 2 more (a report is made of unchanged results only" in str(refused.value)
    with pytest.raises(DataError) as refused:
        results.refuse_changed(runs[:5], tmp_path)
    assert "more" not in str(refused.value)


def agreement_frame() -> pd.DataFrame:
    """Two columns of one table, with a row that is printed alone and one that is ours alone, and another."""
    cells = [
        ("t", "a", "x", 90.0, 1.0, 5, 90.5, 0.1),
        ("t", "b", "x", 80.0, 1.0, 5, 83.0, NAN),
        ("t", "c", "x", 70.0, NAN, 1, 71.0, NAN),
        ("t", "d", "x", NAN, NAN, 0, 60.0, NAN),
        ("t", "e", "x", 50.0, 1.0, 5, NAN, NAN),
        ("t", "a", "y", 10.0, 2.0, 6, 12.0, 1.0),
        ("t", "b", "y", 20.0, 2.0, 6, 11.0, 1.0),
        ("u", "a", "x", 1.0, 0.5, 4, NAN, NAN),
        ("u", "b", "x", 2.0, 0.5, 5, 2.0, NAN),
    ]
    names = ["target", "row", "column", "mean", "std", "n", "published_mean", "published_std"]
    return pd.DataFrame(cells, columns=names).assign(paper="p")


def test_a_tables_agreement_worked_out_by_hand() -> None:
    """Near: a (.5 off), c (1 off) of three in x, a (2 off, two deviations) of two in y: 3 of 5."""
    frame = summary(agreement_frame()).set_index("target")
    assert list(frame.columns) == [
        *("paper", "variant", "cells", "compared", "near", "judged", "within_interval", "tau"),
    ]
    assert frame.loc["t", "cells"] == 6
    assert frame.loc["t", "compared"] == 5
    assert [*frame.loc["t", ["near", "judged"]]] == [3, 5]
    assert frame.loc["t", "within_interval"] == pytest.approx(2 / 4)
    assert frame.loc["t", "tau"] == pytest.approx((1 - 1) / 2)
    assert (
        one_line(frame, "u")[["cells", "compared", "near", "judged", "within_interval"]].tolist() == [1] * 5
    )
    assert math.isnan(frame["tau"]["u"])
    assert summary(agreement_frame(), 0.2).set_index("target").loc["t", "within_interval"] == 0


def test_answers_stand_at_their_cells_own_index() -> None:
    frame = agreement_frame().iloc[::-2]
    assert within_margin(frame).index.equals(frame.index)
    assert within_margin(frame).dropna().to_dict() == {8: True, 6: False, 2: True, 0: True}


def test_orders_are_told_for_each_column_apart() -> None:
    orders = ordering(agreement_frame())
    assert orders[["target", "column", "methods"]].to_numpy().tolist() == [
        ["t", "x", 3],
        ["t", "y", 2],
        ["u", "x", 1],
    ]
    assert orders["tau"].tolist()[:2] == [1.0, -1.0]
    assert math.isnan(orders["tau"].iloc[2])


def test_intervals_are_of_the_confidence_asked_for_and_need_five_runs() -> None:
    """Quantiles of t with four degrees of freedom: .741 for 50%, 2.132 for 90%, 2.776 for 95%."""
    frame = agreement_frame()
    for confidence, quantile in ((0.5, 0.741), (0.9, 2.132), (0.95, 2.776)):
        bounds = interval(frame, confidence).iloc[0]
        half = quantile / 5**0.5
        assert bounds.tolist() == pytest.approx([90 - half, 90 + half], abs=2e-4)
    assert interval(frame).equals(interval(frame, 0.95))
    assert interval(frame)["low"].notna().tolist() == (frame["n"] >= 5).tolist()
    assert [bool(inside) for inside in within_interval(frame).dropna()] == [True, False, True, False, True]
    assert not within_interval(frame, 0.2).iloc[0]
    unknown = [*(False, False, True, True, True, False, False, True, False)]
    assert within_interval(frame).isna().tolist() == unknown
