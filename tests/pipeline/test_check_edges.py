"""Each check of a claim exactly at its edge, a rounding error past it, and clearly past it."""

from __future__ import annotations

from typing import Any

import pytest

from fedcore.base.errors import SpecError
from fedcore.base.options import validate
from pipeline.claims.checks import CHECKS, Check, Means

ERROR, PAST = 5e-10, 5e-9


def check(kind: str, **keys: Any) -> Check:
    return validate(CHECKS[kind], {"kind": kind, "columns": "x", **keys}, "check")


def holds(one: Check, means: Means) -> bool | None:
    return one.judge(means, tuple(dict.fromkeys(row for row, _ in means))).holds


def cells(**rows: float | tuple[float, ...]) -> dict[tuple[str, str], float]:
    """Return means of rows in the columns x, y, z, ..."""
    return {
        (row, column): value
        for row, values in rows.items()
        for column, value in zip("xyzuvw", values if isinstance(values, tuple) else (values,), strict=False)
    }


EDGES: list[tuple[str, dict[str, Any], dict[str, Any], str, float]] = [
    # kind, keys, means at the edge, the row that moves, and the direction in which the check fails
    ("beats", {"row": "a", "over": "b", "by_at_least": 2}, {"a": 7.0, "b": 5.0}, "a", -1),
    ("best", {"rows": "a"}, {"a": 5.0, "b": 5.0, "c": 4.0}, "a", -1),
    ("best", {"rows": "a", "smallest": True}, {"a": 5.0, "b": 5.0, "c": 6.0}, "a", 1),
    ("best", {"rows": "a", "against": "b", "base": 4}, {"a": 4.0, "b": 3.0}, "a", -1),
    ("best", {"rows": "a", "against": "b", "base": 4, "smallest": True}, {"a": 4.0, "b": 5.0}, "a", 1),
    ("between", {"row": "a", "minus": "b", "at_least": 1, "at_most": 3}, {"a": 7.0, "b": 4.0}, "a", 1),
    ("between", {"row": "a", "minus": "b", "at_least": 1, "at_most": 3}, {"a": 5.0, "b": 4.0}, "a", -1),
    ("between", {"row": "a", "over": "b", "at_least": 1.5, "at_most": 2.5}, {"a": 2.5, "b": 1.0}, "a", 1),
    ("between", {"row": "a", "over": "b", "at_least": 1.5, "at_most": 2.5}, {"a": 1.5, "b": 1.0}, "a", -1),
    ("close", {"rows": ["a", "b", "c"], "within": 2}, {"a": 5.0, "b": 4.0, "c": 3.0}, "a", 1),
    ("close", {"rows": ["a", "b"], "within": 2, "base": 6}, {"a": 5.0, "b": 4.0}, "b", -1),
    ("between", {"row": "a", "at_least": 2, "at_most": 3}, {"a": 2.0}, "a", -1),
    ("between", {"row": "a", "at_least": 2, "at_most": 3}, {"a": 3.0}, "a", 1),
    ("between", {"row": "a", "at_least": 2}, {"a": 2.0}, "a", -1),
    ("between", {"row": "a", "at_most": 3}, {"a": 3.0}, "a", 1),
]


@pytest.mark.parametrize(("kind", "keys", "means", "row", "way"), EDGES)
def test_an_edge_belongs_to_the_check_and_rounding_is_forgiven(
    kind: str, keys: dict[str, Any], means: dict[str, Any], row: str, way: float
) -> None:
    tested = check(kind, **keys)
    for moved, expected in ((0.0, True), (way * ERROR, True), (way * PAST, False), (-way * 0.1, True)):
        assert holds(tested, cells(**{**means, row: means[row] + moved})) is expected, moved


STRICT: list[tuple[str, dict[str, Any], dict[str, Any], str, float]] = [
    ("beats", {"row": "a", "over": "b"}, {"a": 5.0, "b": 5.0}, "a", 1),
    ("falls", {"rows": "a", "columns": ["x", "y"]}, {"a": (5.0, 5.0)}, "a", 1),
    ("gain_largest_in", {"row": "a", "than": "y"}, {"a": (5.0, 5.0)}, "a", 1),
]


@pytest.mark.parametrize(("kind", "keys", "means", "row", "way"), STRICT)
def test_a_strict_check_wants_more_than_rounding(
    kind: str, keys: dict[str, Any], means: dict[str, Any], row: str, way: float
) -> None:
    tested = check(kind, **keys)
    for moved, expected in ((0.0, False), (way * ERROR, False), (way * PAST, True)):
        at = means[row]
        changed = (at[0] + moved, *at[1:]) if isinstance(at, tuple) else at + moved
        assert holds(tested, cells(**{**means, row: changed})) is expected, moved


def test_trends_by_hand() -> None:
    columns = ["x", "y", "z"]
    rises = check("rises", rows="a", columns=columns, by_at_least=2)
    for values, expected in (
        ((1.0, 2.0, 3.0), True),
        ((1.0, 2.0, 2.9), False),
        ((1.0, 0.9, 3.5), False),
        ((1.0, 1.0, 3.5), False),
        ((3.0, 2.0, 1.0), False),
    ):
        assert holds(rises, cells(a=values)) is expected
    ends = check("falls", rows="a", columns=["x", "z"])
    assert holds(ends, cells(a=(3.0, 9.0, 2.0))) is True
    assert holds(ends, cells(a=(3.0, 1.0, 3.0))) is False
    of_changes = check("rises", rows="a", columns=["x", "y"], changes_from="base")
    assert of_changes.needs("a", ()) == (("a", "x"), ("a", "y"), ("base", "x"), ("base", "y"))
    assert holds(of_changes, cells(a=(10.0, -10.0), base=(50.0, 62.0))) is True, "55 rises to 55.8"
    assert holds(of_changes, cells(a=(10.0, -10.0), base=(50.0, 61.0))) is False, "55 falls to 54.9"
    of_base = check("rises", rows="base", columns=["x", "y"], changes_from="base")
    assert holds(of_base, cells(base=(50.0, 61.0))) is True


def test_gains_by_hand() -> None:
    """Gains are 5 and 6 points, and 10% of 50 and 8% of 75."""
    means, percent = cells(a=(55.0, 81.0), b=(50.0, 75.0)), {"row": "a", "over": "b", "in_percent": True}
    assert holds(check("gain_largest_in", row="a", over="b", than="y"), means) is False
    assert holds(check("gain_largest_in", **percent, than="y"), means) is True
    second = check("gain_largest_in", **percent, columns="y", than="x")
    assert holds(second, means) is False
    assert set(second.needs("y", ())) == {("a", "y"), ("a", "x"), ("b", "y"), ("b", "x")}
    negative = cells(a=(-45.0, -77.0), b=(-50.0, -75.0))
    assert holds(check("gain_largest_in", **percent, than="y"), negative) is True
    assert holds(check("gain_largest_in", **percent, than="y"), cells(a=(1.0, 2.0), b=(0.0, 1.0))) is True


def test_best_of_rows_against_all_others_or_those_listed() -> None:
    means = cells(a=5.0, b=7.0, c=6.0)
    assert holds(check("best", rows="c"), means) is False
    assert holds(check("best", rows="c", against="a"), means) is True
    assert holds(check("best", rows=["a", "b"]), means) is True
    assert holds(check("best", rows=["b", "a", "c"]), means) is True, "alone"
    assert check("best", rows="c").needs("x", ("a", "b", "c")) == (("c", "x"), ("a", "x"), ("b", "x"))
    assert check("best", rows="c", against="a").needs("x", ("a", "b")) == (("c", "x"), ("a", "x"))
    for tested, named in (
        (check("beats", row="a", over=["b", "c"]), ("a", "b", "c")),
        (check("best", rows="a", against="b"), ("a", "b")),
        (check("between", row="a", over="b", minus="c", at_least=1), ("a", "c", "b")),
        (check("between", row="a", over_column="y", at_least=1), ("a",)),
        (check("gain_largest_in", row="a", over="b", than="y"), ("a", "b")),
        (check("gain_largest_in", row="a", than="y"), ("a",)),
    ):
        assert tested.named() == named


def test_the_worst_of_the_winners_meets_the_best_of_the_beaten() -> None:
    beats = check("beats", row=["a", "b"], over=["c", "d"])
    assert holds(beats, cells(a=9.0, b=5.0, c=4.0, d=4.5)) is True
    assert holds(beats, cells(a=9.0, b=5.0, c=4.0, d=5.5)) is False
    assert "x b 5 against d 5.5" in beats.judge(cells(a=9.0, b=5.0, c=4.0, d=5.5), ()).detail


@pytest.mark.parametrize(
    ("share", "true", "false", "expected"),
    [
        (1.0, 4, 0, True),
        (1.0, 3, 1, False),
        (1.0, 3, 0, None),
        (0.5, 2, 0, True),
        (0.5, 1, 1, None),
        (0.5, 1, 2, None),
        (0.5, 1, 3, False),
        (0.5, 0, 3, False),
        (0.75, 0, 1, None),
        (0.75, 0, 2, False),
        (0.3, 1, 2, None),
        (0.3, 2, 2, True),
    ],
)
def test_parts_without_numbers_leave_a_check_open_unless_they_cannot_matter(
    share: float, true: int, false: int, expected: bool | None
) -> None:
    between = check("between", row="a", at_least=0, columns=list("xyzu"), in_share=share)
    means = cells(a=tuple([1.0] * true + [-1.0] * false))
    judgement = between.judge(means, ("a",))
    assert judgement.holds is expected
    known = true + false
    assert judgement.detail.startswith(
        f"true in {true} of 4" + (f" ({4 - known} without a number)" if known < 4 else "")
    )
    assert (f"asked for {share:.0%}" in judgement.detail) == (share < 1)
    assert ("not where " in judgement.detail) == bool(false)


def test_a_detail_shows_six_parts_at_most_and_those_that_fail_first() -> None:
    six = check("between", row="a", at_least=0, columns=list("xyzuvw"))
    assert six.judge(cells(a=(1.0,) * 6), ("a",)).detail.count(";") == 5
    assert six.judge(cells(a=(1.0, -2.0, 1.0, -3.0, 1.0, 1.0)), ("a",)).detail.endswith(
        "not where y -2; u -3"
    )
    seven = check("between", row="a", at_least=0, columns=[f"c{k}" for k in range(7)])
    shown = seven.judge({("a", f"c{k}"): 1.0 for k in range(7)}, ("a",)).detail
    assert shown.endswith("c5 1; ...")


def test_names_may_be_one_or_many_and_whole_numbers() -> None:
    close = check("close", rows=[1, "b"], columns=10, within=1)
    assert (close.named(), close.columns) == (("1", "b"), ("10",))
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"rows": []}, "rows"),
        ({"rows": ["a", "b"], "columns": []}, "columns"),
        ({"rows": ["a", "b"], "in_share": 0}, "in_share"),
    )
    for keys, key in wrong:
        with pytest.raises(SpecError, match=rf"check\.{key}: got"):
            check("close", **{"within": 1, **keys})
    with pytest.raises(SpecError, match="neither at_least nor at_most is given"):
        check("between", row="a")


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"over": "b"}, "x +1 against y -2"),
        ({"over": "b", "in_percent": True}, "x +25 against y -50"),
        ({}, "x +5 against y +2"),
    ],
)
def test_the_gains_that_decide_are_told(keys: dict[str, Any], told: str) -> None:
    means = cells(a=(5.0, 2.0), b=(4.0, 4.0))
    assert check("gain_largest_in", row="a", than="y", **keys)._part("x", means) == (True, told)
