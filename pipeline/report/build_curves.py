"""The figure stage: histories in, csv, svg, pdf and png out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd

from fedcore.errors import DataError
from fedcore.files import write_text
from pipeline.catalogue import Catalogue
from pipeline.report import captions, plots
from pipeline.report.captions import Caption
from pipeline.report.collect import UNKNOWN, Origin, made, origin_of, refuse_changed
from pipeline.report.curves import tidy
from pipeline.targets import Curves, Paper

BAND = "Line and band: mean and ± one sample standard deviation"
FEWER = "At some rounds fewer runs were measured, as some diverged."


def build(
    catalogue: Catalogue,
    paper: str,
    target: str,
    outputs: Mapping[str, Path],
    root: Path = Path(),
    finished: bool = False,
) -> None:
    """Draw a figure of curves and write the numbers it was drawn from.

    Args:
        catalogue: where its runs are found.
        paper, target: which figure.
        outputs: a path for each of ``csv``, ``svg``, ``pdf`` and ``png``.
        root: the folder that holds results/.
        finished: draw the runs that are made, where others are still to come.

    Raises:
        DataError: the target is no figure of curves, or a run can't be used.
    """
    figure = catalogue.target(paper, target)
    if not isinstance(figure, Curves):
        raise DataError(f"reports/{paper}/{target}: is no figure of curves")
    about = catalogue.papers[paper]
    asked = catalogue.needed(paper, target)
    runs = [run for run in asked if not finished or made(run, root)]
    refuse_changed(runs, root)
    frame = tidy(paper, target, figure, catalogue.cells(paper, target), root, finished)
    lacking = f"{len(runs)} of {len(asked)} runs are made." if len(runs) < len(asked) else ""
    said = caption(frame, figure, about, {run.seed for run in runs}, origin_of(runs, root), lacking)
    drawn = plots.draw(frame, figure, said.text)
    plots.save(drawn, {ending: outputs[ending] for ending in ("svg", "pdf", "png")})
    write_text(outputs["csv"], frame.to_csv(index=False, lineterminator="\n", float_format="%.6g"))


def caption(
    frame: pd.DataFrame,
    figure: Curves,
    paper: Paper,
    seeds: Collection[int],
    origin: Origin = UNKNOWN,
    lacking: str = "",
) -> Caption:
    """Say what the figure shows, from the lines that it was drawn from, and what they lack."""
    scale, variant = str(frame["scale"].iloc[0]), str(frame["variant"].iloc[0])
    labels = {panel.key: paper.datasets.get(panel.dataset, panel.dataset) for panel in figure.panels}
    sentences = (
        f"{figure.title}.",
        captions.note(figure, frame),
        captions.spread_of(seeds, int(frame["n"].max()), BAND, "a point"),
        lacking,
        FEWER if (frame["n"] < frame.groupby(["row", "column"])["n"].transform("max")).any() else "",
        captions.scale_and_variant(scale, variant),
        captions.data(captions.notes_of(frame, lambda row, column: labels[column])),
        captions.origin(figure.published, paper),
        captions.made(origin),
    )
    return Caption(captions.watermark(scale), tuple(filter(None, sentences)))
