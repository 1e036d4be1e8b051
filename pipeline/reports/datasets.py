"""Tables of data sets: rows, features and classes, as the loaded data have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Column, PlannedRun, Query
from pipeline.reports.results import statistics_of
from pipeline.reports.tables import Table

FACTS: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "classes": lambda found: found["data_classes"],
    "training_size": lambda found: found["data_rows"]["train"],
    "testing_size": lambda found: found["data_rows"]["test"],
    "features": lambda found: found["data_features"],
    "dimensions": lambda found: found["data_features"],
}
LABELS = {
    "classes": "classes",
    "training_size": "training rows",
    "testing_size": "test rows",
    "features": "features",
    "dimensions": "dimensions",
}


def of_data(run: PlannedRun, root: Path, column: str) -> float | None:
    """Return a number of the data that a run's partition was made of."""
    found = statistics_of(run, root)
    return None if found is None else float(FACTS[column](found))


def table(
    published: str, facts: tuple[str, ...], queries: Mapping[str, Query], labels: Mapping[str, str]
) -> Table:
    """Declare a table of data sets.

    Args:
        published: the table's name in the paper.
        facts: its columns, keys of ``FACTS``.
        queries: for each data set a setting that uses it, with one seed.
        labels: each data set's name in print.
    """

    def columns(params: PaperParams) -> tuple[Column, ...]:
        return tuple(Column(fact, LABELS[fact]) for fact in facts)

    def rows(params: PaperParams) -> dict[str, str]:
        return {name: labels[name] for name in queries if name in params.datasets}

    def query(row: str, column: str) -> Query:
        return queries[row]

    return Table(
        title="Data sets as they were loaded",
        published=published,
        columns=columns,
        rows=rows,
        query=query,
        measure=of_data,
        dataset=lambda row, column: labels[row],
        needs="partitions",
        unit="counts",
        decimals=0,
        best="none",
        when="",
        heading="Data set",
    )
