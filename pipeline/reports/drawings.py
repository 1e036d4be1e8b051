"""Figures with a picture of their own: runs or partitions in, csv, svg, pdf and png out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fedcore.base.files import write_text
from fedcore.base.lazy import Figure, pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import FIGURE_FILES, Cell, PlannedRun, Query, Sources, Target
from pipeline.reports import captions, figures, style
from pipeline.reports.captions import Caption
from pipeline.reports.render import csv
from pipeline.reports.results import (
    UNKNOWN,
    Origin,
    has_diverged,
    lost,
    notes_of,
    origin_of,
    refuse_changed,
    require_one_scale,
)


@dataclass(frozen=True)
class Found:
    """What a drawing is given.

    Attributes:
        params: the paper's parameters.
        cells: the runs of each (row, column).
        root: the folder that holds results/.
    """

    params: PaperParams
    cells: Mapping[Cell, tuple[PlannedRun, ...]]
    root: Path


class Picture(NamedTuple):
    """What a drawing returns: tidy numbers, their figure, and its own sentences for the caption."""

    numbers: pd.DataFrame
    figure: Figure
    sentences: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Drawing(Target):
    """A figure with a picture of its own.

    Attributes:
        queries: the runs of each (row, column), of one setting or of several, given the paper's parameters.
        draw: returns the tidy numbers and the figure that was drawn from them.
        rows: label of each row by key, where they are no algorithms.
    """

    kind = "drawing"
    files = FIGURE_FILES
    kept = ("csv", "svg")
    queries: Callable[[PaperParams], Mapping[Cell, Query | tuple[Query, ...]]]
    draw: Callable[[Found], Picture]
    rows: Callable[[PaperParams], Mapping[str, str]] | None = None

    def row_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return what rows that are no algorithms are called in print."""
        own = {} if self.rows is None else self.rows(params)
        return {row: label for row, label in own.items() if label}

    def cells(self, params: PaperParams) -> Mapping[Cell, tuple[Query, ...]]:
        """Return the queries of each cell."""
        asked = self.queries(params)
        return {cell: own if isinstance(own, tuple) else (own,) for cell, own in asked.items()}

    def lacks(self, cells: Mapping[Cell, tuple[PlannedRun, ...]], here: Collection[str]) -> str:
        """Say how many of its runs are here, where that are not all."""
        needed = {run.folder for runs in cells.values() for run in runs}
        if needed <= {*here}:
            return ""
        return f"a figure needs all of its {len(needed)} runs, {len(here)} are here"

    def build(self, found: Sources, outputs: Mapping[str, Path]) -> None:
        """Draw the figure and write the numbers that it was drawn from."""
        require_one_scale(found.runs)
        refuse_changed(found.runs, found.root)
        partitions = self.needs == "partitions"
        gone = {} if partitions else lost(found.cells, lambda run: has_diverged(run, found.root))
        origin = origin_of(found.runs, found.root)
        with style.marking(row for row, _ in gone), figures.styled():
            frame, figure, sentences = self.draw(Found(found.params, found.cells, found.root))
            caption = self.caption(found, gone, *sentences, origin=origin)
            figures.save(figures.captioned(figure, caption.text), outputs)
        frame = frame.assign(paper=found.paper, target=found.name, scale=found.scale)
        write_text(outputs["csv"], csv(frame))

    def caption(
        self,
        found: Sources,
        gone: Mapping[Cell, tuple[int, int]],
        *sentences: str,
        origin: Origin = UNKNOWN,
    ) -> Caption:
        """Say what the figure shows: title, its own sentences, diverged runs, scale and data, origin."""
        datasets, runs = found.about.datasets, found.runs
        notes = [(datasets.get(run.dataset, run.dataset), *notes_of(run, found.root)) for run in runs]
        said = (
            f"{self.title}.",
            *sentences,
            captions.diverged(gone, style.labels(found), found.cells),
            *(captions.scale_and_variant(run.scale, str(run.spec["variant"])) for run in runs[:1]),
            captions.data(notes),
            captions.origin(self.published, found.about),
            captions.made(origin),
        )
        return Caption(captions.watermark(found.scale) if runs else "", tuple(filter(None, said)))
