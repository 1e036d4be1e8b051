"""Fig. 6: divergence DC from centralised weights. Fig. 7: divergence DL between local updates."""

from __future__ import annotations

from fedcore.base.lazy import Figure, pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, Query
from pipeline.papers.radfed.settings import SETTINGS, folds
from pipeline.reports import figures, style
from pipeline.reports.drawings import Inputs, Picture, by_round, drawing, line
from pipeline.reports.results import RunFacts

METHODS = ("fedavg", "radfed")
SHOWN = ("shakespeare", "covfeat_l")
LONGEST = 100


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return runs of the first fold that also train a centralised model and compare models."""
    observed = (("evaluation.divergence", True),)
    return {
        (name, key): folds(params, SETTINGS[key].query(name, observed))[0]
        for key in SHOWN
        for name in METHODS
    }


def measured(facts: RunFacts) -> pd.DataFrame:
    """Return a run's divergences: lines with ``local``, ``centralised`` and ``inner``, by inner round.

    Raises:
        DataError: the run did not measure them, or is missing.
    """
    frame = facts.table("divergence.csv")
    delay = facts.run.spec["algorithm"].get("redistributions", 1)
    return frame.assign(at=(frame["round"] - 1) * delay + frame["inner"]).set_index("at")


def around_merging(inputs: Inputs) -> pd.DataFrame:
    """Return the mean DL of a run's inner rounds right after an aggregation, and right before the next."""
    lines = []
    for (name, key), runs in inputs.cells.items():
        every = [measured(facts) for facts in runs]
        first = [float(own.loc[own["inner"] == 1, "local"].mean()) for own in every]
        last = [float(own.loc[own["inner"] == own["inner"].max(), "local"].mean()) for own in every]
        lines += [line(name, f"{key}-after", first), line(name, f"{key}-before", last)]
    return pd.DataFrame(lines)


@drawing("Divergence of the global model from centralised training", "Fig. 6", queries)
def centralised(inputs: Inputs) -> Picture:
    """Draw DC over inner rounds, at each aggregation."""
    frame = by_round(inputs.cells, lambda facts, key: measured(facts)["centralised"])
    meaning = (
        "DC is the distance of the global model from a centralised one that starts alike and trains on the "
        "same rows, pooled, relative to the latter's norm; it is known where local models are averaged."
    )
    return Picture(frame, *_drawn(frame, "DC", meaning))


@drawing("Divergence between local models", "Fig. 7", queries)
def local(inputs: Inputs) -> Picture:
    """Draw DL over inner rounds, the last hundred at most."""
    frame = by_round(inputs.cells, lambda facts, key: measured(facts)["local"])
    shown = frame[frame["round"] > frame.groupby("column")["round"].transform("max") - LONGEST]
    meaning = "DL is the mean over pairs of clients of one minus the cosine of the models that they return."
    last = f" The last {LONGEST} rounds." if len(shown) < len(frame) else ""
    numbers = pd.concat([frame, around_merging(inputs)], ignore_index=True)
    return Picture(numbers, *_drawn(shown, "DL", meaning + last))


def _drawn(frame: pd.DataFrame, axis: str, meaning: str) -> tuple[Figure, tuple[str, ...]]:
    titles, labels = {key: SETTINGS[key].label for key in SHOWN}, ("round of local training", axis)
    options = {"marks": 2 * figures.MARKS}
    figure, _ = figures.lines(frame, titles, style.looks(METHODS), 2.9, 2, labels, options=options)
    seeds = int(frame["n"].max())
    band = f"Line and band: mean and ± one sample standard deviation over {seeds} seeds, first fold."
    alone = "One seed, so no spread is given; first fold."
    return figure, (meaning, band if seeds > 1 else alone)
