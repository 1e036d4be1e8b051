"""Curves as a figure: one set of axes a panel, one colour and marker an algorithm, a band for the spread."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from fedcore.lazy import Axes, Figure, matplotlib, pd
from pipeline.report import style

SETTINGS: Any = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 8,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "fedrepro",
    "savefig.dpi": 200,
}
MARKS = 8


def save(made: Figure, paths: Mapping[str, Path | IO[bytes]]) -> None:
    """Write a figure as svg, pdf and png, without the time of day in them."""
    dates: Mapping[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    with matplotlib.rc_context(SETTINGS):
        for ending, path in paths.items():
            made.savefig(path, format=ending, metadata=dates[ending])


def curves(axes: Axes, own: pd.DataFrame, names: Sequence[str]) -> None:
    """Draw a line over rounds and a band for each of ``names`` that has lines in a tidy frame."""
    for place, name in enumerate(names):
        line = own[own["row"] == name]
        if line.empty:
            continue
        look = style.look(name, names)
        step = max(1, len(line) // MARKS)
        axes.plot(
            line["round"],
            line["mean"],
            color=look.colour,
            linestyle=look.line,
            marker=look.marker,
            markevery=(place % step, step),
            label=look.label,
        )
        axes.fill_between(
            line["round"],
            line["mean"] - line["std"].fillna(0),
            line["mean"] + line["std"].fillna(0),
            color=look.colour,
            alpha=0.15,
            linewidth=0,
        )
    whole_numbers(axes.xaxis)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.margins(x=0.02)


def whole_numbers(axis: matplotlib.axis.Axis) -> None:
    """Put an axis's ticks at whole numbers, as for rounds."""
    axis.set_major_locator(matplotlib.ticker.MaxNLocator("auto", integer=True))


def wrapped(text: str, width: int = 150) -> str:
    """Break a caption into lines of ``width`` characters; 150 fit a figure of 17 cm. $ starts no formula."""
    return "\n".join(textwrap.wrap(text, width)).replace("$", r"\$")
