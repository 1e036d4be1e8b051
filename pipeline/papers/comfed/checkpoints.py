"""Table IV and Fig. 2: the best accuracy so far of sixteen combinations, over training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.notes import stopped
from pipeline.schema import PaperParams
from pipeline.targets import Column, Curves, Panel, Query, Table, Target

if TYPE_CHECKING:
    from pipeline.catalogue import Run

DATASETS = {"cifar10": "CIFAR-10"}
REGIME, DATASET, SPLIT = "cross_device", "cifar10", "skewed"
CHECKPOINTS, PRINTED = 20, 2000
CLIENT_SIDES = {
    "fedavg": ("FedAvg at the clients", ("fedavg", "fedadam", "fedadagrad", "fedyogi")),
    "fedprox": ("FedProx at the clients", ("fedprox", "prox_adam", "prox_adagrad", "prox_yogi")),
    "scaffold": ("SCAFFOLD at the clients", ("scaffold", "scaf_adam", "scaf_adagrad", "scaf_yogi")),
    "fednova": ("FedNova at the clients", ("fednova", "nova_adam", "nova_adagrad", "nova_yogi")),
}


def columns(params: PaperParams) -> tuple[Column, ...]:
    """Return twenty rounds at even distances, the last of training among them; all rounds if fewer."""
    rounds = params.regimes[REGIME].training.rounds or CHECKPOINTS
    some = min(CHECKPOINTS, rounds)
    ends = [rounds * k // some for k in range(1, some + 1)]
    return tuple(Column(str(end), str(end), "CIFAR-10") for end in ends)


def query(algorithm: str, column: str) -> Query:
    """Return the one setting; columns are rounds of the same runs."""
    return Query(REGIME, DATASET, SPLIT, algorithm)


def best_so_far(run: Run, root: Path, column: str) -> float | None:
    """Return the best test accuracy up to the column's round in per cent, None if the run diverged."""
    from pipeline.report.collect import history_of, summary_of

    summary = summary_of(run, root)
    if not summary or not summary["final"]:
        return None
    history = history_of(run, root)
    return 100 * float(history.loc[history["round"] <= int(column), "test_accuracy"].max())


def best_in_all(run: Run, root: Path, column: str) -> float | None:
    """Return the best test accuracy of a whole run in per cent, None if it diverged."""
    return best_so_far(run, root, str(run.spec["training"]["rounds"]))


TARGETS: Mapping[str, Target] = {
    "table4": Table(
        title="Test accuracy of the best model so far",
        published="Table IV",
        columns=columns,
        query=query,
        measure=best_so_far,
        decimals=1,
        when="",
        note=stopped(PRINTED),
    ),
    "fig2": Curves(
        title="Test accuracy of the best model so far on CIFAR-10, by client side",
        published="Fig. 2",
        panels=tuple(
            Panel(key, label, REGIME, DATASET, SPLIT, rows) for key, (label, rows) in CLIENT_SIDES.items()
        ),
        so_far=True,
        note=stopped(PRINTED),
    ),
}
