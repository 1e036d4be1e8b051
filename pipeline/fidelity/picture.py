"""The scoreboard as a picture: how far each measured score lies from the published one, one row per table."""

from __future__ import annotations

from pathlib import Path

from fedcore.base.files import atomic, write_text
from fedcore.base.lazy import Figure, pd
from pipeline.fidelity.board import SHORT, board, split_reading
from pipeline.papers import papers
from pipeline.reports import figures
from pipeline.reports.agreement import AGREES, DIFFERS, ON_STAND_IN, PERCENTAGES, POINTS
from pipeline.reports.results import REPRODUCTION

NAME = "agreement"
TABLE = ["paper", "target"]
TICKS = (-50, -20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 50)
SPREAD, GOLDEN = 0.56, 0.618034
GREEN, ORANGE, GREY = "#009E73", "#D55E00", "#8A8A8A"


# What a kind of cell is called in the legend, its colour, and whether it is filled.
DOTS = {
    "near": ("near", GREEN, True),
    "far": ("not near", ORANGE, True),
    "near, fewer seeds": ("near, fewer seeds", GREEN, False),
    "far, fewer seeds": ("not near, fewer seeds", ORANGE, False),
    ON_STAND_IN: (ON_STAND_IN, GREY, True),
}


def points(folder: Path) -> pd.DataFrame:
    """Return a line per measured score: ``paper``, ``target``, ``row``, ``column``, ``difference`` in points,
    and ``kind``, one of ``DOTS``.

    Args:
        folder: holds ``<paper>/<target>.csv``, of runs at the papers' own scale.
    """
    cells = board(REPRODUCTION, folder).cells
    told = cells["verdict"].isin([AGREES, DIFFERS, SHORT, ON_STAND_IN])
    cells = cells[told & cells["unit"].isin(PERCENTAGES) & cells["difference"].notna()]
    near = cells["within_margin"].eq(True).map({True: "near", False: "far"})
    kind = near.mask(cells["verdict"] == SHORT, near + ", fewer seeds")
    kind = kind.mask(cells["verdict"] == ON_STAND_IN, ON_STAND_IN)
    named = cells[["paper", "target", "row", "column"]]
    return named.assign(difference=cells["difference"].round(6), kind=kind).reset_index(drop=True)


def draw(measured: pd.DataFrame) -> Figure:
    """Draw them: tables from top to bottom, differences from left to right, linear up to two points."""
    tables = measured.groupby(TABLE, sort=False)
    apart = (tables.cumcount() * GOLDEN) % 1 - 0.5
    heights = tables.ngroup() + SPREAD * apart
    labels = [_label(*names) for names in measured[TABLE].drop_duplicates().itertuples(index=False)]
    figure = figures.framed(1.0 + 0.27 * len(labels))
    axes = figure.subplots()
    axes.set_xscale("symlog", linthresh=2, linscale=1.2)
    axes.axvspan(-POINTS, POINTS, color="0.92", linewidth=0)
    axes.axvline(0, color="0.6", linewidth=0.6)
    for kind, (label, colour, filled) in DOTS.items():
        own = measured["kind"] == kind
        if own.any():
            x, y, face = measured.loc[own, "difference"], heights[own], colour if filled else "none"
            axes.scatter(x, y, s=12, facecolors=face, edgecolors=colour, linewidths=0.8, label=label)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xticks(TICKS, [f"{tick}".replace("-", "\N{MINUS SIGN}") for tick in TICKS])
    axes.minorticks_off()
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("measured minus published, in points; grey band: within a point")
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def write(folder: Path) -> list[Path]:
    """Write the picture into the folder of kept results, and its numbers beside it."""
    found = points(folder)
    numbers, picture = folder / f"{NAME}.csv", folder / f"{NAME}.svg"
    write_text(numbers, found.to_csv(index=False))
    with atomic(picture) as handle, figures.styled():
        figures.save(draw(found), {"svg": handle})
    return [numbers, picture]


def _label(paper: str, target: str) -> str:
    plain, reading = split_reading(target)
    return f"{paper} {papers()[paper].targets[plain].published}" + (
        f", {reading.replace('_', ' ')}" if reading else ""
    )
