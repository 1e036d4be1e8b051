"""What clients hold together: the data of a cohort, or of the clients that a model visits in turn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.partitions.stats import c_score
from pipeline.reports.results import RunFacts

GROUPS = 1000


def pooled(facts: RunFacts, size: int, again: bool = False) -> NDArray[np.int64]:
    """Return how many rows of each class random groups of a run's clients hold, [groups, classes].

    A group has ``size`` clients, or visits, if a client may be in it ``again``.
    """
    counts = np.array(facts.statistics["label_counts"])
    rng = np.random.default_rng(facts.run.seed)
    groups = (rng.choice(len(counts), size, replace=again) for _ in range(GROUPS))
    return np.array([counts[group].sum(axis=0) for group in groups], np.int64)


def skew(groups: NDArray[np.int64]) -> float:
    """Return the class non-IID score of groups in per cent of the score that it can't exceed."""
    return 50 * c_score(groups)


def variation(groups: NDArray[np.int64]) -> float:
    """Return the standard deviation of the groups' rows in per cent of their mean."""
    sizes: NDArray[Any] = groups.sum(axis=1)
    return float(100 * sizes.std() / sizes.mean())
