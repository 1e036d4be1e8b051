"""Tables of data sets: rows, features and classes, as the loaded data have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipeline.catalogue.targets import Column, Query
from pipeline.reports.results import RunFacts, Summary
from pipeline.reports.tables import Table

FACTS: Mapping[str, tuple[str, Callable[[Summary], float]]] = {
    "classes": ("classes", lambda data: data["data_classes"]),
    "training_size": ("training rows", lambda data: data["data_rows"]["train"]),
    "testing_size": ("test rows", lambda data: data["data_rows"]["test"]),
    "features": ("features", lambda data: data["data_features"]),
    "dimensions": ("dimensions", lambda data: data["data_features"]),
}


def table(
    published: str, facts: tuple[str, ...], labels: Mapping[str, str], regime: str, split: str, algorithm: str
) -> Table:
    """Declare a table of data sets.

    Args:
        published: the table's name in the paper.
        facts: its columns, keys of ``FACTS``.
        labels: each data set's name in print.
        regime, split, algorithm: a setting that uses each of them.
    """

    def measure(run: RunFacts, column: str) -> float | None:
        return None if run.statistics is None else float(FACTS[column][1](run.statistics))

    return Table(
        title="Data sets as they were loaded",
        published=published,
        columns=lambda params: tuple(Column(fact, FACTS[fact][0]) for fact in facts),
        rows=lambda params: {name: label for name, label in labels.items() if name in params.datasets},
        query=lambda row, column: Query(regime, row, split, algorithm, seeds=(0,)),
        measure=measure,
        dataset=lambda row, column: labels[row],
        needs="partitions",
        unit="counts",
        decimals=0,
        best="none",
        when="",
        heading="Data set",
    )
