"""Tuning: candidates out of declared values, their scores on rows held out, and what a search chose."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import product
from math import exp, log, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.base import core_yaml
from fedcore.base.errors import DataError, SpecError, say
from fedcore.base.files import sha256_text
from fedcore.base.lazy import DataFrame, scipy
from pipeline.catalogue import Catalogue
from pipeline.catalogue.grids import frozen, word
from pipeline.catalogue.params import STUDY
from pipeline.catalogue.schema import DIMENSIONS, ChosenParams, PaperParams, Range, Tried, TuneParams
from pipeline.catalogue.targets import Asked, Column, Query, Sources
from pipeline.reports.results import RunFacts, read_tidy, short_hash
from pipeline.reports.tables import Table, best

OWN, SELECTION = "algorithm.", "selection"
ENOUGH_SEEDS = 3
DIGITS = 4
Choice = Mapping[str, Any]
Measure = Callable[[RunFacts, str], float | None]


class Search(NamedTuple):
    """The search of one method: its key, its name in print, its name in the paper, and keys' names in print.

    What is tried stands in the parameters: ``tune`` of the method's entry, and of the paper.
    """

    method: str
    label: str
    published: str
    labels: Mapping[str, str] = {}


def seeds(params: PaperParams, count: int = 1) -> tuple[int, ...] | None:
    """Return the first of three or more seeds; None, which means all, of fewer: one process trains them."""
    return params.seeds[:count] if len(params.seeds) >= ENOUGH_SEEDS else None


def held_out(params: PaperParams) -> tuple[tuple[str, Any], ...]:
    """Return the changes that hold rows, or clients, out of a run's training, for it to be scored on."""
    share = params.tune.held_out
    if share == SELECTION:
        return (("evaluation.tested_on", SELECTION),)
    rows = ("partition.fold.index", 0) if share == "clients" else ("partition.validation", share)
    return (rows, ("evaluation.validation", True))


def tried(params: PaperParams, method: str, dataset: str = "") -> Tried:
    """Return the values to try of a method, by key: those of all methods, of a data set, and its own."""
    of_dataset = params.datasets[dataset].tune if dataset else {}
    values = {**params.tune.over, **of_dataset, **params.algorithms[method].tune}
    return {
        key: domain if isinstance(domain, Range) else tuple(frozen(key, value) for value in domain)
        for key, domain in values.items()
    }


def candidates(tune: TuneParams, values: Tried, place: str = "") -> list[Choice]:
    """Return the candidates out of declared values, as many as the budget at most.

    A grid takes every listed value and as many points of each range as the budget allows, its ends among
    them. Random and quasi-random candidates (a scrambled Halton sequence) fill the budget; their draw is the
    same for every method with as many keys. A Sobol' sequence is scrambled, and put into an order, by the
    name of the ``place``, and is the same for all methods. It raises SpecError if the budget is missing, too
    small for the grid, or no power of 2 for Sobol' points, or if these have more than eight keys.
    """
    ranges = [key for key, domain in values.items() if isinstance(domain, Range)]
    listed = prod(len(domain) for domain in values.values() if not isinstance(domain, Range))
    budget = tune.trials or (0 if ranges or tune.how != "grid" else listed)
    least = listed * 2 ** len(ranges) if tune.how == "grid" else 1
    if budget < least:
        problem = f"got {tune.trials}" if tune.trials else "missing"
        how = f"'how: {tune.how}' over {', '.join(values)}"
        raise SpecError(f"tune.trials: {problem}, expected {least} or more with {how}")
    if tune.how == "grid":
        shares = np.linspace(0, 1, int((budget / listed) ** (1 / max(1, len(ranges))) + 1e-9))
        axes = (
            [_at(domain, share) for share in shares] if isinstance(domain, Range) else domain
            for domain in values.values()
        )
        return [dict(zip(values, point, strict=True)) for point in product(*axes)]
    rng, keys = np.random.default_rng(0), len(values)
    if tune.how == "sobol":
        points = _sobol(tune, values, place, budget)
    elif tune.how == "quasirandom":
        points = scipy.stats.qmc.Halton(keys, rng=rng).random(budget)
    else:
        points = rng.random((budget, keys))
    return [
        {key: _at(values[key], share) for key, share in zip(values, point, strict=True)}
        for point in points.tolist()
    ]


def chosen_of_today(params: PaperParams, entry: ChosenParams) -> bool:
    """Return whether a search of today has a candidate with the chosen values, as far as it tries them."""
    values = {key: frozen(key, value) for key, value in entry.values.items()}
    methods = [entry.of] if entry.of in params.algorithms else params.algorithms
    choices = (
        choice
        for method, dataset in product(methods, params.datasets)
        for choice in candidates(params.tune, tried(params, str(method), dataset), dataset)
    )
    return any(all(values.get(key, value) == value for key, value in choice.items()) for choice in choices)


def _sobol(tune: TuneParams, values: Tried, place: str, budget: int) -> NDArray[np.float64]:
    """Return the points [budget, keys] of a Sobol' sequence, a column for each key."""
    if budget & (budget - 1) or len(values) > DIMENSIONS:
        raise SpecError(
            f"tune: got {budget} trials of {len(values)} keys, expected a power of 2, of {DIMENSIONS} at most"
        )
    rng = np.random.default_rng(int(sha256_text(place)[:8], 16))
    points = rng.permutation(scipy.stats.qmc.Sobol(DIMENSIONS, rng=rng).random(budget))
    fixed = {key: tune.columns.index(key) for key in values if key in tune.columns}
    free = (column for column in range(DIMENSIONS) if column not in fixed.values())
    return points[:, [fixed[key] if key in fixed else next(free) for key in values]]


def _at(values: Range | Sequence[Any], share: float) -> Any:
    if not isinstance(values, Range):
        return values[min(int(share * len(values)), len(values) - 1)]
    low, high = (log(end) if values.log else end for end in (values.low, values.high))
    value = low + share * (high - low)
    return float(f"{exp(value) if values.log else value:.{DIGITS}g}")


def on_held_out(metric: Callable[[RunFacts], str], factor: float = 100.0, selection: bool = False) -> Measure:
    """Return the measure of a candidate's run: a metric after its last round, on the rows held out."""
    rows = "test" if selection else "validation"
    return lambda facts, column: facts.score(f"{rows}_{metric(facts)}", factor)


def search(
    grid: Search,
    query: Callable[[PaperParams, str, Search, Choice], Query],
    title: str,
    columns: Callable[[PaperParams], tuple[Column, ...]],
    measure: Measure | None = None,
    **shared: Any,
) -> Table:
    """Declare the table of one method's search: one row per candidate.

    ``query``: (parameters, column key, search, candidate) -> its runs; ``{}`` in the title stands for the
    method's name; a run is scored by its accuracy on rows held out, in per cent, unless ``measure`` is given.
    """

    @cache
    def named(params: PaperParams) -> dict[str, Choice]:
        choices: dict[str, Choice] = {}
        for choice in candidates(params.tune, tried(params, grid.method)):
            if choices.setdefault(name := _said(choice, "_", "-"), choice) != choice:
                raise SpecError(
                    f"algorithms.{grid.method}: got two candidates '{name}' in tune, expected values "
                    "that differ within six digits"
                )
        return choices

    def rows(params: PaperParams) -> dict[str, str]:
        return {name: _said(choice, " = ", ", ", grid.labels) for name, choice in named(params).items()}

    def queries(params: PaperParams) -> Asked:
        cells = product(named(params).items(), columns(params))
        return {(row, c.key): query(params, c.key, grid, choice) for (row, choice), c in cells}

    return Table(
        title=title.format(grid.label),
        published=grid.published,
        rows=rows,
        columns=columns,
        queries=queries,
        measure=measure or on_held_out(lambda facts: "accuracy"),
        heading="Candidate",
        search=True,
        **{"test": "none", **shared},
    )


def _said(choice: Choice, sign: str, between: str, labels: Mapping[str, str] = {}) -> str:
    texts = {k: f"{v:g}" if isinstance(v, int | float) else word(v) for k, v in choice.items()}
    return between.join(f"{labels.get(k, k.rpartition('.')[2])}{sign}{text}" for k, text in texts.items())


def chosen(catalogue: Catalogue, *reports: Path) -> dict[str, Any]:
    """Return the best candidates of searches, as the section ``chosen`` of each paper or study has them.

    What isn't searched for and all candidates of a column share, such as the rows held out, is left aside.
    Values hold where the query's place says so; otherwise for the data set, or for the split where the search
    has several of one data set, and for all algorithms unless a candidate changes the algorithm itself. Of
    equal candidates the first is taken. A column with a candidate that wasn't measured is passed over; a line
    names it.

    It raises DataError if a report isn't there, is of another scale or other parameters, or isn't that of a
    search, and SpecError if the parameters know no such report.
    """
    papers: dict[str, Any] = {}
    for report in reports:
        paper, entries = _chosen_in(catalogue, report)
        if entries:
            papers.setdefault(paper, {"chosen": []})["chosen"] += entries
    return {"papers": papers} if papers else {}


def _chosen_in(catalogue: Catalogue, report: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return a search's paper, and an entry of ``chosen`` for the best candidate of each column."""
    frame, sources, table = _search_in(catalogue, report)
    cell_queries = table.cells(sources.params)
    splits = {(query.dataset, query.split) for queries in cell_queries.values() for query in queries}
    entries: list[dict[str, Any]] = []
    passed: list[str] = []
    for column in table.columns(sources.params):
        queries = {row: of_row for (row, key), of_row in cell_queries.items() if key == column.key}
        cells = frame[frame["column"] == column.key]
        row = best(cells, column.best or table.best)
        if row is not None:
            means, specs = (cells.set_index("row")[key] for key in ("mean", "specs"))
            planned = {key: {*map(short_hash, sources.cells[key, column.key])} for key in queries}
            foreign = ({*at.split()} - planned[str(key)] for key, at in specs.items())
            if {*specs.index} != {*planned} or any(foreign):
                raise DataError(f"{report}: built for another study or other parameters; build it again")
            entries += _entries(sources, queries, row, means[row], splits)
        elif (column.best or table.best) != "none":
            passed.append(column.key)
    if passed:
        names = ", ".join(passed)
        say(f"{report}: nothing is chosen for {names}: a candidate lacks a run, or all diverged", error=True)
    return sources.paper, entries


def _search_in(catalogue: Catalogue, report: Path) -> tuple[DataFrame, Sources, Table]:
    """Return a search's csv, and what it was built from."""
    if not report.exists():
        raise DataError(f"{report}: not built; expected a search's csv")
    frame = read_tidy(report, {"specs": str})
    if not {"paper", "target", "row", "column", "mean", "scale", "specs"} <= {*frame} or frame.empty:
        raise DataError(f"{report}: expected a table's csv, found the columns {', '.join(map(str, frame))}")
    paper, name = frame["paper"].iloc[0], frame["target"].iloc[0]
    sources = catalogue.sources(paper, name)
    scale = sources.scale
    if other := {*frame["scale"]} - {scale}:
        raise DataError(f"{report}: made at {min(other)} scale, expected {scale}; say --scale {min(other)}")
    if not isinstance(sources.target, Table) or not sources.target.search:
        raise DataError(f"{report}: {paper}/{name} is no search")
    return frame.fillna({"specs": ""}), sources, sources.target


def _entries(
    sources: Sources,
    queries: Mapping[str, tuple[Query, ...]],
    row: str,
    mean: float,
    all_splits: Collection[tuple[str, str]],
) -> Iterator[dict[str, Any]]:
    at_scale = "" if sources.scale == STUDY else f" at {sources.scale} scale"
    source = f"{sources.paper}/{sources.name}{at_scale}: {mean:.5g}, the best of {len(queries)} candidates"
    shared = set.intersection(*({*query.changes} for entries in queries.values() for query in entries))
    for query in queries[row]:
        searched = tried(sources.params, query.algorithm, query.dataset)
        changes = {k: v for k, v in query.changes if k in searched or (k, v) not in shared}
        values = {key: [*value] if isinstance(value, tuple) else value for key, value in changes.items()}
        splits = [split for dataset, split in all_splits if dataset == query.dataset]
        for_algorithm = query.place or any(key.startswith(OWN) for key in values)
        place = query.place or (query.split if len(splits) > 1 else query.dataset)
        of = {"of": query.algorithm} if for_algorithm else {}
        origin = ", ".join([source, *_at_ends(queries, values)])
        if values:
            yield {**of, "at": place, "values": values, "source": origin}


def _at_ends(queries: Mapping[str, Iterable[Query]], values: Mapping[str, Any]) -> Iterator[str]:
    """Say which values are the smallest or the largest of three or more tried: others may be better still."""
    choices = [dict(query.changes) for of_row in queries.values() for query in of_row]
    for key, value in values.items():
        numbers = sorted({changes[key] for changes in choices if isinstance(changes.get(key), int | float)})
        if len(numbers) > 2 and value in (numbers[0], numbers[-1]):
            yield f"{key} the {'largest' if value == numbers[-1] else 'smallest'} tried"


def with_chosen(text: str, entries: Iterable[Mapping[str, Any]]) -> str:
    """Return a study's file with entries in ``chosen``, its last section; those of other places stay.

    It raises SpecError if ``chosen`` is written so that the rest would not stay as it is.
    """
    study = core_yaml.parsed(text, "study")
    before = study.get("chosen", ())
    joined = {(entry.get("of"), entry["at"]): entry for entry in (*before, *entries)}
    lines = (core_yaml.to_yaml(entry, flow=True) for entry in joined.values())
    rest = re.sub(r"(?m)^chosen:.*\n(?:[ -].*\n|(?:\n|#.*\n)*(?=[ -]))*", "", text.rstrip("\n") + "\n")
    written = rest + "chosen: # written by `fedcore chosen`\n" + "".join(f"  - {line}" for line in lines)
    with suppress(SpecError):
        if core_yaml.parsed(written, "study") == study | {"chosen": [*joined.values()]}:
            return written
    raise SpecError("chosen: expected the study's last section, as a list with an entry a line")
