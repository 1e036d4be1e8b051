"""Paired tests against the best of a column: known p-values, corrections, and what can't be tested."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pipeline.catalogue.targets import Column, Paper, Query, Test
from pipeline.reports import captions, render, significance
from pipeline.reports.grid import Grid
from pipeline.reports.significance import Comparison, compare, holm
from pipeline.reports.tables import Table, arrange, compared_in

COLUMN = (Column("all", "All"),)
MADE = "Commit abc1234567, newest run 2023-01-02."
TABLE = Table(
    title="Accuracy of FedAvg and others",
    published="Table I",
    columns=lambda params: COLUMN,
    query=lambda row, column: Query("regime", "mnist", column, row),
    note="SCAFFOLD keeps two models. Folds are by client.",
)
PAPER = Paper(title="A paper", citation="A. Author, 2023", datasets={}, targets={"table1": TABLE})

BEST = [90.0, 91.0, 92.0, 93.0, 91.5]
CLOSE = [90.5, 90.0, 92.5, 92.0, 91.0]
WORSE = [80.0, 81.5, 81.5, 83.0, 81.0]


def samples(**rows: list[float]) -> dict[str, dict[str, float]]:
    return {
        row: {f"mnist-0/seed{seed}": value for seed, value in enumerate(runs)} for row, runs in rows.items()
    }


def grid_of(rows: Mapping[str, Mapping[str, float]], test: Test = "t", seeds: int = 5) -> Grid:
    """Lay out a table of one column; a row without numbers has not run."""
    lines = [
        {
            "row": row,
            "column": "all",
            "mean": sum(scores.values()) / len(scores) if scores else float("nan"),
            "std": 1.0 if len(scores) > 1 else float("nan"),
            "n": len(scores),
            "values": significance.format_samples(scores),
        }
        for row, scores in rows.items()
    ]
    nan = float("nan")
    frame = pd.DataFrame(lines).assign(
        paper="toy",
        target="table1",
        seeds=seeds,
        diverged=0,
        difference=nan,
        published_mean=nan,
        published_std=nan,
        verdict="",
        scale="paper",
        variant="paper",
        data="",
        data_state="",
    )
    table = Table(**{**vars(TABLE), "test": test})
    return arrange(frame, table, COLUMN, PAPER, origin=MADE)


def marked(grid: Grid) -> dict[str, str]:
    """Return "bold", "underlined" or nothing for each row."""
    return {
        label: "bold" if cell.best else "underlined" if cell.close else "" for label, (cell,) in grid.rows
    }


def test_what_is_not_significantly_worse_is_underlined_and_nothing_else() -> None:
    grid = grid_of(samples(fedavg=BEST, fedprox=CLOSE, scaffold=WORSE))
    assert marked(grid) == {"FedAvg": "bold", "FedProx": "underlined", "SCAFFOLD": ""}
    assert "<u>91.20</u>" in render.markdown(grid)
    assert "<u>91.20</u>" in render.html(grid)
    assert r"\underline{91.20}" in render.latex(grid)
    for form in (render.markdown, render.html):
        assert form(grid).count("<u>") == 1
    assert "paired t-test over 5 pairs of runs" in grid.caption.text


def test_p_values_are_those_of_the_paired_test_times_holms_factor() -> None:
    comparison = compare(samples(a=BEST, b=CLOSE, c=WORSE), "largest", "t")
    assert comparison.best == "a"
    assert comparison.p["b"] == pytest.approx(stats.ttest_rel(CLOSE, BEST).pvalue)
    assert comparison.p["c"] == pytest.approx(2 * stats.ttest_rel(WORSE, BEST).pvalue)
    assert dict(comparison.pairs) == {"b": 5, "c": 5}
    assert comparison.why == ""


def test_the_smallest_mean_can_be_the_best() -> None:
    assert compare(samples(a=BEST, c=WORSE), "smallest", "t").best == "c"


def test_holms_correction_of_a_worked_example() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1), max_size=8))
def test_holms_correction_lies_between_none_and_bonferronis(p: dict[str, float]) -> None:
    corrected = holm(p)
    assert list(corrected) == list(p)
    for row, value in p.items():
        assert value <= corrected[row] <= min(1.0, len(p) * value)
    in_order = sorted(p, key=lambda row: p[row])
    assert [corrected[row] for row in in_order] == sorted(corrected.values())


@given(st.lists(st.tuples(*[st.floats(0, 100, width=16)] * 2), min_size=5, max_size=8))
def test_order_of_rows_and_runs_does_not_count(pairs: list[tuple[float, float]]) -> None:
    first, second = (list(values) for values in zip(*pairs, strict=True))
    comparison = compare(samples(a=first, b=second), "largest", "t")
    turned = compare(samples(b=second[::-1], a=first[::-1]), "largest", "t")
    assert sorted(comparison.p.values()) == pytest.approx(sorted(turned.p.values()))


def test_one_seed_is_not_tested_and_the_caption_says_so() -> None:
    grid = grid_of(samples(fedavg=[90.0], fedprox=[89.99]), seeds=1)
    assert marked(grid) == {"FedAvg": "bold", "FedProx": ""}
    assert "One seed (0), so no spread is given." in grid.caption.text
    assert "No test of significance: fewer than five pairs of runs." in grid.caption.text
    assert "Underlined" not in grid.caption.text


@pytest.mark.parametrize("test", ["t", "wilcoxon"])
@pytest.mark.parametrize("pairs", [2, 3, 4])
def test_fewer_than_five_pairs_are_not_tested_and_the_caption_says_so(pairs: int, test: Test) -> None:
    """Also where the difference is large and the same sign throughout, and the seeds are more."""
    rows = samples(fedavg=BEST[:pairs], fedprox=CLOSE[:pairs], scaffold=WORSE[:pairs])
    grid = grid_of(rows, test, seeds=pairs)
    assert "underlined" not in marked(grid).values()
    assert "No test of significance: fewer than five pairs of runs." in grid.caption.text
    assert not any("p =" in cell.remark for _, (cell,) in grid.rows)
    assert "nderlined" not in grid.caption.text


def test_runs_of_other_partitions_are_no_pairs() -> None:
    rows = samples(a=BEST, b=CLOSE)
    rows["b"] = {pair.replace("mnist", "usps"): value for pair, value in rows["b"].items()}
    comparison = compare(rows, "largest", "t")
    assert (dict(comparison.p), comparison.why) == ({}, significance.FEW_PAIRS)


def test_equal_methods_are_both_bold_without_a_test() -> None:
    grid = grid_of(samples(fedavg=BEST, fedprox=BEST, scaffold=WORSE))
    assert marked(grid) == {"FedAvg": "bold", "FedProx": "bold", "SCAFFOLD": ""}
    tie = compare(samples(fedavg=BEST, fedprox=BEST), "largest", "t")
    assert tie == Comparison("fedavg", untested={"fedprox": significance.LEVEL}, why=significance.LEVEL)
    assert "1 cell whose differences from the best are the same in all runs" in grid.caption.text


def test_a_constant_lag_is_not_underlined() -> None:
    lag = [value - 0.1 for value in BEST]
    grid = grid_of(samples(fedavg=BEST, fedprox=lag))
    assert marked(grid) == {"FedAvg": "bold", "FedProx": ""}


def test_the_signed_rank_test_runs_only_where_it_could_find_something() -> None:
    few = compare(samples(a=BEST, b=CLOSE), "largest", "wilcoxon")
    assert (dict(few.p), few.why) == ({}, "5 pairs of runs, too few to reach p < 0.05")
    lags = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    many = compare(samples(a=[90.0] * 6, b=[90.0 - lag for lag in lags]), "largest", "wilcoxon")
    assert many.p["b"] == pytest.approx(2 / 2**6)


@pytest.mark.parametrize("test", ["t", "wilcoxon"])
def test_a_caption_never_names_a_method_without_runs(test: Test) -> None:
    grid = grid_of({**samples(fedprox=BEST, feddane=CLOSE), "fedavg": {}, "scaffold": {}}, test)
    caption = grid.caption.text
    assert not [name for name in ("FedAvg", "SCAFFOLD") if name in caption]
    assert caption.startswith("Table I, in part (%)")
    assert "Folds are by client." in caption
    assert "Accuracy of FedAvg and others" in grid_of(samples(fedavg=BEST, fedprox=CLOSE)).caption.text


def test_labels_inside_longer_labels_are_not_taken_for_them() -> None:
    assert captions.naming_only_what_ran("rFedAvg+ alone.", ["rFedAvg", "FedAvg"]) == "rFedAvg+ alone."
    assert captions.naming_only_what_ran("So does rFedAvg.", ["rFedAvg"]) == ""


def test_no_test_asked_for_is_not_excused() -> None:
    caption = grid_of(samples(fedavg=BEST, fedprox=CLOSE), "none").caption.text
    assert "Bold: largest mean of the column." in caption
    assert "significan" not in caption


def test_the_caption_names_commit_and_newest_run() -> None:
    assert grid_of(samples(fedavg=BEST)).caption.text.endswith(MADE)


def test_written_numbers_are_read_again() -> None:
    numbers = {"mnist-a=1/seed0": 0.125, "mnist-a=1/seed0#1": 99.5}
    assert significance.parse_samples(significance.format_samples(numbers)) == numbers
    assert significance.parse_samples(float("nan")) == {}


def test_only_complete_cells_compete_by_the_columns_own_rules() -> None:
    lines = [
        ("a", "x", 5, 5, BEST),
        ("b", "x", 5, 5, WORSE),
        ("c", "x", 5, 6, [99.0, 99.0, 99.5, 99.1, 99.2]),
        ("d", "x", 0, 0, []),
        ("a", "y", 5, 5, BEST),
        ("b", "y", 5, 5, WORSE),
        ("a", "z", 5, 5, BEST),
        ("b", "z", 5, 5, WORSE),
    ]
    frame = pd.DataFrame(
        [
            {
                "row": row,
                "column": column,
                "n": n,
                "seeds": seeds,
                "values": significance.format_samples(samples(r=scores)["r"]),
            }
            for row, column, n, seeds, scores in lines
        ]
    )
    columns = (Column("x", "X"), Column("y", "Y", best="smallest"), Column("z", "Z", test="none"))
    comparisons = compared_in(frame, TABLE, columns)
    assert {key: comparison.best for key, comparison in comparisons.items()} == {"x": "a", "y": "b", "z": "a"}
    assert set(comparisons["x"].p) == {"b"}
    assert (dict(comparisons["z"].p), comparisons["z"].why) == ({}, significance.UNASKED)
    p = significance.with_p(frame, comparisons)["p_best"]
    assert p.notna().tolist() == [False, True, False, False, True, False, False, False]
    assert p[1] == pytest.approx(stats.ttest_rel(WORSE, BEST).pvalue)
    assert significance.with_p(frame, {})["p_best"].isna().all()
    assert compared_in(frame, TABLE, (Column("w", "W"),))["w"] == Comparison()


def test_nothing_is_compared_where_nothing_is_best() -> None:
    assert compare(samples(a=BEST, b=WORSE), "none", "t") == Comparison()
    assert compare({}, "largest", "t") == Comparison()
    assert compare(samples(a=BEST), "largest", "t") == Comparison("a", why=significance.ALONE)
    assert compare(samples(a=BEST, b=BEST), "largest", "none") == Comparison("a")


def test_differences_are_those_of_shared_pairs_only() -> None:
    """Pairs 1 to 5 are shared; without rounding their differences would not be level."""
    best = {f"p{k}": 0.1 * k + 0.5 for k in range(6)}
    comparison = compare({"a": best, "b": {f"p{k}": 0.1 * k + 0.2 for k in range(1, 7)}}, "largest", "t")
    assert (comparison.best, dict(comparison.untested)) == ("a", {"b": significance.LEVEL})
    five = compare(samples(a=BEST, b=[*WORSE, 200.0]), "smallest", "t")
    assert dict(five.pairs) == {"b": 5}
    assert five.p["b"] == pytest.approx(stats.ttest_rel(WORSE, BEST).pvalue)
    four = compare(samples(a=BEST[:4], b=WORSE), "largest", "t")
    assert (dict(four.p), dict(four.untested)) == ({}, {"b": significance.FEW_PAIRS})
    small = compare(samples(a=[7e-6, 8e-6, 7e-6, 8e-6, 7e-6], b=[0.0] * 5), "largest", "t")
    assert small.p["b"] < 0.05, "rounding takes errors of arithmetic away, no small numbers"


def test_no_corrected_p_value_is_above_one() -> None:
    assert holm({"a": 0.9, "b": 0.6, "c": 0.7}) == {"a": 1.0, "b": 1.0, "c": 1.0}


def test_each_method_that_is_not_tested_has_its_own_reason() -> None:
    comparison = compare(samples(a=BEST, b=CLOSE, c=[value - 1 for value in BEST]), "largest", "wilcoxon")
    assert dict(comparison.untested) == {
        "b": "5 pairs of runs, too few to reach p < 0.05",
        "c": significance.LEVEL,
    }


def test_the_signed_rank_test_counts_pairs_that_differ_and_methods() -> None:
    """Six pairs reach 2 / 2^6 < .05 for one method; for two it takes 2 * 2 / 2^n: seven."""
    lags = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    six = {"a": [90.0] * 6, "b": [90.0 - lag for lag in lags], "c": [80.0 - lag for lag in lags]}
    assert compare(samples(**six), "largest", "wilcoxon").why.startswith("6 pairs of runs, too few")
    seven = {row: [*scores, 90.0 - 7 * (row != "a")] for row, scores in six.items()}
    assert set(compare(samples(**seven), "largest", "wilcoxon").p) == {"b", "c"}
    tied = compare(samples(a=[90.0] * 6, b=[90.0, *(90.0 - lag for lag in lags[1:])]), "largest", "wilcoxon")
    assert tied.why == "6 pairs of runs, too few to reach p < 0.05"
    uneven = compare(
        samples(a=[90.0] * 7, b=[90.0 - lag for lag in lags], c=[86.0, 84, 83, 82, 81]), "largest", "wilcoxon"
    )
    assert uneven.why.startswith("6 pairs of runs")


@pytest.mark.parametrize("margin", [0.3, 0.5, 2.0])
def test_equivalence_is_as_scipy_s_interval_has_it(margin: float) -> None:
    """Two one-sided tests at 5% reject where the 90% interval lies within the margin."""
    apart = np.array([0.1, -0.3, 0.25, 0.4, -0.1, 0.2])
    interval = stats.ttest_1samp(apart, 0.0).confidence_interval(0.9)
    inside = -margin < interval.low and interval.high < margin
    assert (significance.within(apart, margin) < significance.ALPHA) == inside
    assert significance.within(apart, margin) == pytest.approx(significance.within(-apart, margin))


def test_equal_differences_are_equivalent_where_they_are_smaller_than_the_margin() -> None:
    assert significance.within(np.full(5, 0.2), 0.5) == 0.0
    assert significance.within(np.full(5, 0.5), 0.5) == 1.0


def test_equivalence_needs_five_pairs_and_is_corrected() -> None:
    tested = significance.equivalent(samples(base=BEST, close=CLOSE, worse=WORSE, few=BEST[:4]), "base", 3.0)
    assert set(tested) == {"close", "worse"}
    alone = significance.equivalent(samples(base=BEST, close=CLOSE), "base", 3.0)["close"]
    assert tested["close"][0] == alone[0]
    assert tested["close"][1] == pytest.approx(2 * alone[1])
    assert tested["worse"][1] > 0.99
