"""Effects of methods over data sets: intervals, exact tests, verdicts, ranks, and what tuning is worth.

The unit of inference is the data set: its workloads and seeds are not independent of each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.lazy import DataFrame, Series, pd, scipy
from pipeline.reports.significance import CONFIDENCE, DIGITS, FEWEST, holm

DRAWS, TIE, ROUNDING = 100_000, 1, 1e-9
SMALL = np.uint16  # of numbers of data sets, workloads and runs; drawn faster than others
UNCORRECTED = "Intervals and verdicts are not corrected for how many there are."
RUN = ["dataset", "workload", "seed"]
Values = NDArray[np.float64]
Verdict = Literal["better", "equivalent", "worse", "undecided"]


@dataclass(frozen=True)
class Effect:
    """How far a method is ahead of another one, in points: the mean over data sets.

    Attributes:
        mean: of the data sets' means over their workloads.
        low, high: the 95% interval of a hierarchical bootstrap.
        p: of the exact sign-flip test over data sets.
        sets: how many data sets.
        wins: how likely the method is ahead on a workload, with one seed for both; ties count half.
    """

    mean: float
    low: float
    high: float
    p: float
    sets: int
    wins: float

    def line(self, row: str, column: str) -> dict[str, Any]:
        """Return it as a tidy line."""
        ends = {"mean": self.mean, "low": self.low, "high": self.high}
        return {"row": row, "column": column, **ends, "n": self.sets}

    @property
    def decides(self) -> bool:
        """Whether there are data sets enough for a verdict."""
        return self.sets >= FEWEST

    def verdict(self, margin: float) -> Verdict:
        """Return what the interval says of a difference of ``margin`` points; of few data sets, nothing."""
        if not self.decides:
            return "undecided"
        if self.low > margin:
            return "better"
        if self.high < -margin:
            return "worse"
        return "equivalent" if -margin <= self.low and self.high <= margin else "undecided"


def with_interval(line: Mapping[str, Any]) -> str:
    """Return an effect's tidy line in print; of one data set there is no interval over data sets."""
    text = "{mean:+.2f} ({low:+.2f} to {high:+.2f})" if line["n"] > 1 else "{mean:+.2f}"
    return text.format_map(line)


def effect(scores: DataFrame, method: str, base: str) -> Effect | None:
    """Return a method's effect against another one, paired by workload and seed.

    ``scores`` has a line for each run: ``method``, ``dataset``, ``workload``, ``seed`` and ``score``. None
    where the two have no workload in common.
    """
    ours, theirs = (scores[scores["method"] == name].set_index(RUN)["score"] for name in (method, base))
    gains = (ours - theirs).dropna()
    if gains.empty:
        return None
    nested = [[run.to_numpy() for _, run in part.groupby("workload")] for _, part in gains.groupby("dataset")]
    means = np.array([np.mean([runs.mean() for runs in workloads]) for workloads in nested])
    edge = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(bootstrap(nested), [edge, 100 - edge]).tolist()
    wins = [(1 + np.sign(runs.round(DIGITS)).mean()) / 2 for workloads in nested for runs in workloads]
    return Effect(float(means.mean()), low, high, sign_flip(means), len(means), float(np.mean(wins)))


def ahead(scores: DataFrame, base: str) -> DataFrame:
    """Return how far each method (column) is ahead of the base on each data set: a mean over workloads.

    NaN where the base has no run.
    """
    wide = scores.pivot_table(index=RUN, columns="method", values="score")
    return wide.sub(wide.get(base, np.nan), axis=0).groupby(RUN[:2]).mean().groupby(RUN[0]).mean()


def bootstrap(nested: Sequence[Sequence[Values]], draws: int = DRAWS, seed: int = 0) -> Values:
    """Return means [draws] of data sets drawn with replacement, then workloads in each, then runs in each.

    ``nested`` holds a list for each data set, of an array of runs' differences for each of its workloads.
    """
    rng, sets = np.random.default_rng(seed), len(nested)
    picked = rng.integers(sets, size=(draws, sets), dtype=SMALL)
    means = np.empty((draws, sets))
    for number, workloads in enumerate(nested):
        at = np.nonzero(picked == number)
        which = rng.integers(len(workloads), size=(len(at[0]), len(workloads)), dtype=SMALL)
        drawn = np.empty(which.shape)
        for index, runs in enumerate(workloads):
            chosen = which == index
            size = (int(chosen.sum()), len(runs))
            drawn[chosen] = runs[rng.integers(len(runs), size=size, dtype=SMALL)].mean(axis=1)
        means[at] = drawn.mean(axis=1)
    return means.mean(axis=1)  # type: ignore[no-any-return]


def sign_flip(differences: Values) -> float:
    """Return the two-sided p-value of differences [n] that are symmetric about zero if nothing differs.

    It is the share of all 2^n changes of signs whose sum is as large as the observed one; of more than 16
    differences, of 100,000 random changes and the one observed.
    """
    if len(differences) < 2:
        return 1.0
    kind: Any = {"permutation_type": "samples", "n_resamples": 10**5, "rng": 0}
    return float(scipy.stats.permutation_test((differences,), np.sum, **kind).pvalue)


def corrected(effects: Mapping[str, Effect], families: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return Holm's p-values of the methods of each family, corrected for that whole family alone."""
    known = {name: effect.p for name, effect in effects.items()}
    by_family = (holm({name: known.get(name, 1.0) for name in names}) for names in families.values())
    return {name: p for of_family in by_family for name, p in of_family.items() if name in effects}


def mean_ranks(scores: DataFrame) -> Series[float]:
    """Return each method's mean rank over the workloads on which all of these have a score, 1 the best.

    Scores that agree in their first decimal tie.
    """
    return shared(scores).round(TIE).rank(ascending=False).mean(axis=1)


def shared(scores: DataFrame) -> DataFrame:
    """Return each method's mean score on the workloads (columns) that all methods have."""
    return scores.pivot_table(index="method", columns="workload", values="score").dropna(axis=1)


def expected_best(values: Sequence[float], trials: int) -> float:
    """Return E(n), the expected best of so many of the values, drawn without replacement.

    It is the U-statistic sum_i C(i - 1, n - 1) / C(N, n) v_(i) over the values in increasing order; the
    formula of Dodge et al. (EMNLP 2019) is its biased form.
    """
    ordered, ways = sorted(values), comb(len(values), trials)
    return sum(comb(index, trials - 1) / ways * value for index, value in enumerate(ordered))


def profiles(scores: DataFrame, ratios: Sequence[float]) -> DataFrame:
    """Return, by method, the share of its workloads on which its error is within each ratio of the least one.

    ``scores`` are per cent; a method counts on those workloads on which it has some. Dolan and More, 2002.
    """
    error = 100 - scores.pivot_table(index="method", columns="workload", values="score")
    relative = error / error.min().clip(lower=ROUNDING)
    return pd.DataFrame(
        {ratio: (relative <= ratio + ROUNDING).where(relative.notna()).mean(axis=1) for ratio in ratios}
    )
