"""The frame of all figures: one style, lines with bands, a legend above, the caption in files of its own."""

import textwrap
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from math import ceil
from pathlib import Path
from typing import IO, Any

import numpy as np

from fedcore.base.lazy import Axes, DataFrame, Figure, Series, matplotlib, seaborn
from fedcore.execution import result
from pipeline.reports.style import TEXT, Look

STYLE: Any = result.STYLE | {
    "axes.formatter.min_exponent": 3,
    "axes.titlesize": 8,
    "font.size": 8,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "fedrepro",
}
PANEL, HIGHEST, LETTER = 1.9, 7.4, 0.068  # inches
SMALL = 7  # points, of the smallest letters
PUBLISHED = Look("published", "0.3", "D", "")
MARKS = 8
SPREAD = "Line and band: mean and ± one sample standard deviation"
LETTERS_PER_INCH = 18


def styled(columns: int = 1) -> AbstractContextManager[None]:
    """Return a context in which figures are drawn and written in the common style, as wide as a page's text.

    ``columns`` are those of the page; see ``Layout``.
    """
    return matplotlib.rc_context({**STYLE, "figure.figsize": (TEXT[columns], HIGHEST)})


def width_of_text() -> float:
    """Return the width of the page's text in inches; see ``styled``."""
    return float(matplotlib.rcParams["figure.figsize"][0])


def framed(height: float, width: float = 0.0) -> Figure:
    """Return an empty figure of this size in inches, as wide as the page's text unless a width is given."""
    return matplotlib.figure.Figure(figsize=(width or width_of_text(), height), layout="constrained")


def fitting(across: int, width: float = 0.0) -> int:
    """Return how many panels have room for labels in a row of ``width`` inches, ``across`` at most."""
    return max(1, min(across, int((width or width_of_text()) / PANEL)))


def panels(
    titles: Mapping[str, str], height: float, across: int, width: float = 0.0, **shared: Any
) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure, in inches, with a set of axes for each title, by key, ``across`` of them in a row.

    Where so many don't fit, it has fewer in a row and is higher. ``shared`` says which axes they share, as
    ``Figure.subplots`` has it.
    """
    fit = fitting(across, width)
    rows = ceil(len(titles) / fit)
    higher = rows / ceil(len(titles) / across)
    figure = framed(max(height, min(HIGHEST, height * higher)), width)
    grid = figure.subplots(rows, fit, squeeze=False, **shared)
    for axes, title in zip(grid.flat, titles.values(), strict=False):
        axes.set_title(title)
    for axes in grid.flat[len(titles) :]:
        axes.set_visible(False)
    return figure, dict(zip(titles, grid.flat, strict=False))


def lines(
    frame: DataFrame,
    titles: Mapping[str, str],
    known: Mapping[str, Look],
    height: float,
    across: int = 1,
    labels: tuple[str, str] = ("communication round", ""),
    width: float = 0.0,
    options: Mapping[str, Any] = {},
    **shared: Any,
) -> tuple[Figure, dict[str, Axes]]:
    """Draw the curves of each of a frame's columns in its own axes, the legend above.

    ``labels`` are those of the horizontal axes, and of the vertical ones at the left. For ``options`` see
    ``curves``, for the others ``panels``.
    """
    figure, drawn = panels(titles, height, across, width, **shared)
    for column, axes in drawn.items():
        curves(axes, frame[frame["column"] == column], known, **options)
        subplot = axes.get_subplotspec()
        axes.set(xlabel=labels[0], ylabel=labels[1] if subplot and subplot.is_first_col() else "")
    legend(figure, known)
    return figure, drawn


def captioned(figure: Figure, caption: str) -> Figure:
    """Print a caption small below the axes, in lines that fit the width; $ starts no formula."""
    lines = textwrap.wrap(caption, round(LETTERS_PER_INCH * figure.get_figwidth()))
    figure.supxlabel("\n".join(lines).replace("$", r"\$"), fontsize=SMALL, color="0.35")
    return figure


def save(figure: Figure, outputs: Mapping[str, Path | IO[bytes]]) -> None:
    """Write a figure as svg, pdf and png, as far as asked for, without the time of day in it."""
    dates: Mapping[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    with styled():
        for form in filter(outputs.__contains__, dates):
            figure.savefig(outputs[form], format=form, metadata=dates[form])


def published(axes: Axes, x: Sequence[float], y: Sequence[float], colour: str = "0.3", **more: Any) -> None:
    """Mark published numbers with open diamonds."""
    face: dict[str, Any] = {"markerfacecolor": "white", "markersize": 4, "zorder": 4, "clip_on": False}
    axes.plot(x, y, PUBLISHED.marker, color=colour, **face | more)


def curves(
    axes: Axes,
    frame: DataFrame,
    known: Mapping[str, Look],
    x: str = "round",
    marks: int = MARKS,
    marked: Series[bool] | None = None,
    whiskers: bool = False,
    log: str = "",
) -> None:
    """Draw a line, its markers and a band for each row of a tidy frame.

    Args:
        frame: lines of ``row``, ``x``, ``mean``, and ``std`` or ``low`` and ``high``.
        x: the column from left to right.
        marks: about how many markers a line has.
        marked: which lines of the frame have a marker, in place of every so many.
        whiskers: a marker at each number and whiskers in place of a band.
        log: which of the axes x and y are logarithmic.

    A frame without lines is said to hold no number.
    """
    if frame.empty:
        axes.text(0.5, 0.5, "no number", ha="center", transform=axes.transAxes)
        return
    if "low" not in frame:
        spread = frame["std"].fillna(0)
        frame = frame.assign(low=frame["mean"] - spread, high=frame["mean"] + spread)
    if marked is None:
        marked = frame["row"].notna() if whiskers else _every_so_many(frame["row"], [*known], marks)
    objects, title = seaborn.objects, axes.get_title()  # which plot() removes
    band = objects.Range(linewidth=0.8) if whiskers else objects.Band(alpha=0.15, edgewidth=0)
    (
        objects.Plot(frame.assign(marked=frame["mean"].where(marked)), x=x, y="mean", color="row")
        .add(band, ymin="low", ymax="high", legend=False)
        .add(objects.Line(linewidth=1.2), linestyle="row", legend=False)
        .add(objects.Dot(pointsize=3.5), y="marked", marker="row", legend=False)
        .scale(
            color={row: look.colour for row, look in known.items()},
            linestyle={row: look.line for row, look in known.items()},
            marker={row: look.marker for row, look in known.items()},
        )
        .theme(STYLE)
        .on(axes)
        .plot()
    )
    axes.set(title=title, ylabel="", **{f"{axis}scale": "log" for axis in log})
    axes.margins(x=0.02)
    if x == "round":
        axes.set_xlabel("communication round")
        whole_numbers(axes.xaxis)


def legend(
    parent: Figure | Axes, known: Mapping[str, Look], across: int = 0, filled: bool = True, **options: Any
) -> None:
    """Say what colours, markers and lines mean: above the panels, or where ``loc`` says."""
    handles = []
    for name, look in known.items():
        fill = "full" if filled and look is not PUBLISHED else "none"
        drawn: Any = {"color": look.colour, "linestyle": look.line, "marker": look.marker, "fillstyle": fill}
        handles.append(matplotlib.lines.Line2D([], [], label=look.label or name, **drawn))
    widths = [LETTER * len(look.label or name) + 0.5 for name, look in known.items()]
    room = parent.figure.bbox.width / parent.figure.dpi
    even = (ceil(len(known) / rows) for rows in range(1, len(known) + 1))
    fits = (count for count in even if sum(map(max, np.array_split(widths, count))) <= room)
    columns = across or next(fits, 1)
    parent.legend(handles=handles, ncols=columns, **{"loc": "outside upper center"} | options)


def methods(axes: Axes, known: Mapping[str, Look], **options: Any) -> None:
    """Name a method below each place from left to right."""
    axes.set_xticks(range(len(known)), [look.label for look in known.values()], **options)
    axes.grid(visible=False, axis="x")


def whole_numbers(axis: "matplotlib.axis.Axis") -> None:
    """Put an axis's ticks at whole numbers, as for rounds."""
    axis.set_major_locator(matplotlib.ticker.MaxNLocator("auto", integer=True))


def _every_so_many(rows: Series[str], names: list[str], marks: int) -> Series[bool]:
    """Return which lines of each row get a marker, beside those of other rows."""
    lines = rows.groupby(rows, sort=False)
    step = (lines.transform("size") // marks).clip(lower=1)
    return lines.cumcount() % step == rows.map(names.index) % step
