"""Rank summaries from a table's lines to the numbers written, and to what the caption says of the tests."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

import pandas as pd
import pytest

from pipeline.catalogue.targets import Column, Query
from pipeline.reports import ranks
from pipeline.reports.ranks import critical_difference, ranking, scores_of, summary
from pipeline.reports.tables import Table

NAN = math.nan
TABLE = Table(
    title="Accuracy",
    published="Table I",
    columns=lambda params: tuple(Column(name, name) for name in ("x", "y", "average")),
    rows=lambda params: {"a": "Method A", "b": "Method B", "c": "Method C"},
    query=lambda row, column: Query("regime", "mnist", column, row),
)


def lines(*cells: tuple[str, str, float, int, int]) -> pd.DataFrame:
    return pd.DataFrame(list(cells), columns=["row", "column", "mean", "n", "seeds"])


def drawn(
    monkeypatch: pytest.MonkeyPatch, frame: pd.DataFrame, table: Table = TABLE, **about: Any
) -> tuple[pd.DataFrame, list[str]]:
    """Return the numbers and the sentences of a rank summary of a table's lines."""
    inputs: Any = SimpleNamespace(params="params", cells={}, marked=())

    def lines_of(paper: str, target: str, measured: Table, cells: Any, published: Any) -> pd.DataFrame:
        assert (paper, target, measured.finish, cells, published) == ("", "", None, {}, None)
        return frame

    monkeypatch.setattr(ranks, "tidy", lines_of)
    numbers, figure, caption = summary(table, **about).draw(inputs)
    assert len(figure.axes) == 1
    return numbers, [*caption]


def test_only_complete_cells_have_a_score_and_the_order_stays() -> None:
    frame = lines(
        ("b", "y", 1.0, 2, 2), ("b", "x", 2.0, 1, 2), ("a", "y", 3.0, 3, 2), ("a", "x", 4.0, 0, 0)
    )  # fmt: skip
    scores = scores_of(frame)
    assert (list(scores.index), list(scores.columns)) == (["b", "a"], ["y", "x"])
    assert scores.loc["b", "y"] == 1.0
    assert scores.isna().to_numpy().tolist() == [[False, True], [True, True]]


def test_what_is_ranked_is_the_tables_without_columns_that_are_no_data_sets() -> None:
    queries = summary(TABLE, without=("average",)).queries(None)  # type: ignore[arg-type]
    assert set(queries) == {(row, column) for row in "abc" for column in "xy"}
    assert queries["b", "y"] == TABLE.cells(None)["b", "y"]  # type: ignore[arg-type]
    assert summary(TABLE, title="Ours").title == "Ours"
    assert summary(TABLE).published == "Table I"
    assert "Table I" in summary(TABLE).title


def test_numbers_that_differ_by_rounding_alone_tie() -> None:
    scores = pd.DataFrame({"x": [0.3, 0.1 + 0.2, 0.3 + 1e-8], "y": [1.0, 2.0, 3.0]}, index=list("abc"))
    ranked = ranking(scores)
    assert ranked.ranks["x"].tolist() == [2.5, 2.5, 1.0]
    assert ranking(scores, largest=False).ranks["x"].tolist() == [1.5, 1.5, 3.0]


@pytest.mark.parametrize(
    ("sets", "methods", "why"),
    [
        (0, 3, "no data sets with all runs of all methods, fewer than five"),
        (1, 3, "1 data set with all runs of all methods, fewer than five"),
        (4, 2, "4 data sets with all runs of all methods, fewer than five"),
        (5, 2, "2 methods, Friedman's test needs three"),
        (5, 3, ""),
    ],
)
def test_why_no_test_could_run(sets: int, methods: int, why: str) -> None:
    scores = pd.DataFrame(
        {k: [float(m + k) for m in range(methods)] for k in range(sets)}, index=range(methods)
    )
    ranked = ranking(scores)
    assert ranked.why == ranking(scores, runs=5).why == why
    assert math.isnan(ranked.statistic) == math.isnan(ranked.p) == math.isnan(ranked.difference) == bool(why)
    if not why:
        assert ranking(scores, runs=4).why == "fewer than five runs per cell"


def test_p_is_iman_and_davenports_even_at_the_ends() -> None:
    """The same order everywhere gives p = 0; no order at all gives p = 1."""
    same = ranking(pd.DataFrame([[3.0] * 5, [2.0] * 5, [1.0] * 5]))
    assert same.statistic == pytest.approx(10)
    assert same.p == 0
    none = ranking(pd.DataFrame([[1.0, 2, 3] * 2, [2.0, 3, 1] * 2, [3.0, 1, 2] * 2]))
    assert (none.statistic, none.p) == pytest.approx((0, 1))
    equal = ranking(pd.DataFrame([[1.0, 2, 3, 4, 5]] * 3))
    assert equal.why == "all methods are equal on every data set"
    assert math.isnan(equal.statistic)


def test_neighbours_exactly_one_difference_apart_are_told_apart() -> None:
    scores = pd.DataFrame([[5.0] * 6, [4.0] * 6, [3.0] * 6, [2.0] * 6, [1.0] * 6], index=list("abcde"))
    ranked = ranking(scores)
    for difference, groups in (
        (1.0, []),
        (1.5, [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]),
        (2.0, [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]),
        (2.5, [("a", "b", "c"), ("b", "c", "d"), ("c", "d", "e")]),
        (9.0, [("a", "b", "c", "d", "e")]),
    ):
        shown = ranks.Ranking(ranked.ranks, ranked.statistic, ranked.p, difference)
        assert shown.groups() == groups


def test_the_critical_difference_shrinks_with_sets() -> None:
    assert critical_difference(5, 40) == pytest.approx(critical_difference(5, 10) / 2)
    assert critical_difference(3, 4) == pytest.approx(2.3437 * math.sqrt(0.5), abs=1e-3)


def test_the_numbers_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks 1 2 3, 2 1 2 and 3 3 1 on three data sets, and once more on three others."""
    scores = {"a": (9.0, 8.0, 5.0), "b": (8.0, 9.0, 6.0), "c": (7.0, 7.0, 7.0)}
    frame = lines(
        *(
            (row, column, score, 5, 5)
            for row, values in scores.items()
            for column, score in zip("uvwxyz", values * 2, strict=True)
        )
    )
    numbers, caption = drawn(monkeypatch, frame)
    ranked = ranking(scores_of(frame))
    means = numbers[numbers["column"] == "mean_rank"].set_index("row")
    assert means["mean"].to_dict() == {"a": 2.0, "b": pytest.approx(5 / 3), "c": pytest.approx(7 / 3)}
    assert list(means.index) == ["b", "a", "c"]
    assert means["std"].to_dict() == pytest.approx(
        {"a": 0.8**0.5, "b": (4 / 15) ** 0.5, "c": (16 / 15) ** 0.5}
    )
    assert set(means["n"]) == {6}
    tests = means[["friedman", "p", "critical_difference"]].drop_duplicates()
    assert tests.to_numpy().tolist() == [pytest.approx([ranked.statistic, ranked.p, ranked.difference])]
    cells = numbers[numbers["column"] != "mean_rank"]
    assert [(line["row"], line["column"], line["mean"], line["n"]) for line in cells.to_dict("records")] == [
        (row, f"rank-{column}", ranked.ranks.loc[row, column], 5) for row in "bac" for column in "uvwxyz"
    ]
    assert cells[["std", "friedman", "p", "critical_difference"]].isna().all(axis=None)
    text = " ".join(caption)
    assert text.startswith("3 methods on 6 data sets, by means over 5 runs per cell. Friedman's test: ")
    assert f"chi-squared {ranked.statistic:.2f}, p = {ranked.p:.2g} (Iman and Davenport)" in text
    assert "critical difference at 5%" in text
    assert "do not differ significantly" in text
    assert "With 6 data sets the tests are approximate" in text
    assert "left out" not in text


def test_what_is_left_out_and_how_many_runs_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    order = {"a": 3.0, "b": 2.0, "c": 1.0}
    complete = [
        (row, f"s{k}", score, runs, runs)
        for k, runs in enumerate((5, 7, 6) * 4)
        for row, score in order.items()
    ]
    short = [("a", "t", 1.0, 5, 6), ("b", "t", 1.0, 6, 6), ("c", "t", 1.0, 6, 6)]
    _, caption = drawn(monkeypatch, lines(*complete, *short))
    text = " ".join(caption)
    assert text.startswith(
        "3 methods on 12 data sets, by means over 5 to 7 runs per cell. 1 more left out, as a "
    )
    assert "Friedman's test" in text
    assert "approximate" not in text
    assert "significantly" not in text
    _, caption = drawn(monkeypatch, lines(*(cell for cell in complete if int(cell[1][1:]) < 10)))
    assert any("With 10 data sets" in sentence for sentence in caption)


def test_a_p_value_just_above_five_per_cent_tells_no_pair_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of six data sets has the others' order turned round, which gives .053."""
    signs, order = (1, 1, 1, 1, 1, -1), {"a": 3.0, "b": 2.0, "c": 1.0}
    cells = ((row, f"s{k}", sign * x, 5, 5) for k, sign in enumerate(signs) for row, x in order.items())
    _, caption = drawn(monkeypatch, lines(*cells))
    assert any("p = 0.053" in sentence for sentence in caption)
    assert any("do not differ significantly" in sentence for sentence in caption)


def test_what_is_said_where_no_test_could_run(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, caption = drawn(monkeypatch, lines(*((row, "x", 1.0, 6, 6) for row in "abc")))
    assert caption == [
        "3 methods on 1 data set, by means over 6 runs per cell.",
        "No test of significance: 1 data set with all runs of all methods, fewer than five.",
    ]
    assert numbers["std"].isna().all()
    assert numbers["n"].tolist() == [1, 1, 1, 6, 6, 6]
    numbers, caption = drawn(monkeypatch, lines(*((row, "x", 1.0, 0, 2) for row in "abc")))
    assert caption == ["No test of significance: no data sets with all runs of all methods, fewer than five."]
    assert numbers["mean"].isna().all()
    _, caption = drawn(monkeypatch, lines(("a", "x", 1.0, 6, 6)))
    assert caption[0] == "1 method on 1 data set, by means over 6 runs per cell."
    for runs, count in ((1, "1 run"), (4, "4 runs")):
        few = lines(
            *(
                (row, column, score, runs, runs)
                for row, score in (("a", 1.0), ("b", 2.0), ("c", 3.0))
                for column in "uvwxyz"
            )
        )
        numbers, caption = drawn(monkeypatch, few)
        assert caption == [
            f"3 methods on 6 data sets, by means over {count} per cell.",
            "No test of significance: fewer than five runs per cell.",
        ]
        assert numbers["p"].isna().all()
        assert numbers.loc[numbers["column"] == "mean_rank", "mean"].tolist() == [1.0, 2.0, 3.0]


def test_settings_of_one_data_set_are_ranked_and_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    order = {"a": 3.0, "b": 2.0, "c": 1.0}
    frame = lines(*((row, column, score, 5, 5) for row, score in order.items() for column in "uvwxyz"))
    datasets = dict.fromkeys("uvwxy", "one") | {"z": "other"}
    numbers, caption = drawn(monkeypatch, frame, dataset=datasets)
    assert caption[0] == "3 methods on 6 settings, by means over 5 runs per cell."
    assert caption[1].startswith("No test of significance: 2 data sets with all runs of all methods")
    several = {column: f"set {place}" for place, column in enumerate("uvwxy")} | {"z": "set 0"}
    _, caption = drawn(monkeypatch, frame, dataset=several)
    assert caption[1] == "No test of significance: settings of one data set are not independent."
    _, caption = drawn(monkeypatch, frame, dataset={column: column for column in "uvwxyz"})
    assert caption[1].startswith("Friedman's test")
    assert numbers["p"].isna().all()


def test_the_picture_has_a_line_for_every_other_method_and_the_rows_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []

    def rows(params: Any) -> dict[str, str]:
        seen.append(params)
        return {"a": "Method A"}

    named = replace(TABLE, rows=rows)
    assert summary(named).rows is named.rows
    heights = []
    for methods in ("abc", "abcd", "abcde"):
        frame = lines(*((row, "x", score, 5, 5) for score, row in enumerate(methods, 1)))
        monkeypatch.setattr(ranks, "tidy", lambda *_, frame=frame: frame)
        inputs: Any = SimpleNamespace(params="params", cells={}, marked=())
        figure = summary(named).draw(inputs)[1]
        heights.append(figure.get_size_inches()[1])
        assert any("Method A" in text.get_text() for text in figure.axes[0].texts)
    assert seen == ["params"] * 3
    assert heights == pytest.approx([2.1, 2.1, 2.3])
    inputs = SimpleNamespace(params="params", cells={}, marked=())
    figure = summary(replace(TABLE, rows=lambda params: {})).draw(inputs)[1]
    assert not any("Method A" in text.get_text() for text in figure.axes[0].texts)


def test_small_means_lead_where_the_table_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = lines(
        *(
            (row, column, score, 1, 1)
            for row, score in (("a", 1.0), ("b", 2.0), ("c", 3.0))
            for column in "xy"
        )
    )
    orders: tuple[tuple[Literal["smallest", "largest", "none"], str], ...]
    orders = (("smallest", "abc"), ("largest", "cba"), ("none", "cba"))
    for best, order in orders:
        numbers, _ = drawn(monkeypatch, frame, replace(TABLE, best=best))
        assert "".join(numbers.loc[numbers["column"] == "mean_rank", "row"]) == order
