"""Tables I and II: test accuracy on three data sets, cross-silo and cross-device."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Column, Query
from pipeline.papers.rfedavg.traffic import COHORT, METHODS, TRAFFIC
from pipeline.reports.tables import Table

PRINTED = {"mnist": "MNIST", "cifar10": "CIFAR-10", "sent140": "Sent140"}
DATASETS = {**PRINTED, "femnist": "FEMNIST", "convex": "synthetic(0.5, 0.5)"}
SPLITS = {
    "sim0": "Sim 0%",
    "sim10": "Sim 10%",
    "sim100": "Sim 100%",
    "noniid": "Non-IID",
    "iid": "IID",
}
EPOCHS = "cross_silo_epochs"
CODE = (("variant", "released"),)


def columns(params: PaperParams) -> tuple[Column, ...]:
    """Return a column for each split of each data set of the tables."""
    return tuple(
        Column(f"{dataset}-{split}", SPLITS.get(split, split), label)
        for dataset, label in PRINTED.items()
        if dataset in params.datasets
        for split in params.datasets[dataset].splits
    )


def accuracy(
    published: str, title: str, regime: str, changes: tuple[tuple[str, str], ...] = (), beside: str = ""
) -> Table:
    """Return a table of accuracies after the last round in one regime.

    ``changes`` hold for rFedAvg and rFedAvg+ alone; ``beside`` names the table of the published numbers.
    """

    def query(algorithm: str, column: str) -> Query:
        dataset, split = column.split("-")
        return Query(regime, dataset, split, algorithm, changes if algorithm in METHODS else ())

    return Table(title=title, published=published, columns=columns, query=query, beside=beside)


def released(params: PaperParams) -> tuple[Column, ...]:
    """Return the columns in the authors' code's reading: similarity 0%, as epochs cost many times more."""
    return tuple(column for column in columns(params) if column.key.endswith("-sim0"))


def as_released(algorithm: str, column: str) -> Query:
    """Return the runs of a cell where E counts local epochs and delta is the authors' code's."""
    dataset, split = column.split("-")
    return Query(EPOCHS, dataset, split, algorithm, CODE)


TABLES: Mapping[str, Table] = {
    "table1": accuracy("Table I", "Test accuracy in the cross-silo setting", "cross_silo"),
    "table2": accuracy("Table II", "Test accuracy in the cross-device setting", "cross_device"),
    "table2_cohort": accuracy(
        "Table II",
        "Test accuracy in the cross-device setting, with deltas of only the round's clients",
        "cross_device",
        COHORT,
        "table2",
    ),
    "table3": TRAFFIC,
    "table1_released": Table(
        title="Test accuracy in the cross-silo setting, as the authors' code reads it",
        published="Table I",
        columns=released,
        query=as_released,
        rows=lambda params: {"fedavg": "FedAvg", **METHODS},
        beside="table1",
    ),
}
