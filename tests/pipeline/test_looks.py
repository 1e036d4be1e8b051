"""How figures tell methods, numbers and places apart."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from pipeline.claims.checks import _short
from pipeline.papers.rfedavg.efficiency import bars
from pipeline.reports import figures, style
from pipeline.reports.style import Look

POINTS = pd.DataFrame({"row": "a", "column": "c", "mean": [50.0, 20.0], "std": nan, "n": 1, "seeds": 1})


def test_looks_without_a_colour_differ_in_colour_and_line() -> None:
    first = [style.SPARE[place] for place in range(4)]
    assert len({look.colour for look in first}) == len({look.line for look in first}) == 4
    assert len({*style.SPARE}) == 16


def test_methods_of_one_colour_are_told_apart() -> None:
    looks = style.distinct(style.looks(["fedadam", "fedomw", "prox_yogi", "rfedavg_plus", "fedavg"]))
    assert len({look.colour for look in looks.values()}) == 5
    assert looks["fedadam"] == style.look("fedadam")


@pytest.mark.parametrize(("longest", "columns"), [(4, 7), (40, 4)])
def test_a_legend_takes_as_few_lines_as_its_labels_need(longest: int, columns: int) -> None:
    look = Look("", style.BLUE, "o")
    known = {f"m{k}": replace(look, label="x" * (longest if k == 3 else 4)) for k in range(7)}
    with figures.styled(2):
        figure = figures.framed(3.0)
        figures.legend(figure, known)
    legend: Any = figure.legends[0]
    assert legend._ncols == columns


def test_only_panels_at_the_left_name_the_vertical_axis() -> None:
    looks = style.looks(["a"])
    with figures.styled():
        frame = POINTS.assign(round=[1, 2])
        _, panels = figures.lines(frame, {"c": "C", "d": "D"}, looks, 3.0, 2, ("round", "DL"))
    assert [axes.get_ylabel() for axes in panels.values()] == ["DL", ""]


def test_a_bar_of_one_run_has_no_whisker_and_one_that_was_not_reached_a_dash() -> None:
    lines = [("a", 5.0, nan, 1, 1), ("b", 5.0, 1.0, 2, 2), ("c", nan, nan, 0, 2)]
    frame = pd.DataFrame(lines, columns=["row", "mean", "std", "n", "seeds"]).assign(column="k")
    axes: Any = Figure().subplots()
    bars(axes, frame, {"k": "K"}, style.looks("abc"), 10.0)
    assert sum(hasattr(container, "has_yerr") for container in axes.containers) == 1
    assert [text.get_text() for text in axes.texts] == ["–"]


def test_numbers_of_claims_are_short() -> None:
    assert [*map(_short, (0.123456, 98.76543, 31840.4, nan))] == ["0.1235", "98.77", "31840", "nan"]
