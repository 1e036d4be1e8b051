"""The grid searches of Sections IV-D and IV-E: scores on validation clients, the best candidate marked."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Column, Query
from pipeline.papers.radfed.settings import (
    METRICS,
    PARTITIONS,
    SETTINGS,
    TUNED,
    folds,
    metric_of,
    present,
    rounds,
)
from pipeline.papers.radfed.tables import data_of_column
from pipeline.reports.search import Choice, Option, Search, combinations, searches, seeds

DELAYS = (10, 15, 20, 22, 25, 28, 30, 50, 80, 100, 120)
SMALL = tuple(10.0**-digits for digits in range(2, 13, 2))
DECAYS = ("polynomial", "hinge", "constant")
SERVERS = ("adam", "adagrad", "yogi")
DELAY = Option("algorithm.redistributions", "S", DELAYS)
GRIDS = {
    "grid_radfed": Search("radfed", "RADFed", "Section IV-D", (DELAY,)),
    "grid_radfed_i": Search(
        "radfed_i",
        "RADFedi",
        "Section IV-D",
        (DELAY, Option("algorithm.gamma", "gamma", (0.6, 0.7, 0.8, 0.9, 0.95), (0.6, 0.9))),
    ),
    "grid_fedprox": Search(
        "fedprox", "FedProx", "Section IV-E", (Option("algorithm.mu", "mu", SMALL, (1e-2, 1e-4)),)
    ),
    "grid_fedasync": Search(
        "fedasync",
        "FedAsync",
        "Section IV-E",
        (
            Option("algorithm.rho", "rho", SMALL, (1e-4,)),
            Option("algorithm.alpha", "alpha", (0.3, 0.6, 0.9)),
            Option("algorithm.staleness", "decay", DECAYS),
        ),
    ),
    "grid_fedadapt": Search(
        "fedadapt",
        "FedAdapt",
        "Section IV-E",
        (
            Option("algorithm.server", "server", SERVERS),
            Option("algorithm.server_lr", "eta", (0.1, 0.01, 0.001, 0.0001), (0.1, 0.01, 0.001)),
            Option("algorithm.tau", "tau", (1e-2, 1e-4, 1e-8), (1e-4,)),
            Option("algorithm.v0", "v0", (0.0, 0.1, 0.01, 0.001), (0.0,)),
        ),
    ),
}


def columns(params: PaperParams) -> tuple[Column, ...]:
    """Return a column for each data set of Table II; Covertype is tuned with global standardisation."""
    settings = present(params)
    tuned = (key for key in (PARTITIONS[name][1] for name in TUNED) if key in settings)
    return tuple(Column(key, settings[key].label, METRICS[settings[key].metric]) for key in tuned)


def trained(params: PaperParams, column: str) -> int:
    """Return the rounds of local training of a data set, which are FedAvg's rounds."""
    return rounds(params, SETTINGS[column].query("fedavg"))


def delays(longest: int) -> tuple[float, ...]:
    """Return the paper's values of S that fit in the rounds; divisors of the rounds if few fit."""
    fitting = tuple(delay for delay in DELAYS if delay <= longest)
    return fitting if len(fitting) > 2 else tuple(d for d in range(2, longest + 1) if longest % d == 0)


@cache
def candidates(params: PaperParams, search: Search) -> dict[str, Choice]:
    """Return every combination of the options' values, by the name of its row."""
    longest = min(trained(params, column.key) for column in columns(params))
    return combinations(
        (option, delays(longest) if option is DELAY else option.tried(longest)) for option in search.options
    )


def query(params: PaperParams, column: str, search: Search, choice: Choice) -> Query:
    """Return a candidate's runs on the first fold; with S the rounds change, so all train as much."""
    changes: dict[str, Any] = dict(choice)
    if DELAY.key in choice:
        changes["training.rounds"] = trained(params, column) // int(choice[DELAY.key])
    asked = SETTINGS[column].query(search.method, changes.items())
    return replace(folds(params, asked)[0], seeds=seeds(params))


SEARCHES = searches(
    GRIDS,
    candidates,
    query,
    "Grid search of {}: scores on validation clients",
    lambda facts: metric_of(facts.run),
    columns=columns,
    dataset=data_of_column,
    note="Bold is what the search chooses, on the first fold; other hyperparameters as declared.",
)
