"""Fig. 6: divergence DC from centralised weights. Fig. 7: divergence DL between local updates."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from fedcore.base.errors import DataError
from fedcore.base.lazy import Figure, pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, PlannedRun, Query
from pipeline.papers.radfed.settings import SETTINGS, folds
from pipeline.reports import figures, style
from pipeline.reports.drawings import Drawing, Found, Picture
from pipeline.reports.results import summary_of
from pipeline.reports.spread import line

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
    """Return one line per method, data set and inner round in which any run measured it."""
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


def draw_centralised(found: Found) -> Picture:
    """Draw DC over inner rounds, at each aggregation."""
    frame = lines_of(found, "centralised")
    meaning = (
        "DC is the distance of the global model from a centralised one that starts alike and trains on the "
        "same rows, pooled, relative to the latter's norm; it is known where local models are averaged."
    )
    return Picture(frame, *_drawn(frame, "DC", meaning))


def draw_local(found: Found) -> Picture:
    """Draw DL over inner rounds, the last hundred at most."""
    frame = lines_of(found, "local")
    shown = frame[frame["round"] > frame.groupby("column")["round"].transform("max") - LONGEST]
    meaning = "DL is the mean over pairs of clients of one minus the cosine of the models that they return."
    last = f" The last {LONGEST} rounds." if len(shown) < len(frame) else ""
    numbers = pd.concat([frame, around_merging(found)], ignore_index=True)
    return Picture(numbers, *_drawn(shown, "DL", meaning + last))


def _drawn(frame: pd.DataFrame, axis: str, meaning: str) -> tuple[Figure, tuple[str, ...]]:
    figure, known = figures.framed(2.9), style.looks(METHODS)
    for axes, key in zip(figure.subplots(1, len(SHOWN)), SHOWN, strict=True):
        figures.curves(axes, frame[frame["column"] == key], known, marks=2 * figures.MARKS)
        axes.set(title=SETTINGS[key].label, xlabel="round of local training", ylabel=axis)
    figures.legend(figure, known)
    seeds = int(frame["n"].max())
    band = f"Line and band: mean and ± one sample standard deviation over {seeds} seeds, first fold."
    alone = "One seed, so no spread is given; first fold."
    return figure, (meaning, band if seeds > 1 else alone)


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
