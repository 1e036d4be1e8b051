"""What clients hold together: the data of a cohort, or of the clients that a model visits in turn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.partitions.stats import c_score
from pipeline.reports.results import RunFacts

GROUPS = 1000


def pooled(facts: RunFacts, size: int, again: bool = False) -> NDArray[np.int64]:
    """Return how many rows of each class random groups of clients hold, [groups, classes].

    Args:
        facts: a run, whose partition is looked at.
        size: clients of a group, or visits.
        again: whether a client may be in a group more than once, as where a model visits it again.
    """
    counts = np.array(facts.statistics["label_counts"])
    rng = np.random.default_rng(facts.run.seed)
    groups = [rng.choice(len(counts), size, replace=again) for _ in range(GROUPS)]
    totals: NDArray[np.int64] = np.array([counts[group].sum(axis=0) for group in groups])
    return totals


def skew(groups: NDArray[np.int64]) -> float:
    """Return the class non-IID score of groups in per cent of the score that it can't exceed."""
    return 50 * c_score(groups)


def variation(groups: NDArray[np.int64]) -> float:
    """Return the standard deviation of the groups' rows in per cent of their mean."""
    sizes: NDArray[Any] = groups.sum(axis=1)
    return float(100 * sizes.std() / sizes.mean())
