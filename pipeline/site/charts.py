"""Curves as plain values that the pages' script draws: one chart a panel, one trace an algorithm."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from fedcore.base.lazy import DataFrame
from pipeline.reports import style
from pipeline.reports.drawings import Curves
from pipeline.site.format import SCORES

POINTS = 250
LOSSES = ("train_loss", "test_loss")
TRAFFIC = ("bytes_down", "bytes_up")
TOGETHER = {"train_loss": "loss", "bytes_down": "bytes sent"}
PAIR = style.Look("", style.BLUE, "s"), style.Look("", style.VERMILION, "o")
Chart = dict[str, Any]


def of_figure(
    frame: DataFrame, figure: Curves, labels: Mapping[str, str], marked: Collection[str] = ()
) -> list[Chart]:
    """Return a chart for each panel of a figure of curves, given its tidy csv and what rows are called."""
    looks = style.marked(style.looks(frame["row"], labels), marked)
    return [
        {
            "title": label,
            "x": figure.horizontal,
            "y": figure.axis,
            "traces": [
                _trace(look, frame[(frame["column"] == panel) & (frame["row"] == name)])
                for name, look in looks.items()
            ],
        }
        for panel, label in figure.panels.items()
    ]


def of_history(history: DataFrame, algorithm: str) -> list[Chart]:
    """Return the charts of one run: accuracy, losses, then each other column that it measured."""
    history = history.set_index("round")
    others = [(name,) for name in history if name not in {"test_accuracy", *LOSSES, *TRAFFIC}]
    together = (("test_accuracy",), LOSSES, *others, TRAFFIC)
    groups = [[name for name in group if name in history] for group in together]
    return [_history_chart(history[group], style.look(algorithm)) for group in groups if group]


def _history_chart(columns: DataFrame, look: style.Look) -> Chart:
    names = [str(name) for name in columns]
    alone, percent = len(names) == 1, names[0].endswith(SCORES)
    traces = []
    for name, line_look in zip(names, [look] if alone else PAIR, strict=True):
        means = (100 * columns[name] if percent else columns[name]).rename("mean").reset_index()
        label = name.replace("_", " ")
        traces.append(_trace(replace(line_look, label=label), means[np.isfinite(means["mean"])]))
    title = names[0].replace("_", " ") if alone else TOGETHER[names[0]]
    return {"title": title, "y": f"{title} (%)" if percent else title, "traces": traces}


def _trace(look: style.Look, line: DataFrame) -> dict[str, Any]:
    """Return a curve with every k-th of its points and the last, so that there are few enough to draw."""
    step, last = math.ceil(len(line) / POINTS), len(line) - 1
    kept = [index for index in range(len(line)) if index % step == 0 or index == last]
    points = line.iloc[kept].rename(columns={"round": "x"})
    forms: dict[str, Callable[[Any], float | None]] = {"x": int, "mean": _short, "std": _short, "n": int}
    return asdict(look) | {name: [*map(form, points[name])] for name, form in forms.items() if name in points}


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
