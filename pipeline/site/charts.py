"""Curves as plain values that the pages' script draws: one chart a panel, one trace an algorithm."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedcore.base.lazy import pd
from pipeline.reports import style
from pipeline.reports.curves import Curves
from pipeline.site.words import SCORES

POINTS = 250
DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
SYMBOLS = {
    "o": "circle",
    "s": "square",
    "^": "triangle-up",
    "v": "triangle-down",
    "<": "triangle-left",
    ">": "triangle-right",
    "D": "diamond",
    "d": "diamond-tall",
    "P": "cross",
    "X": "x",
    "*": "star",
    "h": "hexagon",
    "p": "pentagon",
}
LOSSES = ("train_loss", "test_loss")
TRAFFIC = ("bytes_down", "bytes_up")
PAIR = ("#0072B2", "#D55E00")
Chart = dict[str, Any]


def of_figure(frame: pd.DataFrame, figure: Curves) -> list[Chart]:
    """Return a chart for each panel of a figure of curves, given its tidy csv."""
    names = list(dict.fromkeys(frame["row"]))
    return [
        {
            "title": panel.label,
            "x": figure.horizontal,
            "y": figure.axis,
            "traces": [
                _trace(
                    style.look(name, names), frame[(frame["column"] == panel.key) & (frame["row"] == name)]
                )
                for name in names
            ],
        }
        for panel in figure.panels
    ]


def series(frame: pd.DataFrame) -> list[dict[str, str]]:
    """Return how each algorithm of a figure looks, for its legend."""
    names = list(dict.fromkeys(frame["row"]))
    return [_look(style.look(name, names)) for name in names]


def of_history(path: Path, algorithm: str) -> list[Chart]:
    """Return the charts of one run: accuracy, losses, then each other column that it measured."""
    with path.open(encoding="utf-8", newline="") as handle:
        lines = list(csv.DictReader(handle))
    columns = [name for name in (lines[0] if lines else {}) if name != "round"]
    rounds = [int(float(line["round"])) for line in lines]
    values = {name: [_number(line[name]) for line in lines] for name in columns}
    others = [(name,) for name in columns if name not in {"test_accuracy", *LOSSES, *TRAFFIC}]
    groups = [("test_accuracy",), LOSSES, *others, TRAFFIC]
    look = style.look(algorithm)
    return [
        _history_chart([name for name in group if name in values], rounds, values, look)
        for group in groups
        if any(name in values for name in group)
    ]


def _history_chart(
    names: Sequence[str], rounds: Sequence[int], values: dict[str, list[float | None]], look: style.Look
) -> Chart:
    percent = names[0].endswith(SCORES)
    traces = []
    for place, name in enumerate(names):
        known = [(at, y) for at, y in zip(rounds, values[name], strict=True) if y is not None]
        points = _thinned(known)
        own = {
            "name": _words(name),
            "colour": PAIR[place],
            "dash": "solid",
            "symbol": "circle" if place else "square",
        }
        traces.append(
            (_look(look) | {"name": _words(name)} if len(names) == 1 else own)
            | {"x": [at for at, _ in points], "mean": [_short(100 * y if percent else y) for _, y in points]}
        )
    title = (
        _words(names[0]) if len(names) == 1 else {"train_loss": "loss", "bytes_down": "bytes sent"}[names[0]]
    )
    return {"title": title, "y": f"{title} (%)" if percent else title, "traces": traces}


def _trace(look: style.Look, line: pd.DataFrame) -> dict[str, Any]:
    points = _thinned(list(line[["round", "mean", "std", "n"]].itertuples(index=False)))
    return _look(look) | {
        "x": [int(one.round) for one in points],
        "mean": [_short(one.mean) for one in points],
        "std": [_short(one.std) for one in points],
        "n": [int(one.n) for one in points],
    }


def _look(look: style.Look) -> dict[str, str]:
    return {
        "name": look.label,
        "colour": look.colour,
        "dash": DASHES[look.line],
        "symbol": SYMBOLS[look.marker],
    }


def _thinned(points: Sequence[Any]) -> list[Any]:
    """Return every k-th point and the last, so that there are few enough to draw."""
    step = -(-len(points) // POINTS) or 1
    kept = list(points[::step])
    return kept if not points or kept[-1] is points[-1] else [*kept, points[-1]]


def _number(text: str) -> float | None:
    """Return a finite number of a csv file, or None."""
    value = float(text) if text else math.nan
    return value if math.isfinite(value) else None


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _words(name: str) -> str:
    return name.replace("_", " ")


def names(charts: Iterable[Chart]) -> list[str]:
    """Return the charts' titles, for a reader who can't see them."""
    return [str(chart["title"]) for chart in charts]
