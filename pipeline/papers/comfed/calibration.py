"""The search for what the text lost: rates, batch size, epochs, tau and mu, against three printed numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pipeline.papers.comfed.checkpoints import DATASET, DATASETS, SPLIT, best_in_all
from pipeline.schema import PaperParams
from pipeline.search import seeds
from pipeline.targets import Cell, Column, Query, Table, Target

if TYPE_CHECKING:
    import pandas as pd

REGIME = "calibration"
MEASURED = {"fedavg": "FedAvg", "fedyogi": "FedYogi", "fedprox": "FedProx"}
DISTANCE = "distance"
PRINTED_AFTER = "100"
IN_USE = "in_use"

Changes = tuple[tuple[str, Any], ...]


def _client_side() -> dict[str, Changes]:
    rows: dict[str, Changes] = {
        f"lr {lr:g}, B {batch}": (("training.lr", lr), ("training.batch_size", batch))
        for lr, batch in product((0.0003, 0.001, 0.003, 0.01), (32, 128))
    }
    return rows | {"E 2": (("training.local_epochs", 2),)}


CLIENT_SIDE: Mapping[str, Changes] = MappingProxyType(_client_side())
OF_ONE: Mapping[str, Mapping[str, Changes]] = MappingProxyType(
    {
        "fedyogi": {
            **{f"server lr {lr:g}": (("algorithm.server_lr", lr),) for lr in (0.003, 0.03)},
            **{f"tau {tau:g}": (("algorithm.tau", tau),) for tau in (1e-4, 1e-2)},
        },
        "fedprox": {f"mu {mu:g}": (("algorithm.mu", mu),) for mu in (0.001, 0.1, 1.0)},
    }
)


def candidates(params: PaperParams) -> dict[str, str]:
    """Return the rows: the values in params.yaml, and what is tried in their place."""
    names = [*CLIENT_SIDE, *(name for own in OF_ONE.values() for name in own)]
    return {IN_USE: "values in use", **{name: name for name in names}}


def columns(params: PaperParams) -> tuple[Column, ...]:
    """Return a column for each algorithm with a printed number, and the distance from all of them."""
    measured = (Column(name, label, best="none") for name, label in MEASURED.items())
    return (*measured, Column(DISTANCE, "mean distance from the printed", best="smallest", decimals=2))


def queries(params: PaperParams, row: str, column: str) -> tuple[Query, ...]:
    """Return the runs of a candidate; of all three algorithms for the distance.

    What belongs to another algorithm leaves the others at the values in use. Seeds: the first of three.
    """
    chosen = MEASURED if column == DISTANCE else (column,)
    return tuple(Query(REGIME, DATASET, SPLIT, name, _changes(row, name), seeds(params)) for name in chosen)


def _changes(row: str, algorithm: str) -> Changes:
    return CLIENT_SIDE.get(row) or OF_ONE.get(algorithm, {}).get(row, ())


def beside(row: str, column: str) -> Cell:
    """Return where Table IV prints what every candidate is measured against."""
    return column, PRINTED_AFTER


def with_distance(frame: pd.DataFrame) -> pd.DataFrame:
    """Fill the last column: mean absolute difference from the printed numbers, of a candidate's means.

    A candidate of which an algorithm diverged or did not run has none. Its runs' own numbers make way for the
    distance as well, since they decide which is smallest.
    """
    from pipeline.report import significance

    frame = frame.copy()
    last = frame["column"] == DISTANCE
    apart = frame[~last].assign(apart=frame["difference"].abs())
    mean = apart.groupby("row", sort=False)["apart"].agg(lambda own: own.mean(skipna=False))
    frame.loc[last, "mean"] = frame.loc[last, "row"].map(mean)
    frame.loc[last, "std"] = math.nan
    frame.loc[last, "values"] = [
        significance.written(dict.fromkeys(significance.parsed(text), own))
        for text, own in zip(frame.loc[last, "values"], frame.loc[last, "mean"], strict=True)
    ]
    return frame.assign(verdict="")


TARGETS: Mapping[str, Target] = {
    "calibration": Table(
        title="Search for the lost hyperparameters: test accuracy of the best model so far",
        published="The first column (100 rounds) of Table IV",
        columns=columns,
        rows=candidates,
        queries=queries,
        measure=best_in_all,
        relative=with_distance,
        dataset=lambda row, column: DATASETS[DATASET],
        beside="table4",
        beside_cell=beside,
        decimals=1,
        test="none",
        heading="Candidate",
        search=True,
        note="Each row changes what it names and keeps the rest at the values in use.",
    ),
}
