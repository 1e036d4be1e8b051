"""What a search chose, as parameters to lay over params.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcore.base.errors import DataError
from fedcore.base.lazy import pd
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import overlay
from pipeline.catalogue.targets import Cell, Query
from pipeline.reports.search import best
from pipeline.reports.tables import Table

OWN = "algorithm."
Changes = Sequence[tuple[str, Any]]


def chosen(catalogue: Catalogue, report: Path) -> dict[str, Any]:
    """Return the values of the best candidate in each column, as params.yaml has them.

    What all candidates of a column share, such as the rows held out, is left aside. A candidate that changes
    the algorithm itself goes to ``algorithms.<name>.per``, by data set, or by split where the search has
    several of one data set; any other goes to the data set, for all algorithms. Of equal candidates the first
    is taken.

    Args:
        catalogue: parameters at the report's scale.
        report: the search's tidy csv; a column with a candidate that wasn't measured is passed over.

    Raises:
        DataError: the report isn't there, is of another scale, or isn't that of a search.
        SpecError: the parameters know no such report.
    """
    frame = _read(report, catalogue.params.scale)
    paper, name = frame["paper"].iloc[0], frame["target"].iloc[0]
    table, params = catalogue.target(paper, name), catalogue.params.papers[paper]
    if not isinstance(table, Table) or not table.search:
        raise DataError(f"{report}: {paper}/{name} is no search")
    asked = table.cells(params)
    found: dict[str, Any] = {}
    for column in table.columns(params):
        row = best(frame[frame["column"] == column.key], column.best or table.best)
        queries = {own: every for (own, key), every in asked.items() if key == column.key}
        if row is not None and set(queries) == set(frame["row"]):
            for query, changes in told_apart(queries, row):
                found = overlay(found, placed(query, changes, _where(asked, query)))
    return {"papers": {paper: found}} if found else {}


def _read(report: Path, scale: str) -> pd.DataFrame:
    if not report.exists():
        raise DataError(f"{report}: not built; expected a search's csv")
    frame = pd.read_csv(report, dtype={"row": str, "column": str})
    if not {"paper", "target", "row", "column", "mean", "scale"} <= set(frame) or frame.empty:
        raise DataError(f"{report}: expected a table's csv, found the columns {', '.join(map(str, frame))}")
    if other := {*frame["scale"]} - {scale}:
        raise DataError(f"{report}: made at {min(other)} scale, expected {scale}; say --scale {min(other)}")
    return frame


def told_apart(queries: Mapping[str, Sequence[Query]], row: str) -> list[tuple[Query, Changes]]:
    """Return a row's queries, each with those of its changes that some other row doesn't make."""
    shared = set[tuple[str, Any]].intersection(
        *({*query.changes} for every in queries.values() for query in every)
    )
    return [(query, [own for own in query.changes if own not in shared]) for query in queries[row]]


def placed(query: Query, changes: Changes, where: str) -> dict[str, Any]:
    """Return changes of a specification as sections of a paper's parameters; ``where``: a key of ``per``."""
    found: dict[str, Any] = {}
    for key, value in changes:
        section = found
        *path, last = key.removeprefix(OWN).split(".")
        for name in path:
            section = section.setdefault(name, {})
        section[last] = value
    if not found:
        return {}
    if any(key.startswith(OWN) for key, _ in changes):
        return {"algorithms": {query.algorithm: {"per": {where: found}}}}
    return {"datasets": {query.dataset: found}}


def _where(asked: Mapping[Cell, Sequence[Query]], query: Query) -> str:
    splits = {own.split for every in asked.values() for own in every if own.dataset == query.dataset}
    return query.split if len(splits) > 1 else query.dataset
