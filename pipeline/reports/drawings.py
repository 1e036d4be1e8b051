"""Figures, curves over rounds or pictures of their own: runs or partitions in, csv, svg, pdf and png out."""

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.base.files import write_text
from fedcore.base.lazy import DataFrame, Figure, Series, pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Asked, Cell, Query, Sources, Target
from pipeline.reports import captions, figures, results, style
from pipeline.reports.render import csv, figure_in_latex, md
from pipeline.reports.results import Published, RunFacts, each_once, lost, read

Values = Sequence[float | None]
Cells = Mapping[Cell, Sequence[RunFacts]]
SINCE = " from the round on in which they end"


class Inputs(NamedTuple):
    """What a drawing is given: the paper's parameters, and the runs and published number of (row, column)."""

    params: PaperParams
    cells: Mapping[Cell, tuple[RunFacts, ...]]
    published: Mapping[Cell, Published] = {}
    marked: Collection[str] = ()

    def looks(self, names: Iterable[str]) -> dict[str, style.Look]:
        """Return how algorithms look, those ``marked`` that lack diverged runs."""
        return style.marked(style.looks(names), self.marked)

    def spread(self, numbers: DataFrame, what: str = figures.SPREAD, each: str = "a point") -> str:
        """Say over which seeds ``what`` is drawn, and of how many runs ``each`` of the tidy numbers is."""
        seeds = {facts.run.seed for facts in each_once(self.cells)}
        return captions.spread_of(seeds, numbers["n"].astype(int), what, each)


class Picture(NamedTuple):
    """What a drawing returns: tidy numbers, their figure, and its own sentences for the caption."""

    numbers: DataFrame
    figure: Figure
    sentences: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Drawing(Target):
    """A figure with a picture of its own.

    ``lacking``: in which part of the figure diverged runs have no numbers; in all of it by default.
    """

    kind = "drawing"
    kept = ("csv", "svg", "caption")
    draw: Callable[[Inputs], Picture]
    lacking: str = ""

    def build(self, sources: Sources, outputs: Mapping[str, Path]) -> None:
        """Draw the figure and write the numbers that it was drawn from."""
        results.require_one_scale(sources.runs)
        results.refuse_changed(sources.runs, sources.root)
        cells = read(sources.cells, sources.root, sources.kept_folder)
        lost_runs = {} if self.needs == "partitions" else lost(cells, lambda facts: facts.diverged)
        lacks = captions.diverged(lost_runs, style.labels(sources), sources.cells, self.lacking)
        with figures.styled(sources.layout.columns):
            inputs = Inputs(sources.params, cells, _published(sources), {row for row, _ in lost_runs})
            frame, figure, sentences = self.draw(inputs)
            frame = frame.assign(paper=sources.paper, target=sources.name, scale=sources.scale)
            write(sources, Picture(frame, figure, (*sentences, lacks)), each_once(cells), outputs)


@dataclass(frozen=True, kw_only=True)
class Curves(Target):
    """A figure of curves over rounds, mean and standard deviation over seeds.

    Attributes:
        panels: the sets of axes by the columns of ``queries``, with what they are called in print.
        metric: a column of a run's history.
        factor: what it is multiplied by.
        axis: label of the vertical axis.
        across: panels in a row.
        so_far: show the largest value up to each round.
        series: a run's facts -> its values by round, in the figure's unit; ``metric`` times ``factor`` unless
            given.
        horizontal: label of the horizontal axis.
        shared: whether all panels have the same horizontal axis.
        note: a sentence of its own for the caption, or what makes one of the tidy frame.
        beside: the table whose published numbers are drawn, its columns being rounds.
    """

    kind = "curves"
    kept = ("csv", "svg", "caption")
    panels: Mapping[str, str]
    metric: str = "test_accuracy"
    factor: float = 100.0
    axis: str = "test accuracy (%)"
    across: int = 2
    so_far: bool = False
    series: Callable[[RunFacts], Series[float]] | None = None
    horizontal: str = "communication round"
    shared: bool = True
    note: captions.Note = ""
    beside: str = ""

    def column_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return what panels are called in print."""
        return self.panels

    def build(self, sources: Sources, outputs: Mapping[str, Path]) -> None:
        """Draw the figure and write the numbers that it was drawn from; DataError if a run can't be used."""
        kept_folder = sources.kept_folder
        cells = read(sources.cells, sources.root, kept_folder)
        drawn = {
            cell: tuple(facts for facts in runs if kept_folder is None or facts.has_history)
            for cell, runs in cells.items()
        }
        runs = each_once(drawn)
        results.refuse_changed((facts.run for facts in runs), sources.root)
        frame = self.tidy(sources.paper, sources.name, drawn)
        keys = zip(frame["row"], frame["column"], strict=True)
        frame = frame.assign(seeds=[len(cells[key]) for key in keys])
        lost_runs = lost(cells, lambda facts: facts.diverged)
        sentences = (
            captions.note(self.note, frame),
            Inputs(sources.params, drawn).spread(frame),
            "Each panel has its own vertical axis." if len(self.panels) > 1 else "",
            f"{len(runs)} of {len(sources.runs)} runs are drawn." if len(runs) < len(sources.runs) else "",
            captions.diverged(lost_runs, style.labels(sources), sources.cells, SINCE),
        )
        with figures.styled(sources.layout.columns):
            figure = self.figure_of(frame, sources, {row for row, _ in lost_runs})
            write(sources, Picture(frame, figure, sentences), runs, outputs)

    def tidy(self, paper: str, target: str, cells: Cells) -> DataFrame:
        """Return one line for each algorithm (row), panel (column) and round in which any run measured it.

        Raises DataError if a run is missing, foreign or damaged, or they are of several scales or variants.
        """

        def series(facts: RunFacts, panel: str) -> Series[float]:
            values = self.series(facts) if self.series else facts.series(self.metric) * self.factor
            return values.cummax() if self.so_far else values

        runs = [facts.run for facts in each_once(cells)]
        results.require_one_scale(runs)
        lines = by_round(cells, series)
        lines.insert(0, "paper", paper)
        lines.insert(1, "target", target)
        notes = [cells[key][0].notes for key in zip(lines["row"], lines["column"], strict=True)]
        states, data = zip(*notes, strict=True)
        return lines.assign(
            scale=runs[0].scale, variant=runs[0].spec["variant"], data=data, data_state=states
        )

    def figure_of(self, frame: DataFrame, sources: Sources, marked: Collection[str] = ()) -> Figure:
        """Draw tidy curves, one panel per column, the legend above, with published numbers by round."""
        across = figures.fitting(self.across)
        height = 0.75 + 2.1 * math.ceil(len(self.panels) / across)
        looks = style.marked(style.looks(frame["row"], self.row_labels(sources.params)), marked)
        last = frame.groupby("row")["round"].max()
        known = _published(sources, self.beside)
        shown = [(row, int(at), c.mean) for (row, at), c in known.items() if int(at) <= last.get(row, -1)]
        legend = looks | ({"published": figures.PUBLISHED} if shown else {})
        spread, share = frame["std"].fillna(0), "%" in self.axis
        ends = {"low": frame["mean"] - spread, "high": frame["mean"] + spread}
        frame = frame.assign(**{name: end.clip(0, 100) if share else end for name, end in ends.items()})
        figure, panels = figures.lines(frame, self.panels, legend, height, across, sharex=self.shared)
        for index, (panel, axes) in enumerate(panels.items()):
            axes.set(
                xlabel=self.horizontal if index + across >= len(panels) else "",
                ylabel="" if index % across else self.axis,
            )
            rows = {*frame[frame["column"] == panel]["row"]}
            for row, at, mean in shown:
                if row in rows:
                    figures.published(axes, [at], [mean], looks[row].colour)
            if share:
                low, high = axes.get_ylim()
                axes.set_ylim(max(0, low), min(100, high))
        return figure


def write(sources: Sources, picture: Picture, runs: Sequence[RunFacts], outputs: Mapping[str, Path]) -> None:
    """Write a figure of these runs, its caption as Markdown and in a figure of LaTeX, and its numbers."""
    target, paper, layout = sources.target, sources.declared, sources.layout
    scale, variant = (sources.scale, str(runs[0].run.spec["variant"])) if runs else ("", "")
    notes = [(paper.datasets.get(name := facts.run.dataset, name), *facts.notes) for facts in runs]
    texts = (f"{target.title}.", *picture.sentences)
    origin = captions.origin_of(runs if target.needs == "runs" else ())
    caption = captions.compose(texts, target.published, paper, scale, variant, notes, origin)
    first, rest = caption.divided()
    paragraphs = filter(None, [f"{caption.watermark} {first}".strip(), rest])
    write_text(outputs["caption"], "\n\n".join(map(md, paragraphs)) + "\n")
    spans = layout.columns == 2 and picture.figure.get_figwidth() > style.COLUMN
    write_text(outputs["tex"], figure_in_latex(sources.paper, sources.name, caption, spans))
    figure = figures.captioned(picture.figure, caption.text) if layout.captions else picture.figure
    figures.save(figure, outputs)
    write_text(outputs["csv"], csv(picture.numbers))


def _published(sources: Sources, target: str = "") -> Mapping[Cell, Published]:
    numbers = sources.declared.numbers if sources.layout.published else None
    return results.published_cells(numbers, target or sources.name)


def drawing(
    title: str, published: str, queries: Callable[[PaperParams], Asked] = lambda params: {}, **more: Any
) -> Callable[[Callable[[Inputs], Picture]], Drawing]:
    """Declare a drawing by the function that draws it; the arguments are those of ``Drawing``."""
    return lambda draw: Drawing(title=title, published=published, queries=queries, draw=draw, **more)


def each(
    methods: Collection[str], settings: Mapping[str, tuple[str, str, str]], *changes: tuple[str, Any]
) -> Callable[[PaperParams], Mapping[Cell, Query]]:
    """Return the queries of each method in each setting, all methods of the paper if none are given.

    ``settings`` are regime, data set and split of each column; ``changes`` hold for all runs.
    """
    return lambda params: {
        (name, column): Query(*setting, name, changes)
        for column, setting in settings.items()
        for name in methods or params.algorithms
    }


def line(row: str, column: str, values: Values, **more: Any) -> dict[str, Any]:
    """Return one tidy line; a run without a number (None or not finite) counts in ``seeds``, not in ``n``."""
    numbers = [float(value) for value in values if value is not None and math.isfinite(value)]
    return {
        "row": row,
        "column": column,
        **more,
        "mean": statistics.fmean(numbers) if numbers else math.nan,
        "std": statistics.stdev(numbers) if len(numbers) > 1 else math.nan,
        "n": len(numbers),
        "seeds": len(values),
    }


def over_seeds(cells: Cells, value: Callable[[RunFacts], float | None]) -> DataFrame:
    """Return one line per cell."""
    return pd.DataFrame([line(*cell, [value(facts) for facts in runs]) for cell, runs in cells.items()])


def by_label(counts: NDArray[np.int64], **more: str) -> DataFrame:
    """Return one line per client and class of a partition, given the rows of each [clients, classes]."""
    clients, classes = np.indices(counts.shape).reshape(2, -1)
    return pd.DataFrame({**more, "client": clients, "class": classes, "rows": counts.ravel()})


def by_round(cells: Cells, series: Callable[[RunFacts, str], Series[float]]) -> DataFrame:
    """Return one line per cell and round that any of its runs measured, given a run's values by round."""
    lines = []
    for cell, runs in cells.items():
        curves = pd.DataFrame({index: series(facts, cell[1]) for index, facts in enumerate(runs)})
        rounds = curves.dropna(how="all").sort_index()
        lines += [line(*cell, values, round=int(at)) for at, *values in rounds.itertuples(name=None)]
    return pd.DataFrame(lines)
