"""Figures with a picture of their own: runs or partitions in, csv, svg, pdf and png out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fedcore.base.lazy import Figure, pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import FIGURE_FILES, Cell, PlannedRun, Query, Sources, Target
from pipeline.reports import captions, figures, style
from pipeline.reports.captions import Caption
from pipeline.reports.results import (
    UNKNOWN,
    Origin,
    RunFacts,
    each_once,
    lost,
    origin_of,
    read,
    refuse_changed,
    require_one_scale,
)

Values = Sequence[float | None]


@dataclass(frozen=True)
class Inputs:
    """What a drawing is given.

    Attributes:
        params: the paper's parameters.
        cells: the runs of each (row, column).
    """

    params: PaperParams
    cells: Mapping[Cell, tuple[RunFacts, ...]]


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
    draw: Callable[[Inputs], Picture]
    rows: Callable[[PaperParams], Mapping[str, str]] | None = None

    def row_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return what rows that are no algorithms are called in print."""
        return self.rows(params) if self.rows else {}

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

    def build(self, sources: Sources, outputs: Mapping[str, Path]) -> None:
        """Draw the figure and write the numbers that it was drawn from."""
        require_one_scale(sources.runs)
        refuse_changed(sources.runs, sources.root)
        cells = read(sources.cells, sources.root)
        gone = {} if self.needs == "partitions" else lost(cells, lambda facts: facts.diverged)
        origin = origin_of(each_once(cells))
        with style.marking(row for row, _ in gone), figures.styled():
            frame, figure, sentences = self.draw(Inputs(sources.params, cells))
            frame = frame.assign(paper=sources.paper, target=sources.name, scale=sources.scale)
            figures.write(figure, frame, self.caption(sources, gone, *sentences, origin=origin), outputs)

    def caption(
        self,
        sources: Sources,
        gone: Mapping[Cell, tuple[int, int]],
        *sentences: str,
        origin: Origin = UNKNOWN,
    ) -> Caption:
        """Say what the figure shows: title, its own sentences, diverged runs, scale and data, origin."""
        about, runs = sources.about, each_once(read(sources.cells, sources.root))
        notes = [(about.datasets.get(own.run.dataset, own.run.dataset), *own.notes) for own in runs]
        every = (
            f"{self.title}.",
            *sentences,
            captions.diverged(gone, style.labels(sources), sources.cells),
        )
        scale, variant = (sources.scale, str(runs[0].run.spec["variant"])) if runs else ("", "")
        return captions.compose(every, self.published, about, scale, variant, notes, origin)


def drawing(
    title: str,
    published: str,
    queries: Callable[[PaperParams], Mapping[Cell, Query | tuple[Query, ...]]],
    **more: Any,
) -> Callable[[Callable[[Inputs], Picture]], Drawing]:
    """Declare a drawing by the function that draws it; the arguments are those of ``Drawing``."""
    return lambda draw: Drawing(title=title, published=published, queries=queries, draw=draw, **more)


def each(
    methods: Collection[str],
    settings: Mapping[str, tuple[str, str, str]],
    *changes: tuple[str, Any],
) -> Callable[[PaperParams], Mapping[Cell, Query]]:
    """Return the queries of each method in each setting, all methods of the paper if none are given.

    Args:
        methods: the rows.
        settings: regime, data set and split of each column.
        changes: what all runs change.
    """
    return lambda params: {
        (name, column): Query(*setting, name, changes)
        for column, setting in settings.items()
        for name in methods or params.algorithms
    }


def line(row: str, column: str, values: Values, **more: Any) -> dict[str, Any]:
    """Return one tidy line; a run without a number (None or not finite) counts in ``seeds``, not in ``n``."""
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    return {
        "row": row,
        "column": column,
        **more,
        "mean": statistics.fmean(known) if known else math.nan,
        "std": statistics.stdev(known) if len(known) > 1 else math.nan,
        "n": len(known),
        "seeds": len(values),
    }


def over_seeds(
    cells: Mapping[Cell, Sequence[RunFacts]], value: Callable[[RunFacts], float | None]
) -> pd.DataFrame:
    """Return one line per cell."""
    return pd.DataFrame([line(*cell, [value(facts) for facts in runs]) for cell, runs in cells.items()])


def by_round(
    cells: Mapping[Cell, Sequence[RunFacts]], series: Callable[[RunFacts, str], pd.Series[float]]
) -> pd.DataFrame:
    """Return one line per cell and round that any of its runs measured.

    Args:
        cells: the runs of each (row, column).
        series: (run's facts, column) -> its values by round.
    """
    lines = []
    for cell, runs in cells.items():
        every = [series(facts, cell[1]).dropna() for facts in runs]
        for number in sorted({int(at) for own in every for at in own.index}):
            lines.append(line(*cell, [own.get(number) for own in every], round=number))
    return pd.DataFrame(lines)
