"""Table IV and Fig. 2: the best accuracy so far of sixteen combinations, over training, on two partitions."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Column, Query, Target
from pipeline.reports.captions import stopped
from pipeline.reports.drawings import Curves, Panel
from pipeline.reports.results import RunFacts
from pipeline.reports.tables import Table

DATASETS = {"cifar10": "CIFAR-10"}
REGIME, DATASET, SPLIT = "cross_device", "cifar10", "by_class"
PARTITIONS = {"": (SPLIT, ""), "_by_client": ("skewed", ", with a Dirichlet draw per client")}
"""What a target's name ends in, to its split and the words for its title."""
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


def best_so_far(facts: RunFacts, column: str) -> float | None:
    """Return the best test accuracy up to the column's round in per cent, None if the run diverged."""
    if not facts.final:
        return None
    history = facts.history
    return 100 * float(history.loc[history["round"] <= int(column), "test_accuracy"].max())


def _targets(ending: str, split: str, words: str) -> dict[str, Target]:
    """Declare both on one partition; columns of the table are rounds of the same runs."""
    table = Table(
        title=f"Test accuracy of the best model so far{words}",
        published="Table IV",
        columns=columns,
        query=lambda algorithm, column: Query(REGIME, DATASET, split, algorithm),
        measure=best_so_far,
        beside="table4" if ending else "",
        decimals=1,
        when="",
        note=stopped(PRINTED),
    )
    panels = (Panel(key, label, REGIME, DATASET, split, rows) for key, (label, rows) in CLIENT_SIDES.items())
    figure = Curves(
        title=f"Test accuracy of the best model so far on CIFAR-10, by client side{words}",
        published="Fig. 2",
        panels=tuple(panels),
        so_far=True,
        note=stopped(PRINTED),
    )
    return {f"table4{ending}": table, f"fig2{ending}": figure}


TARGETS: Mapping[str, Target] = {
    name: target
    for ending, (split, words) in PARTITIONS.items()
    for name, target in _targets(ending, split, words).items()
}
