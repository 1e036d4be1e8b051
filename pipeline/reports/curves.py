"""Figures of curves over rounds: histories in, csv, svg, pdf and png out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedcore.base.errors import DataError
from fedcore.base.lazy import Figure, pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import FIGURE_FILES, Cell, PlannedRun, Query, Sources, Target
from pipeline.reports import captions, figures, style
from pipeline.reports.captions import Caption
from pipeline.reports.drawings import by_round
from pipeline.reports.results import (
    UNKNOWN,
    Origin,
    RunFacts,
    each_once,
    lost,
    made,
    origin_of,
    read,
    refuse_changed,
    require_one_scale,
)

BAND = "Line and band: mean and ± one sample standard deviation"
SINCE = " from the round on in which they end"


@dataclass(frozen=True)
class Panel:
    """One set of axes: a curve for each algorithm in one setting, or only for ``rows`` if given."""

    key: str
    label: str
    regime: str
    dataset: str
    split: str
    rows: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Curves(Target):
    """A figure of curves over rounds, mean and standard deviation over seeds.

    Attributes:
        panels: the sets of axes.
        metric: a column of a run's history.
        factor: what it is multiplied by.
        axis: label of the vertical axis.
        across: panels in a row.
        rows: the algorithms that have a curve; all of the paper's unless given.
        so_far: show the largest value up to each round.
        queries: several settings whose runs make up one curve, such as folds, given the parameters, panel and
            algorithm; the panel's own setting unless given.
        series: a run's facts -> its values by round, in the figure's unit; ``metric`` times ``factor`` unless
            given.
        horizontal: label of the horizontal axis.
        shared: whether all panels have the same horizontal axis.
        note: a sentence of its own for the caption, or what makes one of the tidy frame.
        names: what rows that are no algorithms are called in print.
    """

    kind = "curves"
    files = FIGURE_FILES
    kept = ("csv", "svg")
    panels: tuple[Panel, ...]
    metric: str = "test_accuracy"
    factor: float = 100.0
    axis: str = "test accuracy (%)"
    across: int = 2
    rows: tuple[str, ...] = ()
    so_far: bool = False
    queries: Callable[[PaperParams, Panel, str], tuple[Query, ...]] | None = None
    series: Callable[[RunFacts], pd.Series[float]] | None = None
    horizontal: str = "communication round"
    shared: bool = True
    note: str | Callable[[pd.DataFrame], str] = ""
    names: Mapping[str, str] = field(default_factory=dict)

    def row_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return what rows that are no algorithms are called in print."""
        del params
        return self.names

    def column_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return what panels are called in print."""
        del params
        return {panel.key: panel.label for panel in self.panels}

    def cells(self, params: PaperParams) -> Mapping[Cell, tuple[Query, ...]]:
        """Return the queries of each (algorithm, panel)."""
        return {
            (name, p.key): self._asked(params, p, name)
            for p in self.panels
            for name in p.rows or self.rows or params.algorithms
        }

    def _asked(self, params: PaperParams, panel: Panel, name: str) -> tuple[Query, ...]:
        if self.queries is not None:
            return self.queries(params, panel, name)
        return (Query(panel.regime, panel.dataset, panel.split, name),)

    def values(self, facts: RunFacts) -> pd.Series[float]:
        """Return what a run adds to its curve, by round."""
        values = self.series(facts) if self.series else facts.series(self.metric) * self.factor
        return values.cummax() if self.so_far else values

    def lacks(self, cells: Mapping[Cell, tuple[PlannedRun, ...]], here: Collection[str]) -> str:
        """Say how many curves have no run."""
        bare = sum(not any(run.folder in here for run in runs) for runs in cells.values())
        return f"{bare} of {len(cells)} curves have no run" if bare else ""

    def build(self, sources: Sources, outputs: Mapping[str, Path]) -> None:
        """Draw the figure and write the numbers that it was drawn from.

        Raises:
            DataError: a run can't be used, or the figure that is kept is of more runs.
        """
        root, before = sources.root, sources.earlier
        cells = read(sources.cells, root)
        done = [facts for facts in each_once(cells) if before is None or made(facts.run, root)]
        runs = [facts.run for facts in done]
        refuse_changed(runs, root)
        frame = tidy(sources.paper, sources.name, self, cells, before is not None)
        if before is not None and before.exists() and pd.read_csv(before)["n"].sum() > frame["n"].sum():
            raise DataError("the figure that is kept is of more runs")
        gone = lost(cells, lambda facts: facts.diverged)
        caption = self.caption(sources, gone, frame, runs, origin_of(done))
        with style.marking(row for row, _ in gone), figures.styled():
            figures.write(draw(frame, self), frame, caption, outputs)

    def caption(
        self,
        sources: Sources,
        gone: Mapping[Cell, tuple[int, int]],
        frame: pd.DataFrame,
        runs: Collection[PlannedRun],
        origin: Origin = UNKNOWN,
    ) -> Caption:
        """Say what the figure shows, and what it lacks.

        Args:
            sources: what it is built from.
            gone: how many runs of a curve diverged, of how many.
            frame: the lines that it was drawn from.
            runs: their runs.
            origin: where it comes from.
        """
        datasets = sources.about.datasets
        labels = {panel.key: datasets.get(panel.dataset, panel.dataset) for panel in self.panels}
        sentences = (
            f"{self.title}.",
            captions.note(self.note, frame),
            captions.spread_of({run.seed for run in runs}, int(frame["n"].max()), BAND, "a point"),
            f"{len(runs)} of {len(sources.runs)} runs are made." if len(runs) < len(sources.runs) else "",
            captions.diverged(gone, style.labels(sources), sources.cells, SINCE),
        )
        notes = captions.notes_of(frame, lambda row, column: labels[column])
        scale, variant = str(frame["scale"].iloc[0]), str(frame["variant"].iloc[0])
        return captions.compose(sentences, self.published, sources.about, scale, variant, notes, origin)


def tidy(
    paper: str,
    target: str,
    figure: Curves,
    cells: Mapping[Cell, Sequence[RunFacts]],
    finished: bool = False,
) -> pd.DataFrame:
    """Return one line for each algorithm (row), panel (column) and round in which any run measured it.

    Args:
        paper, target: names of what is collected.
        figure: which column of the histories, in what unit.
        cells: the runs of each (algorithm, panel); ``seeds`` of a line is how many.
        finished: leave out runs that are not made yet.

    Raises:
        DataError: a run is missing, foreign or damaged, or the runs are of several scales or variants.
    """
    known = {
        cell: [facts for facts in runs if not finished or facts.summary is not None]
        for cell, runs in cells.items()
    }
    runs = [facts.run for facts in each_once(known)]
    require_one_scale(runs)
    lines = by_round(known, lambda facts, panel: figure.values(facts))
    cell = list(zip(lines["row"], lines["column"], strict=True))
    notes = {key: own[0].notes for key, own in known.items() if own}
    lines["seeds"] = [len(cells[key]) for key in cell]
    lines.insert(0, "target", target)
    lines.insert(0, "paper", paper)
    return lines.assign(
        scale=runs[0].scale,
        variant=runs[0].spec["variant"],
        data=[notes[key][1] for key in cell],
        data_state=[notes[key][0] for key in cell],
    )


def draw(frame: pd.DataFrame, target: Curves) -> Figure:
    """Draw tidy curves, one panel per column, the legend above.

    Args:
        frame: lines of (row, column, round, mean, std).
        target: panels and labels.
    """
    titles = {panel.key: panel.label for panel in target.panels}
    height = 0.75 + 2.1 * -(-len(titles) // target.across)
    known = style.looks(frame["row"], target.names)
    figure, panels = figures.lines(frame, titles, known, height, target.across, sharex=target.shared)
    for place, axes in enumerate(panels.values()):
        axes.set(
            xlabel=target.horizontal if place + target.across >= len(panels) else "",
            ylabel="" if place % target.across else target.axis,
        )
    return figure
