"""How a Python session shows results: lines over rounds, and tables."""

from typing import Any

from fedcore.base.errors import DataError
from fedcore.base.lazy import Axes, DataFrame, matplotlib, pd, seaborn

STYLE: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
}
SIZE = (6.4, 3.6)


def line_plot(frame: DataFrame, measure: str, axes: Axes | None, **looks: Any) -> Axes:
    """Draw a column of a frame over its rounds, on a new figure unless axes are given."""
    measures = [name for name in frame.columns if name not in {"round", "method", "seed", "diverged"}]
    if measure not in measures:
        raise DataError(f"plot: got {measure!r}, expected one of {', '.join(measures)}")
    # A notebook's way to show figures is set up with the first one, and the context would take it back.
    figure = axes.figure if axes else matplotlib.pyplot.figure(figsize=SIZE, layout="constrained")
    with matplotlib.rc_context(STYLE):
        axes = axes or figure.subplots()
        seaborn.lineplot(frame, x="round", y=measure, ax=axes, **looks)
        axes.set(xlabel="communication round", ylabel=measure.replace("_", " "))
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator("auto", integer=True))
    return axes


def html_table(frame: DataFrame) -> str:
    """Return a frame as a notebook shows it."""
    with pd.option_context("display.max_colwidth", None):
        return frame.to_html(index=False, na_rep="", float_format="{:.4g}".format)
