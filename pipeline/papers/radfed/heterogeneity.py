"""Fig. 5: the same methods on less and on more heterogeneous clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, Query
from pipeline.papers.radfed.settings import METRICS, SETTINGS, folds
from pipeline.papers.radfed.tables import score_of
from pipeline.reports import figures, spread, style
from pipeline.reports.drawings import Drawing, Found, Picture

if TYPE_CHECKING:
    pass

ASIDE = 0.2
PAIRS = (("mnist_1", "mnist_01"), ("covcls_g", "covfeat_g"), ("covcls_l", "covfeat_l"))


def queries(params: PaperParams) -> dict[Cell, tuple[Query, ...]]:
    """Return all folds of each method and data set."""
    return {
        (name, key): folds(params, SETTINGS[key].query(name))
        for pair in PAIRS
        for key in pair
        for name in params.algorithms
    }


def draw(found: Found) -> Picture:
    """Draw two marks per method, open where clients are less heterogeneous, and what lies between."""
    frame = spread.over_seeds(found.cells, lambda run: score_of(run, found.root, ""))
    names = list(dict.fromkeys(frame["row"]))
    figure, known = figures.framed(3.4), style.looks(names)
    for axes, pair in zip(figure.subplots(1, len(PAIRS)), PAIRS, strict=True):
        means = {key: frame[frame["column"] == key].set_index("row") for key in pair}
        for place, (name, look) in enumerate(known.items()):
            ends = [place - ASIDE, place + ASIDE]
            values = [means[key].loc[name] for key in pair]
            axes.plot(ends, [value["mean"] for value in values], color=look.colour, linewidth=0.8)
            for at, value, face in zip(ends, values, ("white", look.colour), strict=True):
                axes.errorbar(
                    at,
                    value["mean"],
                    np.nan_to_num(value["std"]),
                    marker=look.marker,
                    markersize=5,
                    color=look.colour,
                    markerfacecolor=face,
                    elinewidth=0.5,
                    capsize=2,
                    zorder=3,
                )
        for style_of, key in zip(("none", "full"), pair, strict=True):
            axes.plot([], [], "o", color="0.3", fillstyle=style_of, label=SETTINGS[key].label)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        axes.set_ylabel(f"test {METRICS[SETTINGS[pair[0]].metric]} (%)")
        axes.set_xticks(range(len(names)), [look.label for look in known.values()], rotation=90)
        axes.grid(visible=False, axis="x")
    runs = int(frame["n"].max())
    deviation = f"Mean and ± one sample standard deviation over {runs} runs."
    sentences = (
        "Open: less heterogeneous clients, filled: more (smaller lambda; skewed features too).",
        deviation if runs > 1 else "One run per mark, so no spread is given.",
    )
    return Picture(frame, figure, sentences)


HETEROGENEITY = Drawing(
    title="Test scores on clients of different heterogeneity",
    published="Fig. 5",
    queries=queries,
    draw=draw,
)
