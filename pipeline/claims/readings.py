"""A table under the readings of its paper: which comes nearest to the paper, and which claims hold in which.

Each reading takes one alternative of each of some open points. The figure is a specification curve: readings
by their distance from the paper's numbers, and below it what each takes and which claims hold in it. A design
says which combinations run; shares of the variance say what each point explains.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np

from fedcore.base.errors import SpecError
from fedcore.base.lazy import Axes, DataFrame, Figure, Series, pd
from fedcore.base.options import suggestion
from pipeline.catalogue.schema import PaperParams, ReadingsParams
from pipeline.catalogue.targets import Cell, Changes, Paper, Query, Target
from pipeline.claims.design import design, parameters, shares
from pipeline.claims.ledger import HOLDS, LEDGER, PAPERS, cells_of, judge, ledger
from pipeline.claims.points import FILE, Point, accuracy_by, applicable, changes_of, points
from pipeline.reports import figures, style
from pipeline.reports.drawings import Drawing, Inputs, Picture
from pipeline.reports.search import seeds
from pipeline.reports.significance import parse_samples
from pipeline.reports.tables import Table, tidy

ENDING = "_readings"
DISTANCE, SHARE, CLAIM, IN_PART = "distance", "share", "claim", "claim_in_part"
CLAIMS = (CLAIM, IN_PART)
WITHIN, BEYOND, TAKEN = style.GREEN, style.VERMILION, style.BLUE
ROOM = 0.16
SHOWN = (
    "Above: a reading's distance from the paper's numbers in margins, mean over cells (dashed: one, up to "
    "which a cell is near); middle: its choices; below: claims that hold (filled) or fail (open); no mark: "
    "not decided. Readings are numbered from the left."
)


@dataclass(frozen=True, kw_only=True)
class Readings(Drawing):
    """The figure of a table's readings: a class here, as a plan hashes the module of its target's class."""


@dataclass(frozen=True)
class Space:
    """The readings of a paper's table, its ``target``: combinations of the alternatives of open ``points``.

    ``numbers`` is the paper's published.csv; ``section`` says how they are combined, and with which seeds.
    """

    paper: str
    target: str
    table: Table
    numbers: Path | None
    points: Mapping[str, Point]
    section: ReadingsParams

    def readings(self) -> dict[str, dict[str, str]]:
        """Return by name the alternative that a reading takes of each point; this project's is the first."""
        tried = {key: point.tried for key, point in self.points.items()}
        code = tuple(tried[key].index(point.code) for key, point in self.points.items())
        first, counts = ((0,) * len(tried), code), tuple(map(len, tried.values()))
        levels = design(counts, self.section.most, first)
        readings = ({key: tried[key][at] for key, at in zip(tried, row, strict=True)} for row in levels)
        return {"-".join(map("_".join, taken.items())): taken for taken in readings}

    def asked_of(self, params: PaperParams) -> dict[Cell, tuple[Query, ...]]:
        """Return the runs of each cell of the table that readings are asked for."""
        cells = dict(self.table.cells(params))
        for axis, names in enumerate((self.section.rows, self.section.columns)):
            cells = {cell: queries for cell, queries in cells.items() if not names or cell[axis] in names}
        return cells

    def unknown_changes(self, params: PaperParams) -> Iterator[str]:
        """Yield the keys of ``changes`` that none of these runs has."""
        for key, value in self.section.changes.items():
            queries = chain.from_iterable(self.asked_of(params).values())
            if not any(applicable(params, query, {key: value}) for query in queries):
                yield key

    def cells(self, params: PaperParams) -> dict[Cell, tuple[Query, ...]]:
        """Return the runs of each of those cells in each reading."""
        cells, asked_for = {}, self.asked_of(params)
        for name, taken in self.readings().items():
            few = None if name in self.section.again else seeds(params, self.section.seeds)
            for (row, column), queries in asked_for.items():
                changed = ((query, self._changes(params, query, taken)) for query in queries)
                cells[row, f"{column}@{name}"] = tuple(replace(q, changes=c, seeds=few) for q, c in changed)
        return cells

    def _changes(self, params: PaperParams, query: Query, taken: Mapping[str, str]) -> Changes:
        by_point = (changes_of(params, query, self.points[key], choice) for key, choice in taken.items())
        return tuple(chain(query.changes, applicable(params, query, self.section.changes), *by_point))

    def measured(self, inputs: Inputs, name: str, taken: Mapping[str, str]) -> DataFrame:
        """Return the table's tidy lines in one reading, with their distance from the paper's in margins."""
        table = self.table
        for key, choice in taken.items():
            if kind := self.points[key].alternatives[choice].measure:
                table = replace(table, measure=partial(accuracy_by, kind))
        splits = {cell: cell[1].partition("@") for cell in inputs.cells}
        cells = {(cell[0], part[0]): inputs.cells[cell] for cell, part in splits.items() if part[2] == name}
        frame = tidy(self.paper, self.target, table, cells, self.numbers, table.columns(inputs.params))
        return frame.assign(away=frame["difference"].abs() / frame["margin"])


def readings_targets(paper: str, declared: Paper, params: PaperParams) -> dict[str, Target]:
    """Return the targets of the readings that a paper's parameters ask for.

    It raises SpecError with the key: no such table, no such open point, or one that can't run.
    """
    targets: dict[str, Target] = {}
    for name, options in params.readings.items():
        of = options.of or name
        table, known = declared.targets.get(of), points(paper)
        if not isinstance(table, Table):
            tables = [key for key, target in declared.targets.items() if isinstance(target, Table)]
            where = f"readings.{name}.of" if options.of else f"readings.{name}"
            raise SpecError(f"{where}: expected a table of numbers{suggestion(of, tables)}")
        _refuse_unknown(name, options, table, known, params)
        taken = {key: known[key] for key in options.points}
        space = Space(paper, of, table, declared.numbers, taken, options)
        try:
            unknown = next(space.unknown_changes(params), None)
        except SpecError:
            unknown = None  # the report of the table itself says what is wrong with it
        if unknown is not None:
            raise SpecError(f"readings.{name}.changes: no run has a key '{unknown}'")
        if others := {*options.again}.difference(space.readings()):
            raise SpecError(f"readings.{name}.again: no reading '{min(others)}'; the report lists them")
        targets[name + ENDING] = Readings(
            title=f"{table.title}: readings by their distance from the paper's numbers",
            published=table.published,
            basis=tuple(path for file in (FILE, LEDGER) if (path := PAPERS / paper / file).exists()),
            queries=space.cells,
            needs=table.needs,
            draw=partial(draw, space),
            rows=table.row_labels,
        )
    return targets


def _refuse_unknown(
    name: str, options: ReadingsParams, table: Table, known: Mapping[str, Point], params: PaperParams
) -> None:
    for key in options.points:
        if key not in known:
            raise SpecError(f"readings.{name}.points: no open point '{key}'{suggestion(key, known)}")
        if reason := known[key].fixed:
            raise SpecError(f"readings.{name}.points: '{key}' has one reading that can run: {reason}")
        if table.measure and any(alternative.measure for alternative in known[key].alternatives.values()):
            raise SpecError(f"readings.{name}.points: '{key}' is a measure, and the table has its own")
    known_keys = {"rows": table.rows(params), "columns": [column.key for column in table.columns(params)]}
    for field, keys in known_keys.items():
        if strange := [key for key in getattr(options, field) if key not in keys]:
            raise SpecError(f"readings.{name}.{field}: no '{strange[0]}'{suggestion(strange[0], keys)}")


def draw(space: Space, inputs: Inputs) -> Picture:
    """Measure each reading, and draw them by their distance from the paper's numbers."""
    tables = {name: space.measured(inputs, name, taken) for name, taken in space.readings().items()}
    distances = (_distance(name, frame, space.table.finish is None) for name, frame in tables.items())
    lines = pd.DataFrame(map(or_, distances, space.readings().values()))
    known = lines.dropna(subset="mean")
    parts = shares(known[[*space.points]].to_numpy(), known["mean"].to_numpy()) if len(known) else {}
    explained = pd.DataFrame(
        {"row": SHARE, "column": key, "mean": share} for key, share in zip(space.points, parts, strict=False)
    )
    scale = next(iter(inputs.cells.values()))[0].run.scale
    claims = pd.DataFrame(_claims(space, tables, scale))
    shown = ["row", "column", "mean", "std", "n", "seeds", "published_mean", "margin", "away"]
    cells = [frame[shown].assign(column=frame["column"] + f"@{name}") for name, frame in tables.items()]
    numbers = pd.concat([lines, explained, claims, *cells], ignore_index=True)
    changes = ", ".join(f"{key} is {value}" for key, value in space.section.changes.items())
    notes = [f"All runs differ from the table's: {changes}."] if changes else []
    notes += ["Claims are judged on what was run here."] if IN_PART in {*numbers["row"]} else []
    by_rank = {name: f"reading {rank}" for rank, name in enumerate(nearest(numbers, len(lines)), 1)}
    return Picture(numbers, figure_of(space, numbers), [SHOWN, *notes, *sentences(numbers, by_rank)])


def _distance(name: str, frame: DataFrame, by_seed: bool) -> dict[str, Any]:
    """Return a reading's line: the mean distance of its printed cells, missing where a run diverged.

    ``std`` is over seeds, where ``by_seed`` says that runs' numbers are those of the cells; ``near`` counts
    cells within the margin, ``of`` those that are printed.
    """
    printed = frame[frame["published_mean"].notna()]
    columns = printed[["values", "published_mean", "margin"]].itertuples(index=False)
    cell_distances = (
        (cell, pair.rpartition("/")[2], abs(value - mean) / margin)
        for cell, (text, mean, margin) in enumerate(columns)
        for pair, value in parse_samples(text).items()
    )
    runs = pd.DataFrame(cell_distances, columns=["cell", "seed", "away"])
    runs["again"] = runs.groupby(["cell", "seed"]).cumcount()  # runs of one seed, as of several folds
    distances = runs.pivot(index=["seed", "again"], columns="cell", values="away").dropna().mean(axis=1)
    mean, std = printed["away"].mean(skipna=False), distances.std() if by_seed else np.nan
    counts = {"near": int((printed["away"] <= 1).sum()), "of": len(printed)}
    return {"row": DISTANCE, "column": name, "mean": mean, "std": std, **counts}


def _claims(space: Space, tables: Mapping[str, DataFrame], scale: str) -> Iterator[dict[str, Any]]:
    """Yield a line for each claim on the table: its share of the ``of`` readings that decide it.

    ``in`` and ``out`` name those in which it holds and fails. On a part of the table, or with changed runs,
    it decides nothing about the paper and has another name.
    """
    row = IN_PART if space.section.rows or space.section.columns or space.section.changes else CLAIM
    cells = {name: cells_of(frame.assign(data_state="")) for name, frame in tables.items()}
    for claim in ledger(space.paper):
        if claim.target != space.target:
            continue
        at_scale = claim.model_copy(update={"scales": (scale,)})
        answers = {name: HOLDS.get(judge(at_scale, lines, scale).status) for name, lines in cells.items()}
        if known := [holds for holds in answers.values() if holds is not None]:
            share = sum(known) / len(known)
            line = {"row": row, "column": claim.id, "mean": share, "of": len(known), "says": verdict(share)}
            for key, kind in (("in", True), ("out", False)):
                line[key] = " ".join(name for name, holds in answers.items() if holds is kind)
            yield line


def sentences(numbers: DataFrame, names: Mapping[str, str] = {}) -> list[str]:
    """Say which reading is nearest and what the points explain; ``names`` are those of readings in print."""
    lines, parts = (numbers[numbers["row"] == row] for row in (DISTANCE, SHARE))
    texts = [f"{len(lines)} readings."]
    known = lines.dropna(subset="mean")
    closest = known.nsmallest(2, "mean").replace({"column": dict(names)}).to_dict("records")
    pairs = zip(("Nearest to the paper", "next"), map(_named, closest), strict=False)
    texts += ["; ".join(map(": ".join, pairs)) + "."] if closest else []
    if len(parts):
        listed = ", ".join(f"{row['column']} {row['mean']:.0%}" for row in parts.to_dict("records"))
        fit = f"{len(known)} readings, {parameters(known[[*parts['column']]].to_numpy())} parameters"
        texts += [f"Of the variance of the distance points explain {listed}; combinations the rest ({fit})."]
    return texts


def held(numbers: DataFrame) -> list[str]:
    """Say in which share of the readings each claim holds."""
    claims, readings = numbers[numbers["row"].isin(CLAIMS)], sum(numbers["row"] == DISTANCE)
    items = (
        f"{row['column']} in {_says(row, readings, ' of the {} that decide it')} ({row['mean']:.0%})"
        for row in claims.to_dict("records")
    )
    where = "On what was run here, claims" if IN_PART in {*claims["row"]} else "Claims"
    return [f"{where} hold in a share of the readings: {', '.join(items)}."] if len(claims) else []


def _named(line: Mapping[Any, Any]) -> str:
    spread = "" if pd.isna(line["std"]) else f" ± {line['std']:.1f}"
    cells = f"{line['near']:.0f} of {line['of']:.0f} cells near"
    return f"{line['column']}, {line['mean']:.1f}{spread} margins away on average, {cells}"


def _says(claim: Mapping[Any, Any], readings: int, each: str) -> str:
    return f"{claim['says']}{'' if claim['of'] == readings else each.format(round(claim['of']))}"


def nearest(numbers: DataFrame, count: int) -> list[str]:
    """Return the names of the readings that are nearest to the paper, from a report's numbers."""
    return [*numbers[numbers["row"] == DISTANCE].nsmallest(count, "mean")["column"]]


def figure_of(space: Space, numbers: DataFrame) -> Figure:
    """Draw readings from near to far: the distance, what each takes, and the claims that hold in it."""
    order = numbers[numbers["row"] == DISTANCE].sort_values("mean", kind="stable").reset_index(drop=True)
    claims = numbers[numbers["row"].isin(CLAIMS)].to_dict("records")
    heights = [10, sum(len(point.tried) for point in space.points.values()) + 0.5, len(claims) + 0.5]
    figure = figures.framed(ROOM * sum(heights) + 0.4)
    above, choices, decided = figure.subplots(3, 1, sharex=True, height_ratios=heights)
    lacking = numbers.loc[numbers["n"] < numbers["seeds"], "column"].str.split("@").str[-1]
    _draw_distances(above, order, order.index[order["column"].isin(lacking)], _marks(space.points, order))
    _draw_choices(choices, order, space, numbers[numbers["row"] == SHARE].set_index("column")["mean"])
    _draw_claims(decided, order, claims)
    above.set_xticks(order.index, order.index + 1, fontsize=figures.SMALL)
    above.set_xlabel("reading, from near to far")
    above.tick_params(labelbottom=True)
    decided.tick_params(labelbottom=False)
    return figure


def _marks(open_points: Mapping[str, Point], order: DataFrame) -> dict[int, str]:
    """Return by place which readings are this project's (``paper``), then that of the authors' code."""
    words = ("paper", "code") if any(point.released for point in open_points.values()) else ("paper",)
    taken = {word: {key: getattr(point, word) for key, point in open_points.items()} for word in words}
    readings = order[[*open_points]].to_dict("records")
    marks = [", ".join(word for word in words if taken[word] == reading) for reading in readings]
    return {x: marks[x] for x in sorted(range(len(marks)), key=lambda x: marks[x] == "code") if marks[x]}


def _draw_distances(axes: Axes, order: DataFrame, lacking: Iterable[int], marks: dict[int, str]) -> None:
    axes.errorbar(order.index, order["mean"], yerr=order["std"], fmt="none", ecolor="0.6", linewidth=0.8)
    colours = np.where(order["mean"] <= 1, WITHIN, BEYOND)
    axes.scatter(order.index, order["mean"], c=colours, s=14, zorder=3)
    top: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "top"}
    for x in lacking:
        axes.text(x, 0.98, style.DIVERGED, **top, fontsize=figures.SMALL)
    axes.axhline(1, color="0.5", linewidth=0.8, linestyle="--")
    axes.set(yscale="log", ylabel="distance in margins", ymargin=0.15)
    for x, words in marks.items():
        # Points rise to the right: none is to the upper left or lower right of another.
        rise, side, edge = (4, "right", "bottom") if x == max(marks) > 0 else (-4, "left", "top")
        text_style: dict[str, Any] = {"textcoords": "offset points", "ha": side, "va": edge}
        axes.annotate(words, (x, order["mean"][x]), (rise / 2, rise), **text_style, fontsize=figures.SMALL)


def _draw_choices(axes: Axes, order: DataFrame, space: Space, parts: Series[float]) -> None:
    labels: list[str] = []
    for key, point in space.points.items():
        for name in point.tried:
            x = order.index[order[key] == name]
            axes.scatter(x, [len(labels)] * len(x), c=TAKEN, s=12)
            part = f" ({parts[key]:.0%})" if name == point.tried[0] and key in parts else ""
            labels.append(f"{key}{part}: {name.replace('_', ' ')}")
    _listed(axes, labels)


def _draw_claims(axes: Axes, order: DataFrame, claims: list[dict[Hashable, Any]]) -> None:
    looks: Any = {"in": {"c": WITHIN}, "out": {"facecolors": "none", "edgecolors": BEYOND}}
    for y, claim in enumerate(claims):
        for key, look in looks.items():
            x = order.index[order["column"].isin(claim[key].split() if isinstance(claim[key], str) else [])]
            axes.scatter(x, [y] * len(x), s=12, **look)
    _listed(axes, [f"{claim['column']}: in {_says(claim, len(order), ' of {}')}" for claim in claims])


def _listed(axes: Axes, labels: list[str]) -> None:
    axes.set_yticks(range(len(labels)), labels, fontsize=figures.SMALL)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.set_visible(bool(labels))


def verdict(share: float) -> str:
    """Say in a word in which share of the readings a claim holds."""
    return "all" if share == 1 else "none" if share == 0 else "most" if share > 1 / 2 else "some"
