"""The search for values lost from the text (rates, batch size, epochs, tau, mu), by published numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import Any

from fedcore.base.lazy import pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, Column, Query, Target
from pipeline.papers.comfed.checkpoints import DATASET, DATASETS, PARTITIONS, SPLIT, best_in_all
from pipeline.reports import significance
from pipeline.reports.search import seeds
from pipeline.reports.tables import Table

REGIME = "calibration"
DISTANCE = "distance"
PRINTED_AFTER = "100"
IN_USE = "in_use"

Changes = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Step:
    """One part of the search.

    Attributes:
        algorithm: the candidates are compared with its published number.
        label: its name in print.
        title: what is searched.
        candidates: what each row puts in place of the values in use.
        split: the partition that it runs on.
    """

    algorithm: str
    label: str
    title: str
    candidates: Mapping[str, Changes]
    split: str = SPLIT

    def rows(self, params: PaperParams) -> dict[str, str]:
        """Return the rows: the values in params.yaml, and the values tried in their place."""
        return {IN_USE: "values in use", **{name: name for name in self.candidates}}

    def columns(self, params: PaperParams) -> tuple[Column, ...]:
        """Return the column of the accuracy, and that of its distance from the published one."""
        away = Column(DISTANCE, "distance from the published", best="smallest", decimals=2)
        return Column(self.algorithm, self.label, best="none"), away

    def queries(self, params: PaperParams, row: str, column: str) -> tuple[Query, ...]:
        """Return a candidate's runs. Seeds: the first of three."""
        changes = self.candidates.get(row, ())
        return (Query(REGIME, DATASET, self.split, self.algorithm, changes, seeds(params)),)

    def beside(self, row: str, column: str) -> Cell:
        """Return where Table IV prints what every candidate is measured against."""
        return self.algorithm, PRINTED_AFTER


def _client_side() -> dict[str, Changes]:
    tried = [
        *product((0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03), (32,)),
        *product((0.003, 0.01, 0.03), (128,)),
    ]
    rows: dict[str, Changes] = {
        f"lr {lr:g}, B {batch}": (("training.lr", lr), ("training.batch_size", batch)) for lr, batch in tried
    }
    longer = (("training.lr", 0.01), ("training.batch_size", 128), ("training.local_epochs", 5))
    return rows | {"lr 0.01, B 128, E 5": longer}


STEPS: Mapping[str, Step] = MappingProxyType(
    {
        "calibration": Step("fedavg", "FedAvg", "local rate, batch size and epochs", _client_side()),
        "calibration_server": Step(
            "fedyogi",
            "FedYogi",
            "server rate and tau",
            {
                **{f"server lr {lr:g}": (("algorithm.server_lr", lr),) for lr in (0.001, 0.003, 0.03)},
                **{f"tau {tau:g}": (("algorithm.tau", tau),) for tau in (1e-4, 1e-2)},
            },
        ),
        "calibration_prox": Step(
            "fedprox", "FedProx", "mu", {f"mu {mu:g}": (("algorithm.mu", mu),) for mu in (0.001, 0.1, 1.0)}
        ),
    }
)


def with_distance(frame: pd.DataFrame) -> pd.DataFrame:
    """Fill the last column: absolute difference of a candidate's mean from the published number.

    A candidate that diverged or did not run has none. Its runs' own numbers make way for the distance as
    well, since they decide which is smallest.
    """
    frame = frame.copy()
    last = frame["column"] == DISTANCE
    away = frame[~last].set_index("row")["difference"].abs()
    frame.loc[last, "mean"] = frame.loc[last, "row"].map(away)
    frame.loc[last, ["std", "published_mean", "published_std", "difference"]] = math.nan
    frame.loc[last, "values"] = [
        significance.written(dict.fromkeys(significance.parsed(text), own))
        for text, own in zip(frame.loc[last, "values"], frame.loc[last, "mean"], strict=True)
    ]
    return frame.assign(verdict="")


def _table(step: Step, words: str) -> Table:
    searched = f"Search for the lost hyperparameters, {step.title}{words}"
    return Table(
        title=f"{searched}: test accuracy of the best model so far",
        published=f"The first column (100 rounds) of Table IV, {step.label}",
        columns=step.columns,
        rows=step.rows,
        queries=step.queries,
        measure=best_in_all,
        relative=with_distance,
        dataset=lambda row, column: DATASETS[DATASET],
        beside="table4",
        beside_cell=step.beside,
        decimals=1,
        test="none",
        heading="Candidate",
        search=True,
        note="Each row changes what it names and keeps the rest at the values in use.",
    )


TARGETS: Mapping[str, Target] = {
    f"{name}{ending}": _table(replace(step, split=split), words)
    for ending, (split, words) in PARTITIONS.items()
    for name, step in STEPS.items()
}
