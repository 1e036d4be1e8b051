"""Fig. 6: divergence DC from centralised weights. Fig. 7: divergence DL between local updates."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from fedcore.errors import DataError
from fedcore.lazy import Figure, matplotlib, pd
from pipeline.papers.radfed.settings import SETTINGS, folds
from pipeline.report import plots, style
from pipeline.report.build_drawing import Drawing, Found
from pipeline.report.collect import summary_of
from pipeline.report.spread import line
from pipeline.schema import PaperParams
from pipeline.targets import Cell, PlannedRun, Query

METHODS = ("fedavg", "radfed")
SHOWN = ("shakespeare", "covfeat_l")
LONGEST = 100
Measure = Literal["centralised", "local"]


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return runs of the first fold that also train a centralised model and compare models."""
    observed = (("evaluation.divergence", True),)
    return {
        (name, key): folds(params, SETTINGS[key].query(name, observed))[0]
        for key in SHOWN
        for name in METHODS
    }


def measured(run: PlannedRun, root: Path) -> pd.DataFrame:
    """Return a run's divergences: lines with ``local``, ``centralised`` and ``inner``, by inner round.

    Raises:
        DataError: the run did not measure them, or is missing.
    """
    path = root / run.folder / "divergence.csv"
    if summary_of(run, root) is None or not path.exists():
        raise DataError(f"{path}: missing, but a report needs it; delete the folder and build it again")
    frame = pd.read_csv(path)
    delay = run.spec["algorithm"].get("redistributions", 1)
    return frame.assign(at=(frame["round"] - 1) * delay + frame["inner"]).set_index("at")


def lines_of(found: Found, measure: Measure) -> pd.DataFrame:
    """Return a line a method, data set and inner round in which any run measured it."""
    lines = []
    for cell, runs in found.cells.items():
        each = [measured(run, found.root)[measure].dropna() for run in runs]
        for at in sorted({int(number) for series in each for number in series.index}):
            lines.append(line(*cell, [float(series.get(at, float("nan"))) for series in each], round=at))
    return pd.DataFrame(lines)


def around_merging(found: Found) -> pd.DataFrame:
    """Return the mean DL of a run's inner rounds right after an aggregation, and right before the next."""
    lines = []
    for (name, key), runs in found.cells.items():
        each = [measured(run, found.root) for run in runs]
        first = [float(own.loc[own["inner"] == 1, "local"].mean()) for own in each]
        last = [float(own.loc[own["inner"] == own["inner"].max(), "local"].mean()) for own in each]
        lines += [line(name, f"{key}-after", first), line(name, f"{key}-before", last)]
    return pd.DataFrame(lines)


def draw_centralised(found: Found) -> tuple[pd.DataFrame, Figure]:
    """Draw DC over inner rounds, at each aggregation."""
    frame = lines_of(found, "centralised")
    said = (
        "DC is the distance of the global model from a centralised one that starts alike and trains on the "
        "same rows, pooled, relative to the latter's norm; it is known where local models are averaged."
    )
    return frame, _picture(found, frame, "DC", said)


def draw_local(found: Found) -> tuple[pd.DataFrame, Figure]:
    """Draw DL over inner rounds, the last hundred at most."""
    frame = lines_of(found, "local")
    shown = frame[frame["round"] > frame.groupby("column")["round"].transform("max") - LONGEST]
    said = "DL is the mean over pairs of clients of one minus the cosine of the models that they return." + (
        f" The last {LONGEST} rounds." if len(shown) < len(frame) else ""
    )
    return pd.concat([frame, around_merging(found)], ignore_index=True), _picture(found, shown, "DL", said)


def _picture(found: Found, frame: pd.DataFrame, axis: str, said: str) -> Figure:
    with matplotlib.rc_context(plots.SETTINGS):
        made = matplotlib.figure.Figure(figsize=(6.7, 2.9), layout="constrained")
        panels = made.subplots(1, len(SHOWN))
        for axes, key in zip(panels, SHOWN, strict=True):
            for name in METHODS:
                line = frame[(frame["row"] == name) & (frame["column"] == key)]
                look, std = style.look(name), line["std"].fillna(0)
                axes.plot(
                    line["round"],
                    line["mean"],
                    color=look.colour,
                    linestyle=look.line,
                    marker=look.marker,
                    markevery=max(1, len(line) // (2 * plots.MARKS)),
                    label=look.label,
                )
                axes.fill_between(
                    line["round"],
                    line["mean"] - std,
                    line["mean"] + std,
                    color=look.colour,
                    alpha=0.15,
                    linewidth=0,
                )
            axes.set_title(SETTINGS[key].label)
            plots.whole_numbers(axes.xaxis)
            axes.set_xlabel("round of local training")
            axes.set_ylabel(axis)
            axes.grid(alpha=0.25, linewidth=0.5)
        handles, labels = panels[0].get_legend_handles_labels()
        made.legend(handles, labels, loc="outside upper center", ncols=len(labels))
        seeds = int(frame["n"].max())
        band = f"Line and band: mean and ± one sample standard deviation over {seeds} seeds, first fold."
        alone = "One seed, so no spread is given; first fold."
        caption = found.caption(said, band if seeds > 1 else alone)
        made.supxlabel(plots.wrapped(caption), fontsize=6, color="0.35")
    return made


DIVERGENCES = {
    "fig6": Drawing(
        title="Divergence of the global model from centralised training",
        published="Fig. 6",
        queries=queries,
        draw=draw_centralised,
    ),
    "fig7": Drawing(
        title="Divergence between local models",
        published="Fig. 7",
        queries=queries,
        draw=draw_local,
    ),
}
