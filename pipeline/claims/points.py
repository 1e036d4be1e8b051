"""The open points of a paper: what its text leaves to the reader, and how that can be read.

``pipeline/papers/<paper>/readings.yaml`` lists them by name. An alternative that can run says what it changes
in a specification, or which number of a run it takes.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError
from fedcore.base.options import Options, keys_of, validate
from fedcore.spec import Evaluation
from pipeline.catalogue.grids import known_changes, options_of, setting_keys
from pipeline.catalogue.schema import Key, PaperParams
from pipeline.catalogue.targets import Changes, Query
from pipeline.claims.ledger import PAPERS
from pipeline.reports.render import md_table
from pipeline.reports.results import RunFacts

FILE = "readings.yaml"
TAIL = 5
Words = Annotated[str, Field(min_length=1)]
Measure = Literal["last", "best", "mean_of_last_five"]


class Alternative(Options):
    """One way to read an open point.

    Attributes:
        says: the reading, in our words.
        changes: keys of a run's specification with their values; those that a run's plug-ins lack are left
            out. None of a reading that can't run.
        measure: which of a run's test accuracies counts, in place of the last one.
    """

    says: Words
    changes: dict[str, Any] | None = None
    measure: Measure | None = None


class Point(Options):
    """Something that a paper leaves open.

    Attributes:
        place: where the sentence stands, or should stand.
        open: what it doesn't say, in our words.
        paper, released: the alternatives that this project and the authors' released code take; no
            ``released`` where no code is known or it has nothing of the kind.
        only: the algorithms or data sets that it concerns; all of them if none are given.
        alternatives: the readings, by name.
        fixed: why fewer than two of them can run.
    """

    place: Words
    open: Words
    paper: str
    released: str | None = None
    only: tuple[Key, ...] = ()
    alternatives: Annotated[dict[Key, Alternative], Field(min_length=2)]
    fixed: Words | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for key in ("paper", "released"):
            if (name := getattr(self, key)) is not None and name not in self.alternatives:
                raise ValueError(f"{key}: got '{name}', expected one of {', '.join(self.alternatives)}")
        if (len(self.tried) < 2 or self.paper not in self.tried) != (self.fixed is not None):
            can = f"{len(self.tried)} of its alternatives can run"
            raise ValueError(f"fixed: {can}; expected a reason where fewer than two can, and nowhere else")
        return self

    @property
    def tried(self) -> tuple[str, ...]:
        """The alternatives that can run, this project's first."""
        can = {name for name, way in self.alternatives.items() if (way.changes, way.measure) != (None, None)}
        return tuple(name for name in dict.fromkeys((self.paper, *self.alternatives)) if name in can)

    @property
    def code(self) -> str:
        """The alternative of the authors' code; this project's where the code has none that can run."""
        return self.released if self.released in self.tried else self.paper


@cache
def points(paper: str) -> Mapping[str, Point]:
    """Return a paper's open points by name; none if it declares none."""
    path = PAPERS / paper / FILE
    return load(path) if path.exists() else {}


def load(path: Path) -> dict[str, Point]:
    """Read open points, or raise SpecError with file, point, key, what was found and what was expected."""
    entries = core_yaml.read(path, "open points")
    if not isinstance(entries, dict):
        raise SpecError(f"{path}: expected open points by name, got {type(entries).__name__}")
    return {name: validate(Point, values, f"{path}: {name}") for name, values in entries.items()}


def changes_of(params: PaperParams, query: Query, point: Point, alternative: str) -> Changes:
    """Return what an alternative changes in the runs of a query, as far as they have what it changes."""
    if point.only and {query.algorithm, query.dataset}.isdisjoint(point.only):
        return ()
    return applicable(params, query, point.alternatives[alternative].changes or {})


def applicable(params: PaperParams, query: Query, changes: Mapping[str, Any]) -> Changes:
    """Return those of the changes whose keys the runs of a query have."""
    name = params.algorithms[query.algorithm].name or query.algorithm
    known = setting_keys(params, query.dataset, query.split) | {"evaluation": keys_of(Evaluation)}
    known["algorithm"] = options_of("algorithm", name, "algorithm")
    return known_changes(changes, known)


def accuracy_by(measure: Measure, facts: RunFacts, column: str) -> float | None:
    """Return the test accuracy of a run in per cent that a measure takes; None if it diverged."""
    if facts.final is None:
        return None
    series = 100 * facts.series("test_accuracy").dropna()
    taken = {"last": series.tail(1), "best": series.nlargest(1), "mean_of_last_five": series.tail(TAIL)}
    return float(taken[measure].mean())


def markdown(papers: Iterable[str]) -> str:
    """Return the open points of papers as Markdown tables, under a heading for each paper."""
    heads = ("Point", "Left open", "Readings")
    parts = (f"### {paper}\n\n{md_table(heads, _lines(points(paper)))}" for paper in papers if points(paper))
    return "\n".join(parts)


def _lines(open_points: Mapping[str, Point]) -> Iterator[tuple[str, str, str]]:
    for name, point in open_points.items():
        readings = [_reading(point, choice) for choice in point.alternatives]
        readings += [f"Not run: {point.fixed}."] if point.fixed else []
        yield f"`{name}`", f"{point.place}: {point.open}", "<br>".join(readings)


def _reading(point: Point, name: str) -> str:
    alternative = point.alternatives[name]
    takers = [word for word, taken in (("ours", point.paper), ("code", point.released)) if taken == name]
    changes = (f"{key}: {json.dumps(value)}" for key, value in (alternative.changes or {}).items())
    parts = [*changes, *([f"measure: {alternative.measure}"] if alternative.measure else [])]
    says = f"**{alternative.says}**" if name == point.paper else alternative.says
    return says + (f" ({', '.join(takers)})" if takers else "") + (f" `{', '.join(parts)}`" if parts else "")
