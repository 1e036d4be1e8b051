"""The search for values lost from the text (rates, batch size, epochs, tau, mu), by published numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedcore.base.lazy import pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Column, Query, Target
from pipeline.papers.comfed.checkpoints import DATASET, DATASETS, PARTITIONS, best_so_far
from pipeline.reports import significance
from pipeline.reports.results import RunFacts
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
    """

    algorithm: str
    label: str
    title: str
    candidates: Mapping[str, Changes]

    def table(self, split: str, words: str) -> Table:
        """Declare it on one partition: the accuracy, and its distance from the published one.

        Seeds: the first of three. Table IV prints what every candidate is measured against.
        """
        accuracy = Column(self.algorithm, self.label, best="none")
        distance = Column(DISTANCE, "distance from the published", best="smallest", decimals=2)
        rows = {IN_USE: "values in use", **{name: name for name in self.candidates}}
        searched = f"Search for the lost hyperparameters, {self.title}{words}"

        def queries(params: PaperParams, row: str, column: str) -> tuple[Query, ...]:
            changes = self.candidates.get(row, ())
            return (Query(REGIME, DATASET, split, self.algorithm, changes, seeds(params)),)

        return Table(
            title=f"{searched}: test accuracy of the best model so far",
            published=f"The first column (100 rounds) of Table IV, {self.label}",
            columns=lambda params: (accuracy, distance),
            rows=lambda params: rows,
            queries=queries,
            measure=best_in_all,
            relative=with_distance,
            dataset=lambda row, column: DATASETS[DATASET],
            beside="table4",
            beside_cell=lambda row, column: (self.algorithm, PRINTED_AFTER),
            decimals=1,
            test="none",
            heading="Candidate",
            search=True,
            note="Each row changes what it names and keeps the rest at the values in use.",
        )


def best_in_all(facts: RunFacts, column: str) -> float | None:
    """Return the best test accuracy of a whole run in per cent, None if it diverged."""
    return best_so_far(facts, str(facts.run.spec["training"]["rounds"]))


RATES = {32: (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03), 128: (0.003, 0.01, 0.03)}
TRIED = [
    (("training.lr", lr), ("training.batch_size", batch)) for batch, rates in RATES.items() for lr in rates
]
CLIENT_SIDE: dict[str, Changes] = {f"lr {rate[1]:g}, B {batch[1]}": (rate, batch) for rate, batch in TRIED}
CLIENT_SIDE["lr 0.01, B 128, E 5"] = (*CLIENT_SIDE["lr 0.01, B 128"], ("training.local_epochs", 5))
STEPS: Mapping[str, Step] = {
    "calibration": Step("fedavg", "FedAvg", "local rate, batch size and epochs", CLIENT_SIDE),
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


TARGETS: Mapping[str, Target] = {
    f"{name}{ending}": step.table(split, words)
    for ending, (split, words) in PARTITIONS.items()
    for name, step in STEPS.items()
}
