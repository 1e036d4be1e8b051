"""Grid searches: candidates out of options, their scores on validation rows, and what a search chose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from fedcore.base.errors import DataError
from fedcore.base.lazy import pd
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import overlay
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Query
from pipeline.reports.results import RunFacts
from pipeline.reports.tables import Table, best

OWN = "algorithm."
Changes = Sequence[tuple[str, Any]]
LONG = 100
ENOUGH = 3
Value = float | str
Choice = Mapping[str, Value]


@dataclass(frozen=True)
class Option:
    """One hyperparameter.

    Attributes:
        key: its place in a specification, such as ``training.lr``.
        label: its name in print.
        values: the whole grid.
        few: the values that are tried where runs are too short to tell more; all if none are given.
    """

    key: str
    label: str
    values: tuple[Value, ...]
    few: tuple[Value, ...] = ()

    def tried(self, rounds: int) -> tuple[Value, ...]:
        """Return the values to try in runs of so many rounds."""
        return self.values if rounds >= LONG or not self.few else self.few


class Search(NamedTuple):
    """The grid of one method: its key, its name in print, its hyperparameters, and its name in the paper."""

    method: str
    label: str
    published: str
    options: tuple[Option, ...]


def seeds(params: PaperParams) -> tuple[int, ...] | None:
    """Return the seeds of a search: the first of three or more; None, which means all, of fewer."""
    return params.seeds[:1] if len(params.seeds) >= ENOUGH else None


def shown(value: Value) -> str:
    """Return a value as a row's name shows it."""
    return value if isinstance(value, str) else f"{value:g}"


def searches(
    grids: Mapping[str, Search],
    tried: Callable[[PaperParams, Option], Iterable[Value]],
    query: Callable[[PaperParams, str, Search, Choice], Query],
    title: str,
    metric: Callable[[RunFacts], str] = lambda facts: "accuracy",
    **shared: Any,
) -> dict[str, Table]:
    """Declare a search for each grid: one row per candidate, scored on validation rows in per cent.

    Args:
        grids: the grids by the name of their target.
        tried: the values of an option; a grid's rows are all their combinations.
        query: (parameters, column key, grid, candidate) -> its runs.
        metric: what a run is scored by.
        title: of all tables, each with its method's name.
        shared: what else the tables have in common.
    """

    def declare(search: Search) -> Table:
        def measure(facts: RunFacts, column: str) -> float | None:
            return 100 * facts.final[f"validation_{metric(facts)}"] if facts.final else None

        @cache
        def candidates(params: PaperParams) -> dict[str, Choice]:
            values = product(*(tried(params, option) for option in search.options))
            keys = [option.key for option in search.options]
            choices = (dict(zip(keys, own, strict=True)) for own in values)
            return {
                "-".join(f"{key.rpartition('.')[2]}_{shown(value)}" for key, value in choice.items()): choice
                for choice in choices
            }

        def rows(params: PaperParams) -> dict[str, str]:
            return {
                name: ", ".join(f"{own.label} = {shown(choice[own.key])}" for own in search.options)
                for name, choice in candidates(params).items()
            }

        def queries(params: PaperParams, row: str, column: str) -> tuple[Query, ...]:
            return (query(params, column, search, candidates(params)[row]),)

        return Table(
            title=title.format(search.label),
            published=search.published,
            rows=rows,
            queries=queries,
            measure=measure,
            test="none",
            heading="Candidate",
            search=True,
            **shared,
        )

    return {name: declare(grid) for name, grid in grids.items()}


def chosen(catalogue: Catalogue, report: Path) -> dict[str, Any]:
    """Return the values of the best candidate in each column, as params.yaml has them.

    What all candidates of a column share, such as the rows held out, is left aside. A candidate that changes
    the algorithm itself goes to ``algorithms.<name>.per``, by data set, or by split where the search has
    several of one data set; any other goes to the data set, for all algorithms. Of equal candidates the first
    is taken.

    A column with a candidate that wasn't measured is passed over.

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
    every = [query for queries in asked.values() for query in queries]
    values: dict[str, Any] = {}
    for column in table.columns(params):
        row = best(frame[frame["column"] == column.key], column.best or table.best)
        queries = {own: tried for (own, key), tried in asked.items() if key == column.key}
        if row is not None and set(queries) == set(frame["row"]):
            for query, changes in told_apart(queries, row):
                splits = {own.split for own in every if own.dataset == query.dataset}
                where = query.split if len(splits) > 1 else query.dataset
                values = overlay(values, placed(query, changes, where))
    return {"papers": {paper: values}} if values else {}


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
    sections: dict[str, Any] = {}
    for key, value in changes:
        section = sections
        *path, last = key.removeprefix(OWN).split(".")
        for name in path:
            section = section.setdefault(name, {})
        section[last] = value
    if not sections:
        return {}
    if any(key.startswith(OWN) for key, _ in changes):
        return {"algorithms": {query.algorithm: {"per": {where: sections}}}}
    return {"datasets": {query.dataset: sections}}
