"""Grid searches for what the paper does not say: scores on rows that no test and no training sees."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import PlannedRun, Query
from pipeline.papers.fedavgr.tables import DATASETS, sets, split
from pipeline.reports.search import Choice, Option, combinations, labels, seeds, validation_score
from pipeline.reports.tables import Table

HELD_OUT: tuple[tuple[str, Any], ...] = (("partition.validation", 0.2), ("evaluation.validation", True))
GRIDS: Mapping[str, tuple[str, str, tuple[Option, ...]]] = {
    "search_fedavg": (
        "fedavg",
        "FedAvg",
        (
            Option("model.sigma", "sigma", (0.03, 0.1, 0.3, 1.0, 3.0), (0.1, 0.3)),
            Option("training.lr", "lr", (0.005, 0.02, 0.08, 0.32), (0.02, 0.08)),
        ),
    ),
    "search_fedprox": (
        "fedprox",
        "FedProx",
        (Option("algorithm.mu", "mu", (0.001, 0.01, 0.1, 1.0), (0.01, 0.1)),),
    ),
    "search_fedavgr": (
        "fedavgr",
        "FedAvgR",
        (
            # values that were tried after the others come last: of equal candidates the first is chosen
            Option("algorithm.beta", "beta", (0.001, 0.01, 0.1, 0.0001), (0.01, 0.1)),
            Option("algorithm.gamma", "gamma", (0.1, 1.0, 10.0, 0.01), (1.0,)),
        ),
    ),
}


@cache
def candidates(params: PaperParams, options: tuple[Option, ...]) -> dict[str, Choice]:
    """Return every combination of the values that runs of Table 2 are long enough to tell apart."""
    rounds = params.regimes["table2"].training.rounds or 0
    return combinations((option, option.tried(rounds)) for option in options)


def validation_accuracy(run: PlannedRun, root: Path, column: str) -> float | None:
    """Return a run's last accuracy on validation rows in per cent; None if it diverged."""
    del column
    return validation_score(run, root)


def grid(method: str, label: str, options: tuple[Option, ...]) -> Table:
    """Declare the search for one method: one row per candidate, one column per data set."""

    def rows(params: PaperParams) -> dict[str, str]:
        return labels(candidates(params, options), options)

    def queries(params: PaperParams, row: str, column: str) -> tuple[Query, ...]:
        choice = candidates(params, options)[row]
        changes = (*HELD_OUT, *choice.items())
        return (Query("table2", column, split(column), method, changes, seeds(params)),)

    return Table(
        title=f"Grid search of {label}: accuracy on a fifth of each client's rows",
        published="Section 5",
        columns=sets(DATASETS),
        rows=rows,
        queries=queries,
        measure=validation_accuracy,
        test="none",
        heading="Candidate",
        search=True,
        note="Bold is what the search chooses; other hyperparameters as declared.",
    )


SEARCHES: Mapping[str, Table] = {name: grid(*about) for name, about in GRIDS.items()}
