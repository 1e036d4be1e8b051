"""Agreement of measured with published numbers; results on a part of the data compare with none."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from fedcore.base.lazy import DataFrame, Series, pd, scipy
from pipeline.reports.significance import CONFIDENCE, FEWEST

PART = "subset"
SAME_ON_ANY_DATA = frozenset({"bytes"})
ON_A_PART: Final = "on a part of the data"
COLUMN = ["paper", "target", "column"]
POINTS, DEVIATIONS, SHARE = 1.0, 2.0, 0.05
CHANGE = "relative_percent"
ACCURACIES = frozenset({"percent", "auc_percent", "f1_percent"})
PERCENTAGES = ACCURACIES | {CHANGE, "score"}
ROUNDING = 1e-9
VERDICTS = AGREES, DIFFERS = "agrees", "differs"
RULE = (
    f"within {POINTS:g} percentage point or {DEVIATIONS:g} published standard deviations, whichever is more; "
    f"in other units {DEVIATIONS:g} published standard deviations, or {SHARE:.0%} of the published mean "
    "where no deviation is printed"
)


def stands_in(state: object, unit: object = "") -> bool:
    """Say whether a number was measured on a part of the data, and would differ on all of them.

    ``state`` are the states of a cell's data, as in a tidy table; anything but text says nothing. Bytes are
    counted from the model's shape, whatever the data.
    """
    return isinstance(state, str) and PART in state.split() and unit not in SAME_ON_ANY_DATA


@dataclass(frozen=True)
class Agreement:
    """The distance of a measured number to a published one. ``RULE`` says in words what is near.

    Attributes:
        mean: ours; NaN if there is none.
        published: the published mean; NaN if there is none.
        std: the published standard deviation; NaN if there is none.
        unit: the unit of both. A point is a margin for percentages only.
    """

    mean: float
    published: float
    std: float = math.nan
    unit: str = "percent"

    @property
    def difference(self) -> float:
        """Ours less the published mean; NaN where either is missing."""
        return self.mean - self.published

    @property
    def margin(self) -> tuple[float, str]:
        """How far from the published mean counts as near, in its unit, and by which part of the rule; NaN and
        empty where nothing is published.
        """
        if math.isnan(self.published):
            return math.nan, ""
        spread = 0.0 if math.isnan(self.std) else DEVIATIONS * self.std
        if self.unit in PERCENTAGES and spread <= POINTS:
            return POINTS, f"{POINTS:g} point"
        if spread > 0:
            return spread, f"{DEVIATIONS:g} published sd"
        return SHARE * abs(self.published), f"{SHARE:.0%} of the published mean"

    @property
    def near(self) -> bool | None:
        """Whether ours lies within the margin; None where either number is missing."""
        return self.within(1)

    @property
    def verdict(self) -> str:
        """``AGREES`` or ``DIFFERS``; empty where either number is missing."""
        return "" if self.near is None else AGREES if self.near else DIFFERS

    def within(self, margins: float) -> bool | None:
        """Whether ours lies within a number of margins; None if either number is missing."""
        if math.isnan(self.difference):
            return None
        return abs(self.difference) <= margins * self.margin[0] + ROUNDING


def agreements(frame: DataFrame) -> list[Agreement]:
    """Return each cell's agreement; cells are percentages unless the frame has a ``published_unit``."""
    units = frame.get("published_unit", pd.Series("percent", frame.index))
    cells = zip(frame["mean"], frame["published_mean"], frame["published_std"], units, strict=True)
    return [Agreement(*cell) for cell in cells]


def within_margin(frame: DataFrame) -> Series[bool]:
    """Say of each cell whether it lies near the published mean; missing where either is missing."""
    return pd.Series([agreement.near for agreement in agreements(frame)], frame.index, dtype="boolean")


def interval(frame: DataFrame, confidence: float = CONFIDENCE) -> DataFrame:
    """Return ``low`` and ``high`` of each cell's t-interval over seeds; missing for fewer than five runs."""
    runs = frame["n"].where(frame["n"] >= FEWEST)
    half = scipy.stats.t.ppf((1 + confidence) / 2, runs - 1) * frame["std"] / np.sqrt(runs)
    return pd.DataFrame({"low": frame["mean"] - half, "high": frame["mean"] + half}, index=frame.index)


def within_interval(frame: DataFrame, confidence: float = CONFIDENCE) -> Series[bool]:
    """Say of each cell whether the published mean lies in its t-interval; missing where there is none."""
    bounds, published = interval(frame, confidence), frame["published_mean"]
    inside = (bounds["low"] <= published) & (published <= bounds["high"])
    return inside.astype("boolean").where(bounds["low"].notna() & published.notna())


def ordering(frame: DataFrame) -> DataFrame:
    """Compare the order of the methods in each column with the published order.

    Returns:
        One line for each paper, target and column: ``methods``, how many have both numbers, and ``tau``,
        Kendall's tau-b (1: the same order, -1: the reverse; ties count in neither direction), missing for
        fewer than two methods or where one side is all ties.
    """
    lines = [(*key, *_tau(cells)) for key, cells in frame.groupby(COLUMN, sort=False)]
    return pd.DataFrame(lines, columns=[*COLUMN, "methods", "tau"])


def _tau(cells: DataFrame) -> tuple[int, float]:
    paired = cells.dropna(subset=["mean", "published_mean"])
    if paired["mean"].nunique() < 2 or paired["published_mean"].nunique() < 2:
        return len(paired), math.nan
    return len(paired), float(scipy.stats.kendalltau(paired["mean"], paired["published_mean"]).statistic)
