"""Grid searches for what the paper does not say: scores on rows that no test and no training sees."""

from __future__ import annotations

from functools import cache

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Query
from pipeline.papers.fedavgr.tables import DATASETS, sets, split
from pipeline.reports.search import Choice, Option, Search, combinations, searches, seeds

HELD_OUT = (("partition.validation", 0.2), ("evaluation.validation", True))
GRIDS = {
    "search_fedavg": Search(
        "fedavg",
        "FedAvg",
        "Section 5",
        (
            Option("model.sigma", "sigma", (0.03, 0.1, 0.3, 1.0, 3.0), (0.1, 0.3)),
            Option("training.lr", "lr", (0.005, 0.02, 0.08, 0.32), (0.02, 0.08)),
        ),
    ),
    "search_fedprox": Search(
        "fedprox",
        "FedProx",
        "Section 5",
        (Option("algorithm.mu", "mu", (0.001, 0.01, 0.1, 1.0), (0.01, 0.1)),),
    ),
    "search_fedavgr": Search(
        "fedavgr",
        "FedAvgR",
        "Section 5",
        (
            # values that were tried after the others come last: of equal candidates the first is chosen
            Option("algorithm.beta", "beta", (0.001, 0.01, 0.1, 0.0001), (0.01, 0.1)),
            Option("algorithm.gamma", "gamma", (0.1, 1.0, 10.0, 0.01), (1.0,)),
        ),
    ),
}


@cache
def candidates(params: PaperParams, search: Search) -> dict[str, Choice]:
    """Return every combination of the values that runs of Table 2 are long enough to tell apart."""
    rounds = params.regimes["table2"].training.rounds or 0
    return combinations((option, option.tried(rounds)) for option in search.options)


def query(params: PaperParams, column: str, search: Search, choice: Choice) -> Query:
    """Return the runs of a candidate on a data set."""
    return Query("table2", column, split(column), search.method, (*HELD_OUT, *choice.items()), seeds(params))


SEARCHES = searches(
    GRIDS,
    candidates,
    query,
    "Grid search of {}: accuracy on a fifth of each client's rows",
    columns=sets(DATASETS),
    note="Bold is what the search chooses; other hyperparameters as declared.",
)
