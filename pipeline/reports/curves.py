"""Figures of curves over rounds: histories in, csv, svg, pdf and png out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedcore.base.errors import DataError
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
    history_of,
    lost,
    made,
    notes_of,
    origin_of,
    refuse_changed,
    require_one_scale,
)

BAND = "Line and band: mean and ± one sample standard deviation"
SINCE = " from the round on in which they end"
KEYS = ["row", "column", "round"]


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
        series: (run, folder of results/) -> a run's values by round, in the figure's unit; ``metric`` times
            ``factor`` unless given.
        horizontal: label of the horizontal axis.
        shared: whether all panels have the same horizontal axis.
        note: a sentence of its own for the caption, or what makes one of the tidy frame.
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
    series: Callable[[PlannedRun, Path], pd.Series[float]] | None = None
    horizontal: str = "communication round"
    shared: bool = True
    note: str | Callable[[pd.DataFrame], str] = ""

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

    def lacks(self, cells: Mapping[Cell, tuple[PlannedRun, ...]], here: Collection[str]) -> str:
        """Say how many curves have no run."""
        bare = sum(not any(run.folder in here for run in runs) for runs in cells.values())
        return f"{bare} of {len(cells)} curves have no run" if bare else ""

    def build(self, found: Sources, outputs: Mapping[str, Path]) -> None:
        """Draw the figure and write the numbers that it was drawn from.

        Raises:
            DataError: a run can't be used, or the figure that is kept is of more runs.
        """
        finished = found.earlier is not None
        runs = [run for run in found.runs if not finished or made(run, found.root)]
        refuse_changed(runs, found.root)
        frame = tidy(found.paper, found.name, self, found.cells, found.root, finished)
        before = found.earlier
        if before is not None and before.exists() and pd.read_csv(before)["n"].sum() > frame["n"].sum():
            raise DataError("the figure that is kept is of more runs")
        gone = lost(found.cells, lambda run: has_diverged(run, found.root))
        said = self.caption(found, gone, frame, runs, origin_of(runs, found.root))
        with style.marking(row for row, _ in gone), figures.styled():
            figures.save(figures.captioned(draw(frame, self), said.text), outputs)
        write_text(outputs["csv"], csv(frame))

    def caption(
        self,
        found: Sources,
        gone: Mapping[Cell, tuple[int, int]],
        frame: pd.DataFrame,
        runs: Collection[PlannedRun],
        origin: Origin = UNKNOWN,
    ) -> Caption:
        """Say what the figure shows, and what it lacks.

        Args:
            found: what it is built from.
            gone: how many runs of a curve diverged, of how many.
            frame: the lines that it was drawn from.
            runs: their runs.
            origin: where it comes from.
        """
        scale, variant = str(frame["scale"].iloc[0]), str(frame["variant"].iloc[0])
        datasets = found.about.datasets
        labels = {panel.key: datasets.get(panel.dataset, panel.dataset) for panel in self.panels}
        sentences = (
            f"{self.title}.",
            captions.note(self.note, frame),
            captions.spread_of({run.seed for run in runs}, int(frame["n"].max()), BAND, "a point"),
            f"{len(runs)} of {len(found.runs)} runs are made." if len(runs) < len(found.runs) else "",
            captions.diverged(gone, style.labels(found), found.cells, SINCE),
            captions.scale_and_variant(scale, variant),
            captions.data(captions.notes_of(frame, lambda row, column: labels[column])),
            captions.origin(self.published, found.about),
            captions.made(origin),
        )
        return Caption(captions.watermark(scale), tuple(filter(None, sentences)))


def tidy(
    paper: str,
    target: str,
    figure: Curves,
    cells: Mapping[tuple[str, str], Sequence[PlannedRun]],
    root: Path = Path(),
    finished: bool = False,
) -> pd.DataFrame:
    """Return one line for each algorithm (row), panel (column) and round in which any run measured it.

    Args:
        paper, target: names of what is collected.
        figure: which column of the histories, in what unit.
        cells: the runs of each (algorithm, panel); ``seeds`` of a line is how many.
        root: the folder that holds results/.
        finished: leave out runs that are not made yet.

    Raises:
        DataError: a run is missing, foreign or damaged, or the runs are of several scales or variants.
    """
    asked = [(cell, run) for cell, found in cells.items() for run in found]
    runs = [(cell, run) for cell, run in asked if not finished or made(run, root)]
    require_one_scale([run for _, run in runs])
    long = pd.concat([_history(cell, run, figure, root) for cell, run in runs], ignore_index=True)
    grouped = long.groupby(KEYS, sort=False)
    lines = grouped["value"].agg(mean="mean", std="std", n="count").reset_index()
    lines["seeds"] = [len(cells[cell]) for cell in zip(lines["row"], lines["column"], strict=True)]
    notes = grouped[["data_state", "data"]].first().reset_index(drop=True)
    lines.insert(0, "target", target)
    lines.insert(0, "paper", paper)
    first = runs[0][1]
    lines = lines.assign(
        scale=first.scale, variant=first.spec["variant"], data=notes["data"], data_state=notes["data_state"]
    )
    return lines[lines["n"] > 0].reset_index(drop=True)


def _history(cell: tuple[str, str], run: PlannedRun, figure: Curves, root: Path) -> pd.DataFrame:
    values = figure.series(run, root) if figure.series else measured(run, figure.metric, root) * figure.factor
    state, note = notes_of(run, root)
    return pd.DataFrame(
        {
            "row": cell[0],
            "column": cell[1],
            "round": values.index,
            "value": (values.cummax() if figure.so_far else values).to_numpy(),
            "data": note,
            "data_state": state,
        }
    )


def measured(run: PlannedRun, metric: str, root: Path) -> pd.Series[float]:
    """Return a column of a run's history by round.

    Raises:
        DataError: the run is missing, foreign or damaged, or did not measure that.
    """
    history = history_of(run, root)
    if metric not in history:
        path = root / run.folder / "history.csv"
        raise DataError(f"{path}: no column '{metric}'; there are {', '.join(history.columns)}")
    return history.set_index("round")[metric]


def draw(frame: pd.DataFrame, target: Curves) -> Figure:
    """Draw tidy curves, one panel per column, the legend above.

    Args:
        frame: lines of (row, column, round, mean, std).
        target: panels and labels.
    """
    down = -(-len(target.panels) // target.across)
    figure, known = figures.framed(0.75 + 2.1 * down), style.looks(frame["row"])
    axes = figure.subplots(down, target.across, sharex=target.shared, squeeze=False)
    for place, panel in zip(axes.flat, target.panels, strict=False):
        figures.curves(place, frame[frame["column"] == panel.key], known)
        place.set(title=panel.label, xlabel="", ylabel="")
    for place in axes[:, 0]:
        place.set_ylabel(target.axis)
    for place in axes[-1]:
        place.set_xlabel(target.horizontal)
    for place in axes.flat[len(target.panels) :]:
        place.set_visible(False)
    figures.legend(figure, known)
    return figure
