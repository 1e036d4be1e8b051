"""Tables of what a paper says in its text alone: of methods, and of methods with one value changed."""

from collections.abc import Callable, Mapping
from typing import Any

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Asked, Changes, Column, Query, Variation
from pipeline.reports.tables import Table

IID = 1000.0
"""The alpha of a Dirichlet draw with which all clients have nearly the same labels."""


def variations(
    title: str,
    published: str,
    rows: Mapping[str, Variation],
    columns: Mapping[str, str],
    query: Callable[[PaperParams, str, str, Changes], Query],
    data: Callable[[str], str] = str,
    **more: Any,
) -> Table:
    """Declare a table of variations, given the words of each column.

    ``query``: (the paper's parameters, method, column, changes) -> the runs; ``data``: a column's data set,
    which is its name unless given. Columns that lack theirs are left out.
    """

    def shown(params: PaperParams) -> Mapping[str, str]:
        return {key: label for key, label in columns.items() if data(key) in params.datasets}

    def queries(params: PaperParams) -> Asked:
        return {
            (row, column): query(params, variation.method, column, variation.changes)
            for row, variation in rows.items()
            for column in shown(params)
        }

    return Table(
        title=title,
        published=published,
        columns=lambda params: tuple(Column(key, label, best="none") for key, label in shown(params).items()),
        rows=lambda params: {key: variation.label for key, variation in rows.items()},
        queries=queries,
        test="none",
        **more,
    )
