"""Rank summaries: ranks, Friedman's test and Nemenyi's critical difference against known numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from project import parameters, seal
from scipy import stats

from fedcore.base.files import canonical_json, sha256_text
from pipeline.papers import build_catalogue
from pipeline.reports import style
from pipeline.reports.drawings import Drawing, Inputs
from pipeline.reports.ranks import Ranking, critical_difference, diagram, ranking, scores_of
from pipeline.reports.results import read


def frame(scores: dict[str, list[float]] | dict[str, list[int]]) -> pd.DataFrame:
    return pd.DataFrame(scores).T


def test_a_worked_example() -> None:
    """Ranks 1 2 3, 1 2 3, 2 1 3, twice 1.5 1.5 3: sums 7, 8, 15 about 10; squares about 2: 2 or 1.5."""
    scores = frame({"a": [9, 9, 8, 7, 7], "b": [8, 8, 9, 7, 7], "c": [7, 7, 7, 6, 6]})
    ranked = ranking(scores)
    assert ranked.means.to_dict() == {"a": 1.4, "b": 1.6, "c": 3.0}
    assert ranked.statistic == pytest.approx(2 * (3**2 + 2**2 + 5**2) / (3 * 2 + 2 * 1.5))
    f = 4 * ranked.statistic / (10 - ranked.statistic)
    assert ranked.p == pytest.approx(stats.f.sf(f, 2, 8))
    assert ranked.difference == pytest.approx(2.343 * math.sqrt(12 / 30), abs=0.001)


@pytest.mark.parametrize(("methods", "q"), [(2, 1.960), (5, 2.728), (9, 3.102), (10, 3.164)])
def test_critical_values_are_the_printed_ones(methods: int, q: float) -> None:
    """Table 5(a) of Demsar (2006)."""
    scale = math.sqrt(methods * (methods + 1) / (6 * 20))
    assert critical_difference(methods, 20) == pytest.approx(q * scale, abs=0.0006 * scale)


def test_small_numbers_may_be_the_good_ones() -> None:
    scores = frame({"a": [1.0, 2.0], "b": [2.0, 3.0], "c": [3.0, 4.0]})
    assert list(ranking(scores).means.index) == ["c", "b", "a"]
    assert list(ranking(scores, largest=False).means.index) == ["a", "b", "c"]
    assert ranking(scores).why == "2 data sets with all runs of all methods, fewer than five"


@pytest.mark.parametrize(
    ("scores", "why"),
    [
        ({"a": [1.0, 2.0] * 3, "b": [2.0, 1.0] * 3}, "2 methods"),
        ({"a": [1.0, math.nan], "b": [2.0, 1.0], "c": [0.0, 0.0]}, "1 data set with"),
        ({"a": [1.0] * 5, "b": [1.0] * 5, "c": [1.0] * 5}, "all methods are equal"),
        ({"a": [3.0] * 4, "b": [2.0] * 4, "c": [1.0] * 4}, "4 data sets with"),
    ],
)
def test_no_test_where_none_is_possible(scores: dict[str, list[float]], why: str) -> None:
    ranked = ranking(frame(scores))
    assert ranked.why.startswith(why)
    assert math.isnan(ranked.p)
    assert ranked.groups() == []


def test_bars_join_what_is_not_told_apart() -> None:
    sets = 30
    scores = frame({"a": [4.0] * sets, "b": [3.0] * sets, "c": [2.0] * sets, "d": [1.0] * sets})
    assert critical_difference(4, sets) < 1
    assert ranking(scores).groups() == []
    few = ranking(scores.iloc[:, :8])
    assert 1 < few.difference < 2
    assert few.groups() == [("a", "b"), ("b", "c"), ("c", "d")]


def test_a_cell_that_lacks_runs_takes_its_data_set_out() -> None:
    lines = [("a", "x", 1.0, 2), ("a", "y", 2.0, 2), ("b", "x", 3.0, 1), ("b", "y", 4.0, 2)]
    tidy = pd.DataFrame(lines, columns=["row", "column", "mean", "n"]).assign(seeds=2)
    assert list(scores_of(tidy).dropna(axis=1).columns) == ["y"]


def test_nothing_complete_is_no_picture_of_ranks(tmp_path: Path) -> None:
    catalogue = build_catalogue(parameters("fedomw") | {"primary_paper": "fedomw", "scale": "demo"})
    drawing = catalogue.target("fedomw", "table3_ranks")
    assert isinstance(drawing, Drawing)
    cells = read(catalogue.cells("fedomw", "table3_ranks"), tmp_path)
    numbers, picture, caption = drawing.draw(Inputs(catalogue.params.papers["fedomw"], cells))
    assert caption == ["No test of significance: no data sets with all runs of all methods, fewer than five."]
    assert numbers["mean"].isna().all()
    assert "no data set" in picture.axes[0].texts[0].get_text()


@pytest.mark.parametrize(
    ("paper", "target", "methods", "sets"),
    [("fedomw", "table3_ranks", 3, 6), ("fedavgr", "table2_ranks", 5, 9), ("radfed", "table3_ranks", 9, 9)],
)
def test_a_summary_of_real_targets(tmp_path: Path, paper: str, target: str, methods: int, sets: int) -> None:
    """Each method is better than the one before it, on all data sets."""
    catalogue = build_catalogue(parameters(paper) | {"primary_paper": paper, "scale": "demo"})
    cells = catalogue.cells(paper, target)
    order = list(dict.fromkeys(row for row, _ in cells))
    assert (len(order), len({column for _, column in cells})) == (methods, sets)
    for run in catalogue.needed(paper, target):
        folder = tmp_path / run.folder
        folder.mkdir(parents=True)
        score = 0.1 * (1 + order.index(run.algorithm))
        final = {f"test_{metric}": score for metric in ("accuracy", "f1", "auc")}
        summary = {"final": final, "spec_sha256": sha256_text(canonical_json(run.spec))}
        (folder / "summary.json").write_text(json.dumps(summary))
        seal(folder, run.spec)
    drawing = catalogue.target(paper, target)
    assert isinstance(drawing, Drawing)
    numbers, _, caption = drawing.draw(Inputs(catalogue.params.papers[paper], read(cells, tmp_path)))
    means = numbers[numbers["column"] == "mean_rank"].set_index("row")
    assert means["mean"].to_dict() == {row: float(methods - place) for place, row in enumerate(order)}
    assert set(means["n"]) == {sets}
    assert means["p"].isna().all()
    assert len(numbers) == methods * (sets + 1)
    text = " ".join(caption)
    assert f"{methods} methods on {sets} data sets, by means over 2 runs per cell." in text
    assert "No test of significance: fewer than five runs per cell." in text


def test_ranks_of_means_over_fewer_than_five_runs_are_not_tested() -> None:
    scores = frame({"a": [3.0] * 9, "b": [2.0] * 9, "c": [1.0] * 9})
    assert ranking(scores, runs=4).why == "fewer than five runs per cell"
    assert math.isnan(ranking(scores, runs=4).p)
    assert ranking(scores, runs=5).p == 0.0


def drawn(means: dict[str, float], difference: float, labels: dict[str, str] | None = None) -> Axes:
    """Return the diagram of methods of these mean ranks."""
    axes = Figure(figsize=(6, 3)).subplots()
    diagram(axes, Ranking(pd.DataFrame({"x": means}), math.nan, math.nan, difference), labels or {})
    return axes


def segments(axes: Axes) -> list[tuple[float, float, float, float]]:
    """Return x0, y0, x1, y1 of all straight lines, in the order of drawing."""
    lines = [line for collection in axes.collections for line in collection.get_segments()]  # type: ignore[attr-defined]
    return [tuple(np.round(line.ravel(), 9).tolist()) for line in lines]


def test_a_diagram_has_an_axis_of_ranks_with_ticks_and_numbers() -> None:
    axes = drawn({"fedavg": 1.0, "fedprox": 2.5, "scaffold": 2.5}, math.nan)
    axis, *ticks = segments(axes)
    assert axis == (1, 0, 3, 0)
    assert [tick[:3] for tick in ticks] == [(rank, 0, rank) for rank in (1, 2, 3)]
    numbers = axes.texts[:3]
    assert [(text.get_text(), text.get_position()[0]) for text in numbers] == [("1", 1), ("2", 2), ("3", 3)]
    assert all(0 < tick[3] < text.get_position()[1] < 0.5 for tick, text in zip(ticks, numbers, strict=True))
    assert all(
        (text.get_horizontalalignment(), text.get_verticalalignment()) == ("center", "bottom")
        for text in numbers
    )
    assert len(axes.texts) == 3 + 3, "no critical difference is shown where there is none"
    assert not axes.axison


def test_leaders_go_from_each_mean_rank_to_its_name_the_better_half_at_the_left() -> None:
    means = {"fedavg": 1.0, "fedprox": 2.0, "scaffold": 3.25, "mine": 4.0, "moon": 4.75}
    axes = drawn(means, math.nan, {"mine": "Our method"})
    leaders, dots = axes.lines[::2], axes.lines[1::2]
    labels = axes.texts[5:]
    assert [text.get_text() for text in labels] == [
        "FedAvg  1.00",
        "FedProx  2.00",
        "SCAFFOLD  3.25",
        "4.00  Our method",
        "4.75  MOON",
    ]
    assert [text.get_horizontalalignment() for text in labels] == ["right"] * 3 + ["left"] * 2
    heights = []
    for mean, leader, dot, text in zip(means.values(), leaders, dots, labels, strict=True):
        (start, corner, end), (zero, low, end_low) = np.asarray(leader.get_data())
        assert (start, corner, zero) == (mean, mean, 0)
        assert low == end_low == text.get_position()[1]
        assert text.get_verticalalignment() == "center"
        assert np.asarray(dot.get_data()).tolist() == [[mean], [0]]
        assert dot.get_color() == leader.get_color()
        outward = 1 - end if text.get_horizontalalignment() == "right" else end - 5
        beyond = abs(text.get_position()[0] - end)
        assert 0 < outward < 0.4
        assert 0 < beyond < 0.3
        assert (text.get_position()[0] < end) == (text.get_horizontalalignment() == "right")
        heights.append(low)
    assert heights[0] > heights[1] > heights[2]
    assert heights[:2] == heights[:2:-1], "the best and the worst at the top"
    assert np.diff(heights[:3]) == pytest.approx([heights[1] - heights[0]] * 2)
    assert 0.3 < heights[0] - heights[1] < 0.6, "a line of text apart"
    assert len({(leader.get_color(), leader.get_linestyle()) for leader in leaders}) == 5
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    assert 1 - left == pytest.approx(right - 5), "as much room at the left as at the right"
    assert 0.5 < 1 - left < 2
    assert bottom < heights[2] < 0 < top < 1
    assert heights[2] - bottom < 0.6


def test_bars_lie_between_the_axis_and_the_leaders_one_below_the_other() -> None:
    axes = drawn({"fedavg": 1.0, "fedprox": 2.0, "scaffold": 3.0, "moon": 4.0}, 1.5)
    bars = segments(axes)[5:8]
    assert [(round(x0), round(x1)) for x0, _, x1, _ in bars] == [(1, 2), (2, 3), (3, 4)]
    assert all((round(round(x0) - x0, 9), round(x1 - round(x1), 9)) == (0.04, 0.04) for x0, _, x1, _ in bars)
    heights = [y for _, y, _, _ in bars]
    assert heights == [y for _, _, _, y in bars]
    first = max(float(np.asarray(line.get_ydata())[-1]) for line in axes.lines[::2])
    assert 0 > heights[0] > heights[1] > heights[2] > first
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2])
    assert 0.1 < heights[0] - heights[1] < 0.4
    assert heights[0] > -0.5
    assert heights[2] - first < 0.6


@pytest.mark.parametrize(
    ("difference", "end", "said"), [(1.5, 2.5, "CD = 1.50"), (4.0, 3.0, "CD = 4.00 (wider than the axis)")]
)
def test_the_critical_difference_is_a_ruler_above_the_axis(difference: float, end: float, said: str) -> None:
    axes = drawn({"fedavg": 1.0, "fedprox": 2.0, "scaffold": 3.0}, difference)
    ruler, *ends = segments(axes)[-3:]
    assert ruler == (1, 1, end, 1)
    assert [(x0, x1) for x0, _, x1, _ in ends] == [(1, 1), (end, end)]
    assert {(low, high) for _, low, _, high in ends} == {(0.9, 1.1)}
    text = axes.texts[-1]
    assert text.get_text() == said
    assert text.get_position()[0] == (1 + end) / 2
    assert (text.get_horizontalalignment(), text.get_verticalalignment()) == ("center", "bottom")
    assert ends[0][3] < text.get_position()[1] < axes.get_ylim()[1] < 1.6


def test_lines_are_black_and_thin_but_bars_and_methods_have_their_own_look() -> None:
    axes = drawn({"fedavg": 1.0, "fedprox": 2.0, "scaffold": 3.0, "moon": 4.0}, 1.5)
    lines: list[Any] = list(axes.collections)
    assert all(np.allclose(line.get_color(), [[0, 0, 0, 1]]) for line in lines)
    assert [line.get_linewidth()[0] for line in lines] == [0.8] * 5 + [2.5] * 3 + [1.2] * 2
    looks = style.looks(["fedavg", "fedprox", "scaffold", "moon"]).values()
    for look, leader, dot in zip(looks, axes.lines[::2], axes.lines[1::2], strict=True):
        assert (leader.get_linewidth(), leader.get_linestyle()) == (0.8, look.line)
        assert (leader.get_color(), dot.get_color()) == (look.colour, look.colour)
        assert dot.get_marker() == look.marker
        assert not dot.get_clip_on(), "the first and the last lie on the edge"
        assert dot.get_zorder() > max(line.get_zorder() for line in lines)


def test_without_complete_data_sets_the_picture_says_so_in_its_middle() -> None:
    axes = drawn({"fedavg": math.nan, "fedprox": math.nan}, math.nan)
    (text,) = axes.texts
    assert text.get_text() == "no data set has all runs of all methods"
    assert (text.get_position(), text.get_horizontalalignment()) == ((0.5, 0.5), "center")
    assert text.get_transform() == axes.transAxes
    assert not [*axes.collections, *axes.lines]


def test_a_difference_as_wide_as_the_axis_is_not_cut() -> None:
    axes = drawn({"fedavg": 1.0, "fedprox": 2.0, "scaffold": 3.0}, 2.0)
    assert axes.texts[-1].get_text() == "CD = 2.00"
