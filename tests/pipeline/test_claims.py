"""Claims: each kind of check on small tables, the verdicts, the ledgers, and errors that name the key."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from wording import one_line

from fedcore.base.errors import SpecError
from pipeline.catalogue import Catalogue
from pipeline.claims.checks import CHECKS
from pipeline.claims.ledger import ZEROS, Claim, Verdict, cells_of, judge, ledger, load, shared_means
from pipeline.fidelity.board import judged
from pipeline.papers import catalogue_of, papers, published
from pipeline.reports.drawings import Drawing

PAPERS = ("rfedavg", "fedavgr", "comfed", "fedomw", "radfed", "mcmahan2017")
TABLE = {
    "a": {"x": 90.0, "y": 80.0, "z": 70.0},
    "b": {"x": 85.0, "y": 80.0, "z": 69.0},
    "c": {"x": 60.0, "y": 70.0, "z": 69.0},
}
GAIN = {"kind": "gain_largest_in", "over": "b", "in_percent": True}


def results(table: dict[str, dict[str, float]] = TABLE, n: int = 3, **more: Any) -> pd.DataFrame:
    cells = [(row, column, mean) for row, line in table.items() for column, mean in line.items()]
    frame = pd.DataFrame(cells, columns=["row", "column", "mean"])
    return frame.assign(**{"paper": "p", "target": "t", "std": 0.5, "n": n, **more})


def claim(check: dict[str, Any], **more: Any) -> Claim:
    kind = CHECKS[check["kind"]].model_validate(check)
    return Claim(paper="p", id="c", text="It is so.", source="Table 1", target="t", check=kind, **more)


def evaluate(one: Claim, frame: pd.DataFrame, scale: str) -> Verdict:
    lines = frame[(frame["paper"] == one.paper) & (frame["target"] == one.target)]
    return judge(one, cells_of(lines), scale)


def verdict(check: dict[str, Any], frame: pd.DataFrame | None = None, scale: str = "paper") -> Verdict:
    return evaluate(claim(check), results() if frame is None else frame, scale)


def status(kind: str, **keys: Any) -> str:
    return verdict({"kind": kind, **keys}).status


@pytest.mark.parametrize(
    ("keys", "holds"),
    [
        ({"row": "a", "over": "b", "columns": "x"}, True),
        ({"row": "b", "over": "a", "columns": "x"}, False),
        ({"row": "a", "over": "b", "columns": "y"}, False),  # a tie is no win
        ({"row": "a", "over": ["b", "c"], "columns": ["x", "z"]}, True),
        ({"row": "b", "over": ["a", "c"], "columns": "x"}, False),
        ({"row": "a", "over": "b", "columns": "x", "by_at_least": 5}, True),
        ({"row": "a", "over": "b", "columns": "x", "by_at_least": 5.1}, False),
        ({"row": "a", "over": "b", "columns": ["x", "y", "z"]}, False),
        ({"row": "a", "over": "b", "columns": ["x", "y", "z"], "in_share": 0.66}, True),
        ({"row": "a", "over": "b", "columns": ["x", "y", "z"], "in_share": 0.67}, False),
        ({"row": ["a", "b"], "over": "c", "columns": ["x", "y"]}, True),
        ({"row": ["a", "b"], "over": "c", "columns": "z"}, False),  # b ties, though a is ahead
        ({"row": ["a", "b"], "over": "c", "columns": "y", "by_at_least": 10.1}, False),
    ],
)
def test_beats(keys: dict[str, Any], holds: bool) -> None:
    assert status("beats", **keys) == ("reproduced" if holds else "not reproduced")


@pytest.mark.parametrize(
    ("keys", "holds"),
    [
        ({"rows": "a", "columns": ["x", "y", "z"]}, True),  # shares the first place in y
        ({"rows": "b", "columns": "y"}, True),
        ({"rows": "b", "columns": ["x", "y"]}, False),
        ({"rows": ["b", "c"], "columns": "x"}, False),
        ({"rows": "b", "against": "c", "columns": ["x", "y", "z"]}, True),
        ({"rows": "c", "columns": "x", "smallest": True}, True),
        ({"rows": "a", "columns": "x", "smallest": True}, False),
        ({"rows": ["a", "b", "c"], "columns": "x"}, True),  # nobody left to compare with
        ({"rows": "a", "against": "b", "columns": "x", "base": 90}, True),
        ({"rows": "a", "against": "b", "columns": "x", "base": 90.1}, False),
        ({"rows": "c", "against": "a", "columns": "x", "smallest": True, "base": 59}, False),
    ],
)
def test_best(keys: dict[str, Any], holds: bool) -> None:
    assert status("best", **keys) == ("reproduced" if holds else "not reproduced")


@pytest.mark.parametrize(
    ("kind", "keys", "holds"),
    [
        ("between", {"row": "a", "minus": "b", "columns": "x", "at_least": 3, "at_most": 5}, True),
        ("between", {"row": "a", "minus": "b", "columns": "x", "at_least": 3.1, "at_most": 4.9}, False),
        ("between", {"row": "b", "minus": "a", "columns": "x", "at_least": 4, "at_most": 6}, False),
        (
            "between",
            {"row": "c", "minus": "a", "columns": ["x", "y"], "at_least": -30, "at_most": -10},
            True,
        ),
        ("between", {"row": "a", "over": "c", "columns": "x", "at_least": 1.49, "at_most": 1.51}, True),
        ("between", {"row": "c", "over": "a", "columns": "x", "at_least": 1.4, "at_most": 1.6}, False),
        (
            "between",
            {"row": "a", "over_column": "x", "columns": "z", "at_least": 0.77, "at_most": 0.79},
            True,
        ),
        (
            "between",
            {"row": "a", "over_column": "x", "columns": ["y", "z"], "at_least": 0.77, "at_most": 0.79},
            False,
        ),
        (
            "between",
            {"row": "c", "over": "a", "over_column": "x", "columns": "y", "at_least": 0.77, "at_most": 0.79},
            True,
        ),
        ("close", {"rows": ["a", "b"], "columns": ["x", "y", "z"], "within": 5}, True),
        ("close", {"rows": ["a", "b"], "columns": ["x", "y", "z"], "within": 4.9}, False),
        ("close", {"rows": ["a", "b", "c"], "columns": "y", "within": 9.9}, False),
        ("close", {"rows": ["a", "b"], "base": 79, "columns": "y", "within": 0.9}, False),
        ("close", {"rows": "a", "base": 79, "columns": "y", "within": 1}, True),
        ("between", {"row": "a", "columns": ["x", "y"], "at_least": 80}, True),
        ("between", {"row": "a", "columns": ["x", "y"], "at_most": 80}, False),
        ("between", {"row": "a", "columns": "y", "at_least": 80, "at_most": 80}, True),
        ("between", {"row": ["a", "b"], "columns": ["x", "z"], "at_least": 69}, True),
        ("between", {"row": ["a", "b"], "columns": ["x", "z"], "at_least": 70}, False),  # b in z
        ("between", {"row": ["a", "b"], "columns": ["x", "z"], "at_least": 70, "in_share": 0.75}, True),
        ("between", {"row": "c", "ranked": ["a", "b", "c"], "columns": ["x", "y"], "at_least": 3}, True),
        ("between", {"row": "c", "ranked": ["a", "b", "c"], "columns": "z", "at_most": 2}, True),  # shares it
        ("between", {"row": "b", "ranked": ["a", "c"], "columns": "x", "at_least": 2, "at_most": 2}, True),
        ("between", {"row": "a", "columns": "x", "of": "std", "at_least": 0.5, "at_most": 0.5}, True),
        ("beats", {"row": "a", "over": "b", "columns": "x", "of": "std"}, False),  # both deviate by .5
    ],
)
def test_numbers(kind: str, keys: dict[str, Any], holds: bool) -> None:
    assert status(kind, **keys) == ("reproduced" if holds else "not reproduced")


def test_a_ratio_to_nothing_is_not_about_anything() -> None:
    frame = results({"a": {"x": 1.0}, "b": {"x": 0.0}})
    check = {"kind": "between", "row": "a", "over": "b", "columns": "x", "at_least": -8, "at_most": 10}
    assert verdict(check, frame).status == "not reproduced"


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ({"kind": "between", "row": "a", "over": "b", "columns": "x", "at_least": 1.1}, "reproduced"),
        ({"kind": "between", "row": "b", "over": "b", "columns": "x", "at_least": 1.1}, "not enough runs"),
        ({"kind": "between", "row": "c", "columns": "x", "of": "std", "at_most": 1}, "not enough runs"),
        ({**GAIN, "row": "a", "columns": "x", "than": "y"}, "reproduced"),
        ({**GAIN, "row": "a", "columns": "y", "than": "x"}, "not reproduced"),
        ({**GAIN, "row": "b", "columns": "x", "than": "y"}, "not enough runs"),
    ],
)
def test_what_is_divided_by_nothing_is_infinite_or_open(check: dict[str, Any], expected: str) -> None:
    frame = results({"a": {"x": 1.0, "y": 9.0}, "b": {"x": 0.0, "y": 1.0}, "c": {"x": 1.0}})
    frame.loc[frame["row"] == "c", "std"] = float("nan")
    assert verdict(check, frame).status == expected


@pytest.mark.parametrize(
    ("limits", "known", "expected"),
    [
        ({"at_least": 5, "at_most": 6}, ["x", "y"], "reproduced"),  # 2 in x, 5.5 in y
        ({"at_least": 1, "at_most": 3}, ["x", "y"], "not reproduced"),
        ({"at_least": 6, "at_most": 7}, ["x", "y"], "not reproduced"),
        ({"at_least": 6, "at_most": 7}, ["y"], "not enough runs"),
        ({"at_least": 5, "at_most": 6}, ["y"], "not enough runs"),
        ({"at_least": 1, "at_most": 3}, ["y"], "not reproduced"),  # whatever x gives
    ],
)
def test_what_is_gained_up_to_is_the_largest_gain(
    limits: dict[str, float], known: list[str], expected: str
) -> None:
    frame = results({"a": {"x": 4.0, "y": 7.5}, "b": {"x": 2.0, "y": 2.0}})
    check = {"kind": "between", "row": "a", "minus": "b", "columns": ["x", "y"], "largest": True, **limits}
    result = verdict(check, frame[frame["column"].isin(known)])
    assert result.status == expected
    assert (" y 5.5" in result.detail) == (expected != "not enough runs")


@pytest.mark.parametrize(
    ("kind", "keys", "holds"),
    [
        ("falls", {"rows": "a", "columns": ["x", "y", "z"]}, True),
        ("falls", {"rows": ["a", "b"], "columns": ["x", "y", "z"], "by_at_least": 16}, True),
        ("falls", {"rows": ["a", "b"], "columns": ["x", "y", "z"], "by_at_least": 17}, False),
        ("rises", {"rows": "a", "columns": ["x", "y", "z"]}, False),
        ("rises", {"rows": "a", "columns": ["z", "y", "x"]}, True),
        ("rises", {"rows": "c", "columns": ["x", "y", "z"]}, False),
        ("rises", {"rows": "c", "columns": ["x", "z"]}, True),
        ("falls", {"rows": ["a", "c"], "columns": ["x", "z"], "in_share": 0.5}, True),
    ],
)
def test_trends(kind: str, keys: dict[str, Any], holds: bool) -> None:
    assert status(kind, **keys) == ("reproduced" if holds else "not reproduced")


def test_changes_are_turned_back_before_a_trend_is_followed() -> None:
    """m gains less in y, yet its score rises with the base's: 50 and 2% are 51, 60 and -10% are 54."""
    frame = results({"base": {"x": 50.0, "y": 60.0}, "m": {"x": 2.0, "y": -10.0}})
    check = {"kind": "rises", "rows": ["base", "m"], "columns": ["x", "y"]}
    assert verdict(check, frame).status == "not reproduced"
    result = verdict({**check, "changes_from": "base"}, frame)
    assert result == Verdict("reproduced", "true in 2 of 2: base 50, 60; m 51, 54")
    without = frame.query("row != 'base' or column != 'y'")
    assert verdict({**check, "rows": "m", "changes_from": "base"}, without).status == "not enough runs"


def test_a_level_stretch_is_no_trend() -> None:
    frame = results({"a": {"x": 3.0, "y": 3.0, "z": 1.0}})
    for columns, expected in ((["x", "y", "z"], "not reproduced"), (["x", "z"], "reproduced")):
        check = {"kind": "falls", "rows": "a", "columns": columns}
        assert verdict(check, frame).status == expected


@pytest.mark.parametrize(
    ("keys", "holds"),
    [
        ({"row": "a", "over": "b", "columns": "x", "than": ["y", "z"]}, True),
        ({"row": "a", "over": "b", "columns": "y", "than": ["x"]}, False),
        ({"row": "a", "over": "b", "columns": ["x", "z"], "than": ["y"]}, True),
        ({"row": "a", "columns": "x", "than": ["y", "z"]}, True),  # cells that are gains already
        ({"row": "c", "columns": "x", "than": ["y", "z"]}, False),
        ({"row": "a", "over": "a", "columns": "x", "than": ["y"]}, False),  # equal gains
    ],
)
def test_gain_largest_in(keys: dict[str, Any], holds: bool) -> None:
    assert status("gain_largest_in", **keys) == ("reproduced" if holds else "not reproduced")


@pytest.mark.parametrize(
    ("of", "most", "holds"),
    [
        ("difference", 2, True),
        ("difference", 1.9, False),
        ("deviations", 4, True),
        ("deviations", 3.9, False),
    ],
)
def test_a_cell_is_held_against_the_printed_number(of: str, most: float, holds: bool) -> None:
    """90 was measured, with a deviation of .5, and 88 is printed: 2 points and 4 deviations more."""
    frame = results(published_mean=88.0)
    check = {"kind": "between", "row": "a", "columns": "x", "from_printed": of, "at_most": most}
    assert verdict(check, frame).status == ("reproduced" if holds else "not reproduced")


def paired_runs(**differences: list[float]) -> pd.DataFrame:
    """Return rows a and b in a column for each argument, a's runs that much above b's, which lie apart."""
    lines = []
    for column, apart in differences.items():
        base = [10.0 * seed for seed in range(len(apart))]
        for row, values in (("a", [b + d for b, d in zip(base, apart, strict=True)]), ("b", base)):
            text = " ".join(f"p/seed{seed}={value}" for seed, value in enumerate(values))
            lines.append((row, column, sum(values) / len(values), 1.0, len(values), text))
    names = ["row", "column", "mean", "std", "n", "values"]
    return pd.DataFrame(lines, columns=names).assign(paper="p", target="t")


SIGNIFICANT = {"kind": "significant", "row": "a", "over": "b", "columns": ["x", "y"], "printed_runs": 3}


def test_significance_is_that_of_paired_runs_with_and_without_holm() -> None:
    """With differences 1, 2, 3: t = 2 sqrt(3), two degrees of freedom, p = 1 - t/sqrt(t^2 + 2) = .0742.

    With 3, 4, 5: t = 4 sqrt(3), p = .0202, and .0404 as the smaller of two.
    """
    frame = paired_runs(x=[3.0, 4.0, 5.0], y=[1.0, 2.0, 3.0])
    result = verdict(SIGNIFICANT, frame)
    assert (result.status, result.detail) == (
        "not reproduced",
        "true in 1 of 2: not where a b y: +2, p 0.074, by Holm 0.074",
    )
    assert verdict({**SIGNIFICANT, "columns": "x", "holm": True}, frame).status == "reproduced"
    twice = paired_runs(x=[3.0, 4.0, 5.0], y=[2.9, 4.0, 5.1])  # p of .0202 and .0246: .0404 together
    assert verdict({**SIGNIFICANT, "holm": True}, twice).status == "reproduced"
    more = paired_runs(x=[3.0, 4.0, 5.0], y=[2.9, 4.0, 5.1], z=[1.0, 2.0, 3.0])  # the first p is .0606 now
    check = {**SIGNIFICANT, "columns": ["x", "y", "z"], "in_share": 0.6}
    assert verdict(check, more).status == "reproduced"
    assert verdict({**check, "holm": True}, more).status == "not reproduced"


def test_a_correction_for_all_waits_for_all() -> None:
    """Corrected for two, what becomes of x depends on y, which has no number yet."""
    frame = paired_runs(x=[3.0, 4.0, 5.0], y=[1.0, 2.0, 3.0]).query("column == 'x' or row == 'a'")
    assert verdict({**SIGNIFICANT, "in_share": 0.5}, frame).status == "reproduced"
    assert verdict({**SIGNIFICANT, "in_share": 0.5, "holm": True}, frame).status == "not enough runs"


def test_what_is_so_far_is_read_as_the_check_reads() -> None:
    frame = results(n=1, seeds=3, published_mean=89.0)
    check = {"kind": "between", "row": "a", "columns": "x", "from_printed": "difference", "at_most": 1}
    assert "so far it holds: true in 1 of 1: x 1" in verdict(check, frame).detail


def test_what_lies_below_is_not_significantly_better() -> None:
    frame = paired_runs(x=[-3.0, -4.0, -5.0], y=[0.5, 0.5, 0.5])
    assert verdict({**SIGNIFICANT, "columns": "x"}, frame).status == "not reproduced"
    assert verdict({**SIGNIFICANT, "columns": ["x", "y"], "better": False}, frame).status == "reproduced"
    above = paired_runs(x=[3.0, 4.0, 5.0])
    assert verdict({**SIGNIFICANT, "columns": "x", "better": False}, above).status == "not reproduced"


def test_ranks_of_five_pairs_cannot_reach_the_level() -> None:
    """Five differences of one sign have p = 2/32 by the signed-rank test, six have 2/64."""
    for runs, expected in ((5, "not reproduced"), (6, "reproduced")):
        frame = paired_runs(x=[1.0 + run for run in range(runs)])
        assert verdict({**SIGNIFICANT, "columns": "x", "test": "wilcoxon"}, frame).status == expected


def test_printed_means_and_deviations_are_tested_unpaired() -> None:
    """Deviations of 1 with two runs each: t is the difference and has two degrees of freedom."""
    for difference, expected in ((4.2, "not reproduced"), (4.4, "reproduced")):
        frame = results({"a": {"x": 50 + difference}, "b": {"x": 50.0}}).assign(std=1.0)
        check = {**SIGNIFICANT, "columns": "x", "printed_runs": 2}
        assert verdict(check, frame).status == expected, "t(.975, 2) = 4.303"


def test_a_paper_may_have_a_test_of_its_own() -> None:
    """Differences d - 1, d, d + 1 deviate by the root of 2/3: the statistic is 3 d over the root of 2."""
    check = {**SIGNIFICANT, "columns": "x", "above": 1.812}
    for d, expected in ((0.85, "not reproduced"), (0.86, "reproduced")):
        result = verdict(check, paired_runs(x=[d - 1, d, d + 1]))
        assert (result.status, f"a b x: {3 * d / 2**0.5:.3g}, asked for 1.812" in result.detail) == (
            expected,
            True,
        )
    assert verdict(check, paired_runs(x=[1.0, 1.0])).status == "reproduced", "no spread at all"
    assert verdict(check, results({"a": {"x": 60.0}, "b": {"x": 50.0}})).status == "not enough runs"
    level = paired_runs(x=[3.5, 4.0, 4.5]).query("row == 'a'").assign(row="c")
    lines = pd.concat([paired_runs(x=[3.0, 4.0, 5.0]), level])
    assert verdict({**check, "over": ["b", "c"]}, lines).status == "not reproduced", "a is no better than c"
    tied = lines.assign(values=lines["values"].where(lines["row"] != "c", lines["values"].iloc[0]))
    assert verdict({**check, "over": ["b", "c"]}, tied).status == "not reproduced", "a and c are the same"
    with pytest.raises(ValueError, match="above: goes with neither holm nor better: false"):
        verdict({**check, "holm": True}, lines)


def test_the_detail_names_what_fails() -> None:
    result = verdict({"kind": "beats", "row": "a", "over": "b", "columns": ["x", "y", "z"]})
    assert result.detail == "true in 2 of 3: not where y 80 against b 80"


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (results().query("row != 'b'"), "1 of 2 cells can't be used, such as b/x: no such cell"),
        (results().query("target != 't'"), "2 of 2 cells can't be used, such as a/x: no such cell"),
        (results(n=2, seeds=3, diverged=1), "such as a/x: 2 of 3 runs, 1 diverged"),
        (results(n=0), "such as a/x: 0 of 1 runs"),
        (results({**TABLE, "b": {"x": float("nan")}}), "such as b/x: no number"),
    ],
)
def test_missing_cells_are_told(frame: pd.DataFrame, why: str) -> None:
    result = verdict({"kind": "beats", "row": "a", "over": "b", "columns": "x"}, frame)
    assert result.status == "not enough runs"
    assert why in result.detail


@pytest.mark.parametrize(
    ("keys", "without", "status", "detail"),
    [
        ({}, "z", "not reproduced", "true in 1 of 3 (1 without a number): not where y 80 against b 80"),
        ({}, "y", "not enough runs", "1 of 6 cells can't be used, such as b/y: no such cell"),
        ({"in_share": 0.6}, "y", "reproduced", "true in 2 of 3 (1 without a number), asked for 60%: x 90"),
        ({"in_share": 0.6}, "z", "not enough runs", "such as b/z: no such cell"),
        (
            {"in_share": 0.3},
            "z",
            "reproduced",
            "true in 1 of 3 (1 without a number), asked for 30%",
        ),
    ],
)
def test_what_is_missing_may_not_matter(keys: dict[str, Any], without: str, status: str, detail: str) -> None:
    frame = results().query(f"row != 'b' or column != '{without}'")
    check = {"kind": "beats", "row": "a", "over": "b", "columns": ["x", "y", "z"], **keys}
    result = verdict(check, frame)
    assert result.status == status
    assert detail in result.detail


def test_fewer_runs_are_told_but_not_judged() -> None:
    check = {"kind": "beats", "row": "a", "over": "b", "columns": ["x", "y"]}
    result = verdict(check, results(n=1, seeds=3))
    assert (result.status, result.so_far) == ("not enough runs", False)
    assert result.detail.endswith("1 of 3 runs; so far it fails: true in 1 of 2: not where y 80 against b 80")
    result = verdict({**check, "in_share": 0.5}, results(n=1, seeds=3))
    assert result.so_far
    assert "; so far it holds: true in 1 of 2, asked for 50%: not where" in result.detail
    without = results(n=1, seeds=3).query("row != 'b' or column != 'x'")
    assert "so far it fails: true in 0 of 2 (1 without a number)" in verdict(check, without).detail
    assert "so far" not in verdict(check, without.query("column == 'z'")).detail


def test_runs_so_far_are_compared_on_the_same_folds_and_seeds() -> None:
    """a's second run is on an easier fold, which b has not seen yet."""
    check = {"kind": "beats", "row": "a", "over": "b", "columns": "x"}
    frame = results({"a": {"x": 85.0}, "b": {"x": 80.0}}, seeds=3)
    frame = frame.assign(n=[2, 1], values=["p/seed0=75 p/seed1=95", "p/seed0=80"], published_unit="percent")
    assert "so far it fails: true in 0 of 1: not where x 75 against b 80" in verdict(check, frame).detail
    frame["values"] = ["p/seed0=75 p/seed1=95", "p/seed2=80"]
    assert "so far" not in verdict(check, frame).detail
    frame["values"], frame["published_unit"] = ["p/seed0=75 p/seed1=95", "p/seed0=80"], "relative_percent"
    assert "so far" not in verdict(check, frame).detail, "a change on other runs can't be taken apart"


def test_a_diverged_run_counts_as_the_worst_accuracy() -> None:
    """b diverged in all runs of x and in one of three of y, whose other two are better than a's."""
    check = {"kind": "beats", "row": "a", "over": "b", "columns": ["x", "y"]}
    table = {"a": {"x": 80.0, "y": 80.0}, "b": {"x": float("nan"), "y": 90.0}}
    frame = results(table, seeds=3, published_unit="percent").assign(n=[3, 3, 0, 2], diverged=[0, 0, 3, 1])
    assert verdict(check, frame) == Verdict(
        "reproduced",
        "true in 2 of 2: x 80 against b 0; y 80 against b 60; diverged, so 0: 3 of 3 in b/x, 1 of 3 in b/y",
    )
    changes = verdict(check, frame.assign(published_unit="relative_percent"))
    assert changes.status == "not enough runs", "a change against a diverged run is no number"
    begun = verdict({**check, "columns": "x"}, frame.assign(n=[2, 2, 0, 0], diverged=[0, 0, 2, 2]))
    assert (begun.status, begun.so_far) == ("not enough runs", True)
    assert begun.detail.endswith("x 80 against b 0; diverged, so 0: 2 of 2 in b/x")
    alone = frame.assign(n=0, diverged=3)
    assert verdict(check, alone).status == "not enough runs", "where all diverged, nothing is compared"
    never = verdict(check, frame.assign(n=[3, 3, 0, 0], diverged=[0, 0, 0, 0]))
    assert never.status == "not enough runs", "runs that were never made don't count"


def test_diverged_runs_leave_the_others_their_shared_runs() -> None:
    line = {"published_unit": "percent", "mean": 75.0, "values": "p/seed0=70 p/seed1=80", ZEROS: 1}
    other = {"published_unit": "percent", "mean": 60.0, "values": "p/seed0=60"}
    third = {"published_unit": "percent", "mean": 55.0, "values": "p/seed0=50 p/seed1=60"}
    cells = {("a", "x"): line, ("b", "x"): other, ("c", "x"): third}
    assert shared_means(cells) == {("a", "x"): 75.0, ("b", "x"): 60.0, ("c", "x"): 50.0}
    assert shared_means({("a", "x"): line}) == {("a", "x"): 75.0}


def test_the_best_of_several_rows_is_compared_with_the_others() -> None:
    frame = results({"a": {"x": 3.0}, "b": {"x": 1.0}, "c": {"x": 2.0}})
    for rows in (["a", "b"], ["b", "a"]):
        assert verdict({"kind": "best", "rows": rows, "columns": "x"}, frame).status == "reproduced"
    low = {"kind": "best", "rows": ["a", "b"], "columns": "x", "smallest": True}
    assert verdict(low, frame).status == "reproduced"


def test_runs_are_shared_within_each_column() -> None:
    """In column x both rows have seed 0, in column y seed 2; a change stays or goes whole."""
    lines: dict[tuple[str, str], dict[str, Any]] = {
        ("a", "x"): {"mean": 85.0, "values": "seed0=75 seed1=95"},
        ("a", "y"): {"mean": 60.0, "values": "seed2=60"},
        ("b", "x"): {"mean": 80.0, "values": "seed0=80"},
        ("b", "y"): {"mean": 61.0, "values": "seed2=50 seed3=72", "published_unit": "relative_percent"},
    }
    assert shared_means(lines) == {("a", "x"): 75.0, ("b", "x"): 80.0, ("a", "y"): 60.0}
    lines["b", "y"]["published_unit"] = "percent"
    assert shared_means(lines)["b", "y"] == 50.0


def test_a_share_of_columns_may_still_be_reached_by_those_that_are_missing() -> None:
    check = {"kind": "beats", "row": "a", "over": "b", "in_share": 0.5, "columns": ["x", "y"]}
    fails = results({"a": {"x": 1.0}, "b": {"x": 2.0}})
    assert verdict(check, fails).status == "not enough runs"
    holds = results({"a": {"x": 3.0}, "b": {"x": 2.0}})
    assert verdict(check, holds).status == "reproduced"


def test_a_row_whose_trend_is_known_settles_a_claim_about_two() -> None:
    frame = results().query("row != 'b' or column != 'y'")
    check = {"kind": "falls", "rows": ["a", "b"], "columns": ["x", "y", "z"]}
    assert verdict(check, frame).status == "not enough runs"
    assert verdict({**check, "kind": "rises"}, frame).status == "not reproduced"


@pytest.mark.parametrize(
    ("check", "gone", "status"),
    [
        ({"kind": "beats", "row": ["b", "a"], "over": "c"}, "a", "not enough runs"),
        ({"kind": "beats", "row": ["c", "a"], "over": "b"}, "a", "not reproduced"),
        ({"kind": "beats", "row": "b", "over": ["c", "a"]}, "a", "not enough runs"),
        ({"kind": "beats", "row": "b", "over": ["a", "c"]}, "c", "not reproduced"),
        ({"kind": "beats", "row": "a", "over": "b", "by_at_least": 6}, "c", "not reproduced"),
        ({"kind": "beats", "row": "b", "over": "a"}, "a", "not enough runs"),
        ({"kind": "best", "rows": "b"}, "c", "not reproduced"),
        ({"kind": "best", "rows": "b"}, "a", "not enough runs"),
        ({"kind": "best", "rows": "b", "against": ["a", "c"]}, "c", "not reproduced"),
        ({"kind": "best", "rows": "b", "against": ["a", "c"]}, "a", "not enough runs"),
        ({"kind": "best", "rows": "b", "against": "a"}, "a", "not enough runs"),
        ({"kind": "best", "rows": ["b", "c"], "against": "a"}, "c", "not enough runs"),
    ],
)
def test_one_pair_of_rows_refutes_what_is_said_of_all(check: dict[str, Any], gone: str, status: str) -> None:
    frame = results().query("row != @gone or column != 'x'")
    assert verdict({**check, "columns": "x"}, frame).status == status


def test_a_claim_can_ask_for_more_runs_than_the_table() -> None:
    check = {"kind": "beats", "row": "a", "over": "b", "columns": "x"}
    assert evaluate(claim(check, runs=3), results(), "paper").status == "reproduced"
    assert evaluate(claim(check, runs=4), results(), "paper").status == "not enough runs"


def test_best_of_all_needs_every_row() -> None:
    frame = results()
    frame.loc[(frame["row"] == "c") & (frame["column"] == "x"), "n"] = 0
    assert verdict({"kind": "best", "rows": "a", "columns": "x"}, frame).status == "not enough runs"
    assert (
        verdict({"kind": "best", "rows": "a", "against": "b", "columns": "x"}, frame).status == "reproduced"
    )


def test_another_scale_is_told_but_not_judged() -> None:
    check = {"kind": "beats", "row": "b", "over": "a", "columns": "x"}
    result = verdict(check, scale="demo")
    assert result.status == "not tested at this scale"
    assert result.detail.startswith("at demo scale true in 0 of 1")
    assert verdict(check, results(n=0), scale="demo").status == "not tested at this scale"
    anywhere = claim(check, scales=("demo", "paper"))
    assert evaluate(anywhere, results(), "demo").status == "not reproduced"


def on_a_part(column: str, unit: str = "percent") -> pd.DataFrame:
    frame = results()
    return frame.assign(
        data_state=["subset" if name == column else "real" for name in frame["column"]],
        published_unit=unit,
    )


def test_another_scale_without_numbers_tells_nothing() -> None:
    lacking = results().assign(mean=float("nan"))
    result = verdict({"kind": "beats", "row": "a", "over": "b", "columns": "x"}, lacking, "demo")
    assert (result.status, result.so_far) == ("not tested at this scale", None)
    assert result.detail == "2 of 2 cells can't be used, such as a/x: no number"
    assert verdict({"kind": "beats", "row": "a", "over": "b", "columns": "x"}, scale="demo").so_far


def test_a_part_of_the_data_is_told_but_not_judged() -> None:
    check = {"kind": "beats", "row": "a", "over": "b", "columns": "y"}
    result = verdict(check, on_a_part("y"))
    assert (result.status, result.so_far) == ("on a part of the data", False)
    assert result.detail == "there it fails: true in 0 of 1: not where y 80 against b 80"
    result = verdict({**check, "columns": "x"}, on_a_part("x"))
    assert (result.status, result.so_far) == ("on a part of the data", True)
    assert result.detail.startswith("there it holds")


def test_what_full_data_settle_needs_no_stand_in() -> None:
    check = {"kind": "beats", "row": "a", "over": "b", "columns": ["x", "y"]}
    assert verdict(check, on_a_part("x")).status == "not reproduced"
    assert verdict(check, on_a_part("y")).status == "on a part of the data"
    assert verdict({**check, "in_share": 0.5}, on_a_part("y")).status == "reproduced"


def test_bytes_are_the_same_on_any_data() -> None:
    check = {"kind": "beats", "row": "a", "over": "b", "columns": "x"}
    assert verdict(check, on_a_part("x", "bytes")).status == "reproduced"


def test_runs_so_far_on_a_part_of_the_data_speak_where_those_on_all_say_nothing() -> None:
    check = {"kind": "beats", "row": "a", "over": "b", "columns": ["x", "y"]}
    few = on_a_part("y").assign(n=1, seeds=3)
    result = verdict(check, few)
    assert result.so_far is False
    assert "; so far, on a part of the data, it fails: true in 1 of 2: not where y 80" in result.detail
    result = verdict({**check, "in_share": 0.5}, few)
    assert result.so_far
    assert "so far it holds" in result.detail


def test_another_paper_s_lines_do_not_count() -> None:
    other = results({"a": {"x": 1.0}, "b": {"x": 2.0}}, paper="q")
    reports = {("p", "other"): other, ("p", "t"): results(), ("q", "t"): other}
    entry = claim({"kind": "beats", "row": "a", "over": "b", "columns": "x"})
    assert [*judged([entry], reports, "paper")["verdict"]] == ["reproduced"]


def test_rounds_of_a_curve_are_columns() -> None:
    lines = [("a", 10, 50.0), ("a", 20, 60.0), ("b", 10, 55.0), ("b", 20, 58.0)]
    curve = pd.DataFrame(lines, columns=["row", "round", "mean"])
    curve = curve.assign(paper="p", target="t", column="panel", std=0.0, n=2)
    frame = pd.concat([results(target="other"), curve])
    for column, expected in (("panel@10", "not reproduced"), ("panel@20", "reproduced")):
        assert (
            verdict({"kind": "beats", "row": "a", "over": "b", "columns": column}, frame).status == expected
        )
    assert (
        verdict({"kind": "beats", "row": "a", "over": "b", "columns": "panel@last"}, frame).status
        == "reproduced"
    )


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("p@mean", 5.0),
        ("p@swing", (29 / 3) ** 0.5),  # changes of 4, 2, 3 and -3, mean 1.5: 6.25 + .25 + 2.25 + 20.25 = 29
        ("p@peak", 3.0),
        ("p@late-mean", 6.0),
        ("p@late-peak", 4.0),
        ("p@last", 6.0),
    ],
)
def test_a_curve_is_summarised(column: str, expected: float) -> None:
    """Rounds 0 to 4 have 0, 4, 6, 9 and 6; the last quarter is round 4 alone."""
    curve = pd.DataFrame({"round": range(5), "mean": [0.0, 4.0, 6.0, 9.0, 6.0]})
    curve = curve.assign(row="a", column="p", n=2)
    assert cells_of(curve)["a", column]["mean"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("published", "expected"),
    [((44.0, 33.1), "reproduced"), ((44.0, 33.12), "not reproduced"), ((math.nan,) * 2, "not reproduced")],
)
def test_means_that_the_print_cannot_tell_apart_are_equal(published: Any, expected: str) -> None:
    table = results({"a": {"x": 43.1867}, "b": {"x": 43.22}}, published_mean=published)
    assert verdict({"kind": "best", "rows": "a", "columns": "x"}, table).status == expected


def test_a_curve_that_ends_before_others_has_no_summary_and_no_end() -> None:
    long = pd.DataFrame({"row": "a", "column": "p", "n": 2, "round": range(4), "mean": [1.0, 2.0, 3.0, 5.0]})
    cells = cells_of(pd.concat([long, long[:3].assign(row="b"), long[:2].assign(column="q")]))
    assert cells["b", "p@2"]["mean"] == 3
    assert all(pd.isna(cells["b", f"p@{word}"]["mean"]) for word in ("last", "mean", "swing", "late-peak"))
    assert cells["a", "q@last"]["mean"] == 2
    assert cells["a", "p@mean"]["mean"] == 2.75
    assert pd.isna(cells["a", "p@swing"]["mean"]), "three changes say nothing of swings"


def test_curves_are_compared_at_the_rounds_that_all_of_them_have() -> None:
    often = pd.DataFrame({"row": "a", "column": "p", "n": 2, "round": range(9), "mean": [*range(8), 20.0]})
    rare = often[often["round"] % 4 == 0].assign(row="b")
    cells = cells_of(pd.concat([often, rare, rare[:2].assign(row="c")]))
    for row in ("a", "b"):
        means = {word: cells[row, f"p@{word}"]["mean"] for word in ("mean", "late-mean", "last")}
        assert means == {"mean": 8.0, "late-mean": 20.0, "last": 20.0}
        assert pd.isna(cells[row, "p@swing"]["mean"]), "two changes say nothing of swings"
    assert cells["a", "p@7"]["mean"] == 7


def test_a_curve_that_breaks_off_has_no_summary() -> None:
    curve = pd.DataFrame(
        {"row": "a", "column": "p", "n": 2, "round": [0, 1, 2], "mean": [1.0, float("nan"), 2.0]}
    )
    cells = cells_of(curve)
    assert all(pd.isna(cells["a", f"p@{word}"]["mean"]) for word in ("mean", "peak"))


STATEMENTS = {
    "rfedavg": ("r", 83),
    "fedavgr": ("v", 39),
    "comfed": ("c", 39),
    "fedomw": ("w", 40),
    "radfed": ("d", 65),
    "mcmahan2017": ("m", 10),
}


@pytest.mark.parametrize("paper", PAPERS)
def test_each_statement_has_its_claims(paper: str) -> None:
    """What decides each: a check of a target, a test that exists, or a reason why there is none."""
    letter, count = STATEMENTS[paper]
    assert {c.statement for c in ledger(paper)} == {f"{letter}{number}" for number in range(1, count + 1)}
    for entry in ledger(paper):
        path, _, name = entry.test.partition("::")
        assert not path or f"def {name}(" in Path(path).read_text(encoding="utf-8"), entry.id
        assert not entry.untested or entry.untested.startswith(
            ("No target yet. ", "No data. ", "No code. ")
        ), entry.id


@pytest.fixture(scope="module")
def paper_scale() -> Catalogue:
    return catalogue_of(Path("params.yaml"), "paper")


@pytest.mark.parametrize("paper", PAPERS)
def test_claims_name_cells_of_their_targets(paper: str, paper_scale: Catalogue) -> None:
    """A misspelt row, panel or value would wait for runs for ever; drawings make their columns themselves."""
    targets = papers()[paper].targets
    for entry in ledger(paper):
        if entry.check is None or isinstance(targets[entry.target], Drawing):
            continue
        cells = {*paper_scale.cells(paper, entry.target)}
        rows = [row for row, _ in cells]
        needed = {cell for part in entry.check.parts() for cell in entry.check.needs(part, rows)}
        assert {(row, column.partition("@")[0]) for row, column in needed} <= cells, entry.id


def printed_results(paper: str) -> pd.DataFrame:
    """Return a paper's published numbers in the form of results, also of tables beside another's numbers."""
    frame = pd.read_csv(published(paper), dtype={"row": str, "column": str})
    beside = {name: getattr(target, "beside", "") for name, target in papers()[paper].targets.items()}
    others = [
        frame[frame["target"] == printed].assign(target=name)
        for name, printed in beside.items()
        if printed and name not in {*frame["target"]}
    ]
    frame = pd.concat([frame, *others], ignore_index=True)
    return frame[["target", "row", "column", "mean", "std"]].assign(
        paper=paper, n=15, published_mean=frame["mean"]
    )


@pytest.mark.parametrize("paper", PAPERS)
def test_ledgers_hold_or_fail_on_the_printed_numbers_as_they_say(paper: str) -> None:
    """Each claim, held against the paper's own tables; this also proves that its rows and columns exist."""
    frame = printed_results(paper)
    expected = {"holds": "reproduced", "fails": "not reproduced", "no numbers": "not enough runs"}
    claims = [c for c in ledger(paper) if c.check]
    statuses = {c.id: evaluate(c, frame, "paper").status for c in claims}
    assert statuses == {c.id: expected[c.printed] for c in claims}
    assert len(claims) >= 10


METHODS = {
    "fedavg": 70.0,
    "fedprox": 60.0,
    "scaffold": 70.0,
    "qfedavg": 65.0,
    "rfedavg": 75,
    "rfedavg_plus": 74,
}
ROUNDS = {"fedavg": 30.0, "rfedavg": 20.0, "rfedavg_plus": 25.0}
NOISE = {"rfedavg_plus": 90.0, "rfedavg_plus_sigma1": 90.4, "rfedavg_plus_sigma5": 89.6}


@pytest.mark.parametrize(
    ("name", "numbers", "holds"),
    [
        ("femnist-best", METHODS, True),
        ("femnist-best", METHODS | {"rfedavg_plus": 75.5}, False),  # rFedAvg itself, not one of the two
        ("femnist-plus-competitive", METHODS, True),
        ("femnist-plus-competitive", METHODS | {"rfedavg_plus": 73.9}, False),
        ("fewer-rounds", ROUNDS, True),
        ("fewer-rounds", ROUNDS | {"rfedavg_plus": 30.0}, False),  # both methods, not one of them
        ("noise-tolerated", NOISE, True),
        ("noise-tolerated", NOISE | {"rfedavg_plus_sigma1": 91.1}, False),  # every sigma up to 5
    ],
)
def test_claims_without_printed_numbers_ask_for_all_that_is_said(
    name: str, numbers: dict[str, float], holds: bool
) -> None:
    (entry,) = [c for c in ledger("rfedavg") if c.id == name]
    assert entry.check
    table = {row: dict.fromkeys(entry.check.columns, number) for row, number in numbers.items()}
    result = evaluate(entry, results(table, paper="rfedavg", target=entry.target), "paper")
    assert result.status == ("reproduced" if holds else "not reproduced")


@pytest.mark.parametrize("paper", PAPERS)
def test_no_claim_holds_whatever_is_measured(paper: str) -> None:
    """Each claim that the paper bears out falls when its numbers are negated, made equal or drawn apart."""
    frame = printed_results(paper)
    numbers = frame[["mean", "std"]]
    apart = {"mean": frame["mean"] * [2.0 ** (place % 3) for place in range(len(frame))]}
    nearer = {"mean": frame["mean"] / apart["mean"]}
    drawn = (-numbers, {"mean": 1.0, "std": 1.0}, 100 * frame[["mean"]], apart, nearer)
    distorted = [frame.assign(**columns) for columns in drawn]
    for entry in ledger(paper):
        if entry.check and entry.printed == "holds":
            statuses = {evaluate(entry, other, "paper").status for other in distorted}
            assert "not reproduced" in statuses, entry.id


def test_reading_a_ledger_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom pipeline.claims.ledger import ledger\n"
        "assert ledger('radfed')\nprint(*sys.modules)\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pandas", "scipy", "torch", "matplotlib"} & set(process.stdout.split())


def test_a_paper_without_ledger_claims_nothing() -> None:
    assert ledger("nobody") == ()


GOOD = """
- id: one
  text: It is so.
  source: Table 1
  target: table1
  check: {kind: beats, row: a, over: b, columns: [100]}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "claims.yaml"
    path.write_text(text)
    return path


def test_a_ledger_is_read(tmp_path: Path) -> None:
    (entry,) = load(write(tmp_path, GOOD), "p")
    assert entry.check
    assert (entry.paper, entry.id, entry.scales, entry.check.columns) == ("p", "one", ("paper",), ("100",))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("row: a,", "", "[0] one: check.row: missing, but required"),
        ("- id: one\n ", "-", "[0]: claim.id: missing, but required"),
        ("kind: beats", "kind: beat", "check.kind: no check named 'beat' (did you mean 'beats'?)"),
        ("row: a,", "row: a, by: 2,", "check.by: unknown key"),
        ("columns: [100]", "columns: []", "check.columns: got []"),
        (
            "columns: [100]",
            "columns: [100], in_share: 2",
            "check.in_share: got 2, expected a number less than or equal to 1",
        ),
        ("source: Table 1", "sources: Table 1", "claim.source"),
        ("text: It is so.", "text: ''", "claim.text"),
        ("id: one", "id: One!", "claim.id"),
        (GOOD, GOOD + GOOD, "two claims have the id 'one'"),
        (GOOD, "claims: 3", "expected a list of claims, got dict"),
        (GOOD, "- just words", "expected keys and values, got 'just words'"),
        (GOOD, "[", "not valid YAML"),
        ("check: {", "check: 3 # {", "check: expected keys and values with a kind, got 3"),
        ("kind: beats, row: a, over: b", "kind: between, row: a", "neither at_least nor at_most is given"),
        ("target: table1", "", "expected one of target with check, test and untested"),
        (
            "check: {",
            "untested: No target.\n  check: {",
            "expected one of target with check, test and untested",
        ),
        ("target: table1", "test: test_x", "claim.test: got 'test_x'"),
        ("kind: beats, row: a, over: b", "kind: falls, rows: a", "check.columns"),
    ],
)
def test_a_wrong_ledger_is_refused_in_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(SpecError) as refused:
        load(path, "p")
    message = str(refused.value)
    assert said in message
    assert str(path) in message
    one_line(message)


@pytest.mark.parametrize(
    ("check", "known", "status"),
    [
        ({"kind": "close", "rows": ["a", "b", "c"], "within": 1}, {"a": 50.0, "b": 90.0}, "not reproduced"),
        ({"kind": "close", "rows": ["a", "b", "c"], "within": 1}, {"a": 50.0, "b": 50.5}, "not enough runs"),
        ({"kind": "close", "rows": ["a", "b"], "within": 1, "base": 0}, {"a": 50.0}, "not reproduced"),
        ({"kind": "close", "rows": ["a", "b"], "within": 1}, {"a": 50.0}, "not enough runs"),
    ],
)
def test_two_rows_that_are_far_apart_are_not_close_whatever_the_third(
    check: dict[str, object], known: dict[str, float], status: str
) -> None:
    frame = results({row: {"x": value} for row, value in known.items()})
    assert verdict({**check, "columns": ["x"]}, frame).status == status


@pytest.mark.parametrize(
    ("means", "status"),
    [
        ({"x": 10.0, "z": 20.0}, "not reproduced"),
        ({"x": 20.0, "z": 19.5}, "not enough runs"),
        ({"x": 20.0, "z": 10.0}, "not enough runs"),
        ({"x": 20.0}, "not enough runs"),
    ],
)
def test_a_step_up_refutes_a_fall_whatever_lies_between(means: dict[str, float], status: str) -> None:
    check = {"kind": "falls", "rows": ["a"], "columns": ["x", "y", "z"], "by_at_least": 1.0}
    assert verdict(check, results({"a": means})).status == status
