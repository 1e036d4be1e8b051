"""The figure stage: histories in, csv, svg, pdf and png out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from fedcore.errors import DataError
from fedcore.files import write_text
from fedcore.lazy import pd
from pipeline.catalogue import Catalogue
from pipeline.report import captions, plots, style
from pipeline.report.captions import Caption
from pipeline.report.collect import UNKNOWN, Origin, has_diverged, lost, made, origin_of, refuse_changed
from pipeline.report.curves import tidy
from pipeline.report.style import labels
from pipeline.targets import Curves, Paper

BAND = "Line and band: mean and ± one sample standard deviation"
SINCE = " from the round on in which they end"


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
    cells = catalogue.cells(paper, target)
    frame = tidy(paper, target, figure, cells, root, finished)
    gone = lost(cells, lambda run: has_diverged(run, root))
    told = captions.diverged(gone, labels(catalogue, paper, target), cells, SINCE)
    lacking = f"{len(runs)} of {len(asked)} runs are made." if len(runs) < len(asked) else ""
    said = caption(frame, figure, about, {run.seed for run in runs}, told, origin_of(runs, root), lacking)
    with style.marking(row for row, _ in gone):
        drawn = plots.draw(frame, figure, said.text)
    plots.save(drawn, {ending: outputs[ending] for ending in ("svg", "pdf", "png")})
    write_text(outputs["csv"], frame.to_csv(index=False, lineterminator="\n", float_format="%.6g"))


def caption(
    frame: pd.DataFrame,
    figure: Curves,
    paper: Paper,
    seeds: Collection[int],
    diverged: str,
    origin: Origin = UNKNOWN,
    lacking: str = "",
) -> Caption:
    """Say what the figure shows, from the lines that it was drawn from, and what they lack.

    Args:
        frame: these lines.
        figure, paper: its declaration, and that of its paper.
        seeds: the seeds of its runs.
        diverged: which runs diverged, from ``captions.diverged``.
        origin: where it comes from.
        lacking: which runs are still to come.
    """
    scale, variant = str(frame["scale"].iloc[0]), str(frame["variant"].iloc[0])
    labels = {panel.key: paper.datasets.get(panel.dataset, panel.dataset) for panel in figure.panels}
    sentences = (
        f"{figure.title}.",
        captions.note(figure, frame),
        captions.spread_of(seeds, int(frame["n"].max()), BAND, "a point"),
        lacking,
        diverged,
        captions.scale_and_variant(scale, variant),
        captions.data(captions.notes_of(frame, lambda row, column: labels[column])),
        captions.origin(figure.published, paper),
        captions.made(origin),
    )
    return Caption(captions.watermark(scale), tuple(filter(None, sentences)))
