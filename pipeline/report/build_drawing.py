"""The stage of figures with a picture of their own: runs or partitions in, csv, svg, pdf and png out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from fedcore.errors import DataError
from fedcore.files import write_text
from pipeline.catalogue import Catalogue
from pipeline.report import captions, plots, style
from pipeline.report.collect import (
    UNKNOWN,
    Origin,
    has_diverged,
    lost,
    notes_of,
    one_kind,
    origin_of,
    refuse_changed,
)
from pipeline.report.style import labels
from pipeline.targets import Drawing, Found, Paper, PlannedRun


def build(
    catalogue: Catalogue, paper: str, target: str, outputs: Mapping[str, Path], root: Path = Path()
) -> None:
    """Draw a figure and write the numbers it was drawn from.

    Args:
        catalogue: where its runs are found.
        paper, target: which figure.
        outputs: a path for each of ``csv``, ``svg``, ``pdf`` and ``png``.
        root: the folder that holds results/.

    Raises:
        DataError: the target is no drawing, or a run can't be used.
    """
    drawing = catalogue.target(paper, target)
    if not isinstance(drawing, Drawing):
        raise DataError(f"reports/{paper}/{target}: is no drawing")
    cells = catalogue.cells(paper, target)
    runs = catalogue.needed(paper, target)
    one_kind(runs)
    refuse_changed(runs, root)
    gone = {} if drawing.needs == "partitions" else lost(cells, lambda run: has_diverged(run, root))
    told = captions.diverged(gone, labels(catalogue, paper, target), cells)
    said = partial(caption, drawing, catalogue.papers[paper], runs, root, told, origin=origin_of(runs, root))
    with style.marking(row for row, _ in gone):
        frame, made = drawing.draw(Found(catalogue.params.papers[paper], cells, root, said))
    scale = catalogue.params.scale
    frame = frame.assign(paper=paper, target=target, scale=scale)
    plots.save(made, {ending: outputs[ending] for ending in ("svg", "pdf", "png")})
    write_text(outputs["csv"], frame.to_csv(index=False, lineterminator="\n", float_format="%.6g"))


def caption(
    drawing: Drawing,
    paper: Paper,
    runs: list[PlannedRun],
    root: Path,
    diverged: str,
    *sentences: str,
    origin: Origin = UNKNOWN,
) -> str:
    """Say what the figure shows: title, its own sentences, diverged runs, scale and data, origin."""
    notes = [(paper.datasets.get(run.dataset, run.dataset), *notes_of(run, root)) for run in runs]
    kind = [captions.scale_and_variant(run.scale, str(run.spec["variant"])) for run in runs[:1]]
    said = (
        f"{drawing.title}.",
        *sentences,
        diverged,
        *kind,
        captions.data(notes),
        captions.origin(drawing.published, paper),
        captions.made(origin),
    )
    warning = captions.watermark(runs[0].scale) if runs else ""
    return captions.Caption(warning, tuple(filter(None, said))).text
