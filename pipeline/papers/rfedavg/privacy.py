"""Fig. 12: Gaussian noise on the mean features that clients of rFedAvg+ send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, Query
from pipeline.reports import figures, spread, style
from pipeline.reports.drawings import Drawing, Found, Picture
from pipeline.reports.style import Look

if TYPE_CHECKING:
    pass

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


def draw(found: Found) -> Picture:
    """Draw accuracy over rounds, a curve for each strength."""
    frame = spread.by_round(found.cells, "test_accuracy", 100.0, found.root)
    known = {
        row(sigma): Look(f"σ = {sigma}{style.mark(row(sigma))}", colour, marker)
        for sigma, colour, marker in zip(SIGMAS, COLOURS, MARKERS, strict=True)
    }
    figure = figures.framed(3.5, figures.NARROW)
    axes = figure.subplots()
    figures.curves(axes, frame, known)
    axes.set_ylabel("test accuracy (%)")
    figures.legend(figure, known, across=3)
    return Picture(frame, figure, (figures.BAND,))


PRIVACY = Drawing(
    title="rFedAvg+ with Gaussian noise on delta, MNIST, similarity 0%, cross-silo",
    published="Fig. 12",
    queries=queries,
    draw=draw,
    rows=lambda params: {row(sigma): f"σ = {sigma}" for sigma in SIGMAS},
)
