"""How far results agree with published numbers: cell by cell, and in the order of the methods.

All functions are pure and take a tidy table: one line a cell with ``paper``, ``target``, ``row``, ``column``,
``mean``, ``std``, ``n``, ``published_mean`` and ``published_std``.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

TABLE = ["paper", "target"]
COLUMN = [*TABLE, "column"]
POINTS, DEVIATIONS, SHARE, CONFIDENCE = 1.0, 2.0, 0.05, 0.95
CHANGE = "relative_percent"
PERCENTAGES = frozenset({"percent", CHANGE, "auc_percent", "f1_percent", "score"})
ROUNDING = 1e-9


def margin(
    mean: float, std: float, unit: str = "percent", points: float = POINTS, deviations: float = DEVIATIONS
) -> tuple[float, str]:
    """Return how far from a published mean counts as near, and by which rule.

    For percentages ``points`` or ``deviations`` published standard deviations, the larger of the two; a point
    means nothing in other units, so there it is the deviations, or 5% of the mean where none is published.
    """
    spread = 0.0 if math.isnan(std) else deviations * std
    if unit in PERCENTAGES and spread <= points:
        return points, f"{points:g} point" + ("" if points == 1 else "s")
    if spread > 0:
        return spread, f"{deviations:g} published sd"
    return SHARE * abs(mean), f"{SHARE:.0%} of the published mean"


def within_margin(
    frame: pd.DataFrame, points: float = POINTS, deviations: float = DEVIATIONS
) -> pd.Series[bool]:
    """Say of each cell whether it lies near the published mean; missing where either is missing.

    What is near, ``margin`` says; cells are percentages unless the frame has a ``published_unit``.
    """
    units = frame["published_unit"] if "published_unit" in frame else ["percent"] * len(frame)
    lines = zip(frame["published_mean"], frame["published_std"], units, strict=True)
    allowed = pd.Series(
        [margin(*line, points, deviations)[0] for line in lines], index=frame.index, dtype=float
    )
    difference = frame["mean"] - frame["published_mean"]
    return _known(difference.abs() <= allowed + ROUNDING, difference.notna())


def interval(frame: pd.DataFrame, confidence: float = CONFIDENCE) -> pd.DataFrame:
    """Return ``low`` and ``high`` of each cell's t-interval over seeds; missing for fewer than two runs."""
    from scipy import stats

    runs = frame["n"].where(frame["n"] >= 2)
    half = stats.t.ppf((1 + confidence) / 2, runs - 1) * frame["std"] / np.sqrt(runs)
    return pd.DataFrame({"low": frame["mean"] - half, "high": frame["mean"] + half}, index=frame.index)


def within_interval(frame: pd.DataFrame, confidence: float = CONFIDENCE) -> pd.Series[bool]:
    """Say of each cell whether the published mean lies in its t-interval; missing where there is none."""
    bounds = interval(frame, confidence)
    published = frame["published_mean"]
    inside = (bounds["low"] <= published) & (published <= bounds["high"])
    return _known(inside, bounds["low"].notna() & published.notna())


def ordering(frame: pd.DataFrame) -> pd.DataFrame:
    """Compare the order of the methods in each column with the published order.

    Returns:
        One line for each paper, target and column: ``methods``, how many have both numbers, and ``tau``,
        Kendall's tau-b (1: the same order, -1: the reverse; ties count in neither direction), missing for
        fewer than two methods or where one side is all ties.
    """
    lines = [(*key, *_tau(own)) for key, own in frame.groupby(COLUMN, sort=False)]
    return pd.DataFrame(lines, columns=[*COLUMN, "methods", "tau"])


def summary(
    frame: pd.DataFrame,
    points: float = POINTS,
    deviations: float = DEVIATIONS,
    confidence: float = CONFIDENCE,
) -> pd.DataFrame:
    """Return one line a table: how much of it agrees with what was published.

    Returns:
        ``cells`` that have a published number, ``compared`` of them that have ours, ``within_margin`` and
        ``within_interval`` as shares of the cells where the question can be asked (missing where there are
        none), and ``tau``, the mean over columns.
    """
    marked = frame.assign(
        margin=within_margin(frame, points, deviations).astype(float),
        inside=within_interval(frame, confidence).astype(float),
        both=(frame["mean"] - frame["published_mean"]).notna(),
    )
    table = (
        marked[marked["published_mean"].notna()]
        .groupby(TABLE, sort=False)
        .agg(
            cells=("published_mean", "size"),
            compared=("both", "sum"),
            within_margin=("margin", "mean"),
            within_interval=("inside", "mean"),
        )
    )
    return table.join(ordering(frame).groupby(TABLE, sort=False)["tau"].mean()).reset_index()


def _tau(own: pd.DataFrame) -> tuple[int, float]:
    from scipy import stats

    both = own.dropna(subset=["mean", "published_mean"])
    constant = both["mean"].nunique() < 2 or both["published_mean"].nunique() < 2
    if constant:
        return len(both), float("nan")
    return len(both), float(stats.kendalltau(both["mean"], both["published_mean"]).statistic)


def _known(answer: pd.Series[bool], asked: pd.Series[bool]) -> pd.Series[bool]:
    return answer.astype("boolean").where(asked)
