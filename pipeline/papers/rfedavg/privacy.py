"""Fig. 12: Gaussian noise on the mean features that clients of rFedAvg+ send."""

from __future__ import annotations

from fedcore.lazy import Figure, matplotlib, pd
from pipeline.report import plots, spread, style
from pipeline.report.build_drawing import Drawing, Found
from pipeline.schema import PaperParams
from pipeline.targets import Cell, Query

METHOD = "rfedavg_plus"
SIGMAS = (0, 1, 5, 10, 50)
COLOURS = ("#D55E00", "#E69F00", "#009E73", "#0072B2", "#000000")
MARKERS = ("P", "o", "s", "^", "v")


def row(sigma: int) -> str:
    """Return the name of rFedAvg+ with noise."""
    return f"{METHOD}_sigma{sigma}" if sigma else METHOD


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return the runs of each strength of the noise."""
    return {
        (row(sigma), "mnist"): Query(
            "cross_silo", "mnist", "sim0", METHOD, (("algorithm.noise_sigma", float(sigma)),) if sigma else ()
        )
        for sigma in SIGMAS
    }


def draw(found: Found) -> tuple[pd.DataFrame, Figure]:
    """Draw accuracy over rounds, a curve for each strength."""
    frame = spread.by_round(found.cells, "test_accuracy", 100.0, found.root)
    with matplotlib.rc_context(plots.SETTINGS):
        made = matplotlib.figure.Figure(figsize=(3.6, 3.2), layout="constrained")
        axes = made.subplots()
        for sigma, colour, marker in zip(SIGMAS, COLOURS, MARKERS, strict=True):
            line = frame[frame["row"] == row(sigma)]
            low, high = (line["mean"] + sign * line["std"].fillna(0) for sign in (-1, 1))
            every = max(1, len(line) // plots.MARKS)
            axes.plot(
                line["round"],
                line["mean"],
                color=colour,
                marker=marker,
                markevery=every,
                label=f"σ = {sigma}{style.mark(row(sigma))}",
            )
            axes.fill_between(line["round"], low, high, color=colour, alpha=0.15, linewidth=0)
        plots.whole_numbers(axes.xaxis)
        axes.set_xlabel("communication round")
        axes.set_ylabel("test accuracy (%)")
        axes.grid(alpha=0.25, linewidth=0.5)
        axes.legend()
        caption = found.caption("Line and band: mean and ± one sample standard deviation over seeds.")
        made.supxlabel(plots.wrapped(caption, 74), fontsize=6, color="0.35")
    return frame, made


PRIVACY = Drawing(
    title="rFedAvg+ with Gaussian noise on delta, MNIST, similarity 0%, cross-silo",
    published="Fig. 12",
    queries=queries,
    draw=draw,
    rows=lambda params: {row(sigma): f"σ = {sigma}" for sigma in SIGMAS},
)
