"""The grid searches of Sections IV-D and IV-E: scores on validation clients, the best candidate marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Column, PlannedRun, Query
from pipeline.papers.radfed.settings import METRICS, SETTINGS, folds, metric_of, rounds
from pipeline.papers.radfed.tables import data_of_column
from pipeline.reports.search import Choice, Option, combinations, labels, seeds, validation_score
from pipeline.reports.tables import Table

TUNED = ("covcls_g", "covfeat_g", "mnist_1", "mnist_01", "cifar10", "shakespeare", "eicu")
DELAYS = (10, 15, 20, 22, 25, 28, 30, 50, 80, 100, 120)
SMALL = tuple(10.0**-digits for digits in range(2, 13, 2))
DECAYS = ("polynomial", "hinge", "constant")
SERVERS = ("adam", "adagrad", "yogi")
DELAY = Option("algorithm.redistributions", "S", DELAYS, ())
GRIDS: Mapping[str, tuple[str, str, tuple[Option, ...]]] = {
    "grid_radfed": ("radfed", "RADFed", (DELAY,)),
    "grid_radfed_i": (
        "radfed_i",
        "RADFedi",
        (DELAY, Option("algorithm.gamma", "gamma", (0.6, 0.7, 0.8, 0.9, 0.95), (0.6, 0.9))),
    ),
    "grid_fedprox": ("fedprox", "FedProx", (Option("algorithm.mu", "mu", SMALL, (1e-2, 1e-4)),)),
    "grid_fedasync": (
        "fedasync",
        "FedAsync",
        (
            Option("algorithm.rho", "rho", SMALL, (1e-4,)),
            Option("algorithm.alpha", "alpha", (0.3, 0.6, 0.9), (0.3, 0.6, 0.9)),
            Option("algorithm.staleness", "decay", DECAYS, DECAYS),
        ),
    ),
    "grid_fedadapt": (
        "fedadapt",
        "FedAdapt",
        (
            Option("algorithm.server", "server", SERVERS, SERVERS),
            Option("algorithm.server_lr", "eta", (0.1, 0.01, 0.001, 0.0001), (0.1, 0.01, 0.001)),
            Option("algorithm.tau", "tau", (1e-2, 1e-4, 1e-8), (1e-4,)),
            Option("algorithm.v0", "v0", (0.0, 0.1, 0.01, 0.001), (0.0,)),
        ),
    ),
}


def columns(params: PaperParams) -> tuple[Column, ...]:
    """Return a column for each data set of Table II; Covertype is tuned with global standardisation."""
    declared = (key for key in TUNED if SETTINGS[key].dataset in params.datasets)
    return tuple(Column(key, SETTINGS[key].label, METRICS[SETTINGS[key].metric]) for key in declared)


def trained(params: PaperParams, column: str) -> int:
    """Return the rounds of local training of a data set, which are FedAvg's rounds."""
    return rounds(params, SETTINGS[column].query("fedavg"))


def delays(longest: int) -> tuple[float, ...]:
    """Return the paper's values of S that fit in the rounds; divisors of the rounds if few fit."""
    fitting = tuple(delay for delay in DELAYS if delay <= longest)
    return fitting if len(fitting) > 2 else tuple(d for d in range(2, longest + 1) if longest % d == 0)


@cache
def candidates(params: PaperParams, options: tuple[Option, ...]) -> dict[str, Choice]:
    """Return every combination of the options' values, by the name of its row."""
    longest = min(trained(params, column.key) for column in columns(params))
    return combinations(
        (option, delays(longest) if option is DELAY else option.tried(longest)) for option in options
    )


def changes(params: PaperParams, column: str, choice: Choice) -> tuple[tuple[str, Any], ...]:
    """Return the changes that a candidate makes; with S the rounds change, so that clients train as much."""
    found: list[tuple[str, Any]] = list(choice.items())
    if DELAY.key in choice:
        found.append(("training.rounds", trained(params, column) // int(choice[DELAY.key])))
    return tuple(found)


def score(run: PlannedRun, root: Path, column: str) -> float | None:
    """Return a run's last score on validation clients in per cent; None if it diverged."""
    del column
    return validation_score(run, root, metric_of(run))


def grid(method: str, label: str, options: tuple[Option, ...]) -> Table:
    """Declare the search for one method."""

    def rows(params: PaperParams) -> dict[str, str]:
        return labels(candidates(params, options), options)

    def queries(params: PaperParams, row: str, column: str) -> tuple[Query, ...]:
        choice = candidates(params, options)[row]
        query = SETTINGS[column].query(method, changes(params, column, choice))
        return (replace(folds(params, query)[0], seeds=seeds(params)),)

    return Table(
        title=f"Grid search of {label}: scores on validation clients",
        published="Section IV-D" if DELAY in options else "Section IV-E",
        columns=columns,
        rows=rows,
        queries=queries,
        measure=score,
        dataset=data_of_column,
        test="none",
        heading="Candidate",
        search=True,
        note="Bold is what the search chooses, on the first fold; other hyperparameters as declared.",
    )


SEARCHES: Mapping[str, Table] = {name: grid(*about) for name, about in GRIDS.items()}
