"""Agreement with published numbers: margins, confidence intervals and orderings, by hand-worked tables."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.agreement import interval, ordering, summary, within_interval, within_margin

NAN = math.nan


def table(*cells: tuple[str, str, float, float, int, float, float]) -> pd.DataFrame:
    names = ["row", "column", "mean", "std", "n", "published_mean", "published_std"]
    return pd.DataFrame(list(cells), columns=names).assign(paper="p", target="t")


def answers(series: pd.Series) -> list[bool | None]:
    return [None if pd.isna(answer) else bool(answer) for answer in series]


def test_the_margin_is_the_larger_of_a_point_and_two_deviations() -> None:
    frame = table(
        ("a", "x", 90.0, 0.1, 3, 91.0, 0.1),  # exactly one point
        ("b", "x", 90.0, 0.1, 3, 91.01, 0.1),
        ("c", "x", 90.0, 0.1, 3, 94.0, 2.0),  # exactly two deviations
        ("d", "x", 90.0, 0.1, 3, 94.1, 2.0),
        ("e", "x", 90.0, 0.1, 3, 90.9, NAN),
        ("f", "x", NAN, NAN, 0, 90.9, NAN),
        ("g", "x", 90.0, 0.1, 3, NAN, NAN),
    )
    assert answers(within_margin(frame)) == [True, False, True, False, True, None, None]
    assert answers(within_margin(frame, points=0.5, deviations=3)) == [
        False,
        False,
        True,
        True,
        False,
        None,
        None,
    ]


def test_the_interval_is_student_s() -> None:
    """Three runs: 4.302653 = t(.975, 2), so half the width is 4.302653 / sqrt(3) deviations."""
    frame = table(("a", "x", 90.0, 1.0, 3, 92.48, NAN), ("a", "y", 90.0, 1.0, 3, 92.49, NAN))
    bounds = interval(frame)
    assert bounds["high"].iloc[0] == pytest.approx(90 + 4.302652730 / math.sqrt(3), abs=1e-8)
    assert bounds["low"].iloc[0] == pytest.approx(90 - 4.302652730 / math.sqrt(3), abs=1e-8)
    assert answers(within_interval(frame)) == [True, False]
    assert answers(within_interval(frame, confidence=0.5)) == [False, False]


def test_one_run_has_no_interval() -> None:
    frame = table(("a", "x", 90.0, NAN, 1, 90.0, 0.1), ("b", "x", NAN, NAN, 0, 90.0, 0.1))
    assert interval(frame).isna().all(axis=None)
    assert answers(within_interval(frame)) == [None, None]


def test_runs_that_agree_exactly_have_a_point_as_interval() -> None:
    frame = table(("a", "x", 90.0, 0.0, 3, 90.0, NAN), ("a", "y", 90.0, 0.0, 3, 90.1, NAN))
    assert answers(within_interval(frame)) == [True, False]


def test_tau_counts_pairs_in_the_same_order() -> None:
    frame = table(
        *[(row, "same", mean, 0.1, 3, mean + 5, NAN) for row, mean in zip("abcd", (1, 2, 3, 4), strict=True)],
        *[(row, "turned", mean, 0.1, 3, -mean, NAN) for row, mean in zip("abcd", (1, 2, 3, 4), strict=True)],
        ("a", "one-swap", 1.0, 0.1, 3, 2.0, NAN),
        ("b", "one-swap", 2.0, 0.1, 3, 1.0, NAN),
        ("c", "one-swap", 3.0, 0.1, 3, 3.0, NAN),
    )
    found = ordering(frame).set_index("column")
    assert found.loc["same", "tau"] == pytest.approx(1)
    assert found.loc["turned", "tau"] == pytest.approx(-1)
    assert found.loc["one-swap", "tau"] == pytest.approx(1 / 3)
    assert list(found["methods"]) == [4, 4, 3]


def test_tau_with_ties_is_tau_b() -> None:
    """Two methods tie in print: 2 concordant pairs of 3, tau-b = 2 / sqrt(3 * 2)."""
    frame = table(
        ("a", "x", 1.0, 0.1, 3, 1.0, NAN),
        ("b", "x", 2.0, 0.1, 3, 2.0, NAN),
        ("c", "x", 3.0, 0.1, 3, 2.0, NAN),
    )
    assert ordering(frame)["tau"].iloc[0] == pytest.approx(2 / math.sqrt(6))


def test_tau_needs_two_different_methods() -> None:
    frame = table(
        ("a", "lone", 1.0, 0.1, 3, 1.0, NAN),
        ("b", "lone", NAN, NAN, 0, 2.0, NAN),
        ("a", "level", 1.0, 0.1, 3, 1.0, NAN),
        ("b", "level", 1.0, 0.1, 3, 2.0, NAN),
    )
    found = ordering(frame)
    assert found["tau"].isna().all()
    assert list(found["methods"]) == [1, 2]


@given(st.lists(st.floats(10, 90), min_size=2, max_size=6, unique=True), st.floats(0.1, 3), st.floats(-5, 5))
def test_tau_does_not_see_shift_or_scale(means: list[float], scale: float, shift: float) -> None:
    means = [round(mean, 3) for mean in means]
    lines = [(f"m{i}", "x", scale * mean + shift, 0.1, 3, mean, NAN) for i, mean in enumerate(means)]
    tau = ordering(table(*lines))["tau"].iloc[0]
    assert math.isnan(tau) == (len(set(means)) == 1)
    if len(set(means)) == len(means):
        assert tau == pytest.approx(1)


def test_summary_counts_what_can_be_asked() -> None:
    first = table(
        ("a", "x", 90.0, 1.0, 3, 90.5, 0.1),  # in both
        ("b", "x", 80.0, 0.1, 3, 80.8, 0.1),  # margin only: the interval is narrow
        ("a", "y", 70.0, 5.0, 3, 75.0, 0.1),  # interval only
        ("b", "y", 60.0, NAN, 1, 65.0, 0.1),  # neither asked nor near
        ("c", "x", NAN, NAN, 0, 50.0, 0.1),  # no run
        ("d", "x", 40.0, 0.1, 3, NAN, NAN),  # not published
    )
    second = table(("a", "x", NAN, NAN, 0, 1.0, NAN)).assign(target="u")
    found = summary(pd.concat([first, second], ignore_index=True)).set_index("target")
    t = found.loc["t"]
    assert (t["cells"], t["compared"]) == (5, 4)
    assert t["within_margin"] == pytest.approx(2 / 4)
    assert t["within_interval"] == pytest.approx(2 / 3)
    assert t["tau"] == pytest.approx(1)
    u = found.loc["u"]
    assert (u["cells"], u["compared"]) == (1, 0)
    assert math.isnan(u["within_margin"])
    assert math.isnan(u["tau"])
