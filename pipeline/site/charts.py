"""Curves as plain values that the pages' script draws: one chart a panel, one trace an algorithm."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fedcore.base.lazy import pd
from pipeline.reports import style
from pipeline.reports.drawings import Curves
from pipeline.site.format import SCORES

POINTS = 250
LOSSES = ("train_loss", "test_loss")
TRAFFIC = ("bytes_down", "bytes_up")
TOGETHER = {"train_loss": "loss", "bytes_down": "bytes sent"}
PAIR = style.Look("", "#0072B2", "s"), style.Look("", "#D55E00", "o")
Chart = dict[str, Any]


def of_figure(frame: pd.DataFrame, figure: Curves, labels: Mapping[str, str]) -> list[Chart]:
    """Return a chart for each panel of a figure of curves, given its tidy csv and what rows are called."""
    looks = style.looks(frame["row"], labels)
    return [
        {
            "title": panel.label,
            "x": figure.horizontal,
            "y": figure.axis,
            "traces": [
                _trace(look, frame[(frame["column"] == panel.key) & (frame["row"] == name)])
                for name, look in looks.items()
            ],
        }
        for panel in figure.panels
    ]


def of_history(history: pd.DataFrame, algorithm: str) -> list[Chart]:
    """Return the charts of one run: accuracy, losses, then each other column that it measured."""
    history = history.set_index("round")
    others = [(name,) for name in history if name not in {"test_accuracy", *LOSSES, *TRAFFIC}]
    groups = [
        [name for name in group if name in history]
        for group in (("test_accuracy",), LOSSES, *others, TRAFFIC)
    ]
    return [_history_chart(history[group], style.look(algorithm)) for group in groups if group]


def _history_chart(columns: pd.DataFrame, look: style.Look) -> Chart:
    """Return a chart of one measurement in the algorithm's look, or of two that belong together."""
    names = [str(name) for name in columns]
    alone, percent = len(names) == 1, names[0].endswith(SCORES)
    traces = []
    for name, its in zip(names, [look] if alone else PAIR, strict=True):
        points = _thinned([(at, y) for at, y in columns[name].items() if math.isfinite(y)])
        data = {"x": [at for at, _ in points], "mean": [_short(100 * y if percent else y) for _, y in points]}
        traces.append(asdict(its) | {"label": name.replace("_", " ")} | data)
    title = names[0].replace("_", " ") if alone else TOGETHER[names[0]]
    return {"title": title, "y": f"{title} (%)" if percent else title, "traces": traces}


def _trace(look: style.Look, line: pd.DataFrame) -> dict[str, Any]:
    points = _thinned(list(line[["round", "mean", "std", "n"]].itertuples(index=False)))
    return asdict(look) | {
        "x": [int(point.round) for point in points],
        "mean": [_short(point.mean) for point in points],
        "std": [_short(point.std) for point in points],
        "n": [int(point.n) for point in points],
    }


def _thinned(points: Sequence[Any]) -> list[Any]:
    """Return every k-th point and the last, so that there are few enough to draw."""
    step = -(-len(points) // POINTS) or 1
    kept = list(points[::step])
    return kept if not points or kept[-1] is points[-1] else [*kept, points[-1]]


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
