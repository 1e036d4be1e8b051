"""Fig. 5: the same methods on less and on more heterogeneous clients."""

from __future__ import annotations

from fedcore.lazy import Figure, matplotlib, pd
from pipeline.papers.radfed.settings import METRICS, SETTINGS, folds
from pipeline.papers.radfed.tables import score_of
from pipeline.report import plots, spread, style
from pipeline.report.build_drawing import Drawing, Found
from pipeline.schema import PaperParams
from pipeline.targets import Cell, Query

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


def draw(found: Found) -> tuple[pd.DataFrame, Figure]:
    """Draw two marks a method, open where clients are less heterogeneous, and what lies between."""
    frame = spread.over_seeds(found.cells, lambda run: score_of(run, found.root, ""))
    names = list(dict.fromkeys(frame["row"]))
    with matplotlib.rc_context(plots.SETTINGS):
        made = matplotlib.figure.Figure(figsize=(6.7, 3.4), layout="constrained")
        for axes, pair in zip(made.subplots(1, len(PAIRS)), PAIRS, strict=True):
            means = {key: frame[frame["column"] == key].set_index("row") for key in pair}
            for place, name in enumerate(names):
                look = style.look(name, names)
                less, more = (means[key].loc[name] for key in pair)
                ends = [place - ASIDE, place + ASIDE]
                axes.plot(ends, [less["mean"], more["mean"]], color=look.colour, linewidth=0.8)
                for at, line, face in zip(ends, (less, more), ("white", look.colour), strict=True):
                    axes.errorbar(
                        at,
                        line["mean"],
                        yerr=0.0 if line["std"] != line["std"] else line["std"],
                        marker=look.marker,
                        markersize=5,
                        color=look.colour,
                        markerfacecolor=face,
                        elinewidth=0.5,
                        capsize=2,
                        zorder=3,
                    )
            labels = [SETTINGS[key].label for key in pair]
            marks = [
                matplotlib.lines.Line2D([], [], marker="o", linestyle="", color="0.3", markerfacecolor=face)
                for face in ("white", "0.3")
            ]
            axes.legend(marks, labels, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
            axes.set_ylabel(f"test {METRICS[SETTINGS[pair[0]].metric]} (%)")
            axes.set_xticks(range(len(names)), [style.label(name) for name in names], rotation=90)
            axes.grid(alpha=0.25, linewidth=0.5, axis="y")
        runs = int(frame["n"].max())
        deviation = f"Mean and ± one sample standard deviation over {runs} runs."
        caption = found.caption(
            "Open: less heterogeneous clients, filled: more (smaller lambda; skewed features too).",
            deviation if runs > 1 else "One run a mark, so no spread is given.",
        )
        made.supxlabel(plots.wrapped(caption), fontsize=6, color="0.35")
    return frame, made


HETEROGENEITY = Drawing(
    title="Test scores on clients of different heterogeneity",
    published="Fig. 5",
    queries=queries,
    draw=draw,
)
