"""Which methods of a column are not significantly worse than its best: paired tests, Holm's correction.

Two runs make a pair where they share seed and partition (and with it the fold), so that all that differs
between them is the method.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np

from fedcore.base.lazy import DataFrame, pd, scipy
from pipeline.catalogue.targets import Best, Test

ALPHA, CONFIDENCE = 0.05, 0.95
FEWEST = 5  # pairs of runs, or data sets: with fewer there is no test, interval or verdict
DIGITS = 9
Samples = Mapping[str, float]

FEW_PAIRS = "fewer than five pairs of runs"
LEVEL = "differences without spread"
ALONE = "one complete method"
UNASKED = "no test is asked for"


@dataclass(frozen=True)
class Comparison:
    """A column's methods against its best one.

    Attributes:
        best: the row with the best mean over complete cells; None if there is none, or no best is asked for.
        p: the two-sided p-value of each tested row, corrected.
        untested: the other complete rows, with the reason.
        pairs: the number of pairs of each tested row.
        why: why no row could be tested; empty where one was.
    """

    best: str | None = None
    p: Mapping[str, float] = field(default_factory=dict)
    untested: Mapping[str, str] = field(default_factory=dict)
    pairs: Mapping[str, int] = field(default_factory=dict)
    why: str = UNASKED


def format_samples(samples: Samples) -> str:
    """Return runs' numbers as one text: ``pair=number pair=number``."""
    return " ".join(f"{pair}={value:.10g}" for pair, value in samples.items())


def parse_samples(text: object) -> dict[str, float]:
    """Return the numbers of a text that ``format_samples`` made; none of a missing one."""
    parts = text.split() if isinstance(text, str) else []
    return {pair: float(value) for pair, _, value in (part.rpartition("=") for part in parts)}


def complete(frame: DataFrame) -> dict[str, dict[str, Samples]]:
    """Return the runs' numbers of a tidy table's cells without a missing run, by column and row."""
    samples: dict[str, dict[str, Samples]] = {}
    cells = frame[(frame["n"] == frame["seeds"]) & (frame["n"] > 0)]
    for row, key, text in cells[["row", "column", "values"]].itertuples(index=False):
        samples.setdefault(key, {})[str(row)] = parse_samples(text)
    return samples


def compare(samples: Mapping[str, Samples], kind: Best, test: Test) -> Comparison:
    """Test each row against the row with the best mean.

    ``samples`` holds each row's numbers by pair; the test is the paired t-test or the signed-rank test.
    """
    if kind == "none" or not samples:
        return Comparison()
    means = {row: math.fsum(runs.values()) / len(runs) for row, runs in samples.items()}
    choose = max if kind == "largest" else min
    best = choose(means, key=means.__getitem__)
    if test == "none":
        return Comparison(best)
    differences = {row: np.round(values, DIGITS) for row, values in _differences(samples, best).items()}
    untested = {row: why for row, values in differences.items() if (why := _untestable(values))}
    tested = {row: values for row, values in differences.items() if row not in untested}
    nonzero = max((int(np.count_nonzero(values)) for values in tested.values()), default=0)
    least = len(tested) * 2.0 ** (1 - nonzero)  # the smallest p-value that the signed-rank test can find
    if test == "wilcoxon" and tested and least >= ALPHA:
        most = max(map(len, tested.values()))
        untested |= dict.fromkeys(tested, f"{most} pairs of runs, too few to reach p < {ALPHA:g}")
        tested = {}
    p = holm({row: paired(values, test) for row, values in tested.items()})
    why = "" if tested else next(iter(untested.values()), ALONE)
    return Comparison(best, p, untested, {row: len(values) for row, values in tested.items()}, why)


def paired(differences: Sequence[float] | np.ndarray, test: Test) -> float:
    """Return the two-sided p-value of differences by the t-test or the signed-rank test; 1 without spread."""
    rounded = np.round(differences, DIGITS)
    if len(rounded) < 2 or np.ptp(rounded) == 0:
        return 1.0
    return _p_value(tuple(rounded.tolist()), test)


@cache
def _p_value(differences: tuple[float, ...], test: Test) -> float:
    run = scipy.stats.wilcoxon if test == "wilcoxon" else partial(scipy.stats.ttest_1samp, popmean=0.0)
    return float(run(np.array(differences)).pvalue)


def equivalent(samples: Mapping[str, Samples], base: str, margin: float) -> dict[str, tuple[float, float]]:
    """Return how far each row is from the row ``base`` on average, with the corrected p-value of ``within``.

    Rows of fewer than five pairs are left out.
    """
    by_row = _differences(samples, base).items()
    differences = {row: values for row, values in by_row if len(values) >= FEWEST}
    p = holm({row: within(values, margin) for row, values in differences.items()})
    return {row: (float(values.mean()), p[row]) for row, values in differences.items()}


def within(differences: np.ndarray, margin: float) -> float:
    """Return the p-value of two one-sided t-tests that differences [n] average ``margin`` or more.

    A small one shows that two methods are equivalent. Schuirmann, 1987.
    """
    rounded = np.round(differences, DIGITS)
    if np.ptp(rounded) == 0:
        return float(abs(rounded[0]) >= margin)
    sides = ((-margin, "greater"), (margin, "less"))
    return max(float(scipy.stats.ttest_1samp(rounded, at, alternative=side).pvalue) for at, side in sides)


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Return p-values corrected for their number by Holm's step-down method (1979)."""
    ordered = pd.Series(p, dtype=float).sort_values(kind="stable")
    corrected = (ordered * np.arange(len(p), 0, -1)).clip(upper=1.0).cummax()
    return {row: float(corrected[row]) for row in p}


def with_p(frame: DataFrame, compared: Mapping[str, Comparison]) -> DataFrame:
    """Return the frame with ``p_best``: a cell's corrected p-value against the best of its column."""
    lines = zip(frame["row"], frame["column"], strict=True)
    p = [compared.get(column, Comparison()).p.get(row, math.nan) for row, column in lines]
    return frame.assign(p_best=p)


def _differences(samples: Mapping[str, Samples], base: str) -> dict[str, np.ndarray]:
    """Return the differences of each other row from the row ``base``, over the pairs that both have."""
    first = samples.get(base, {})
    return {
        row: np.array([value - first[pair] for pair, value in runs.items() if pair in first])
        for row, runs in samples.items()
        if row != base
    }


def _untestable(differences: np.ndarray) -> str:
    if len(differences) < FEWEST:
        return FEW_PAIRS
    return LEVEL if np.ptp(differences) == 0 else ""
