"""The figure on the MMD: how far clients' features lie from the mixture of all, over rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.schema import PaperParams
from pipeline.targets import Cell, Drawing, Found, Query

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

METHOD = "fedavgr"
SHOWN = (0.0, 0.3, 0.6, 1.0)
COLUMN = "synthetic_one"


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return FedAvgR's runs on synthetic(1, 1)."""
    return {(METHOD, COLUMN): Query("mmd", COLUMN, "natural", METHOD)}


def draw(found: Found) -> tuple[pd.DataFrame, Figure]:
    """Draw the MMD over rounds; the tidy lines are the rounds 0, 30, 60 and 100 of 100."""
    import matplotlib
    from matplotlib.figure import Figure

    from pipeline.report import plots, spread, style

    line = spread.by_round(found.cells, "mmd", 1.0, found.root)
    last = line["round"].max()
    shown = line[line["round"].isin([round(share * last) for share in SHOWN])]
    with matplotlib.rc_context(plots.SETTINGS):
        made = Figure(figsize=(3.6, 3.2), layout="constrained")
        axes, look = made.subplots(), style.look(METHOD)
        low, high = (line["mean"] + sign * line["std"].fillna(0) for sign in (-1, 1))
        axes.plot(line["round"], line["mean"], color=look.colour, linestyle=look.line, label=look.label)
        axes.plot(shown["round"], shown["mean"], look.marker, color=look.colour)
        axes.fill_between(line["round"], low, high, color=look.colour, alpha=0.15, linewidth=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("communication round")
        axes.set_ylabel("MMD between client and mixture")
        axes.grid(alpha=0.25, linewidth=0.5)
        axes.legend()
        caption = found.caption(
            "Mean over clients, weighted by their rows; Gaussian kernel with the median heuristic.",
            "Line and band: mean and ± one sample standard deviation over seeds.",
        )
        made.supxlabel(plots.wrapped(caption, 80), fontsize=6, color="0.35")
    return shown.assign(column=shown["round"].astype(str)).drop(columns="round"), made


MMD = Drawing(
    title="MMD between a client's features and the mixture's, synthetic(1, 1)",
    published="The figure on the MMD's impact",
    queries=queries,
    draw=draw,
)
