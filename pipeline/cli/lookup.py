"""Looks into the catalogue: what can be asked for, and what a cell was made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcore.base.errors import SpecError
from fedcore.base.options import nearest
from pipeline.catalogue import Catalogue
from pipeline.fidelity.reference import kept_specs
from pipeline.papers import catalogue_of
from pipeline.reports.results import facts, short_hash
from pipeline.reports.style import labels


def summaries(
    catalogue: Catalogue,
    report: str,
    rows: Collection[str],
    columns: Collection[str],
    seeds: Collection[int],
    kept: Path | None = None,
) -> list[str]:
    """Return the result files that some cells of a report need.

    Args:
        catalogue: where the report's runs are found.
        report: its path; without a paper, the primary paper's.
        rows, columns: keys as in the csv, or labels as in print; none for all.
        seeds: none for all.
        kept: a folder of reference results; without runs that a table in it holds.

    Raises:
        SpecError: no such report, row or column, or nothing like that is in it.
    """
    paper, target = catalogue.named(report)
    known = labels(catalogue.sources(paper, target))
    asked = zip(("row", "column"), (rows, columns), known, strict=True)
    chosen = [{_found(report, kind, one, all_) for one in some} for kind, some, all_ in asked]
    found = {
        f"{run.folder}/summary.json": None
        for (row, column), runs in catalogue.cells(paper, target).items()
        for run in runs
        if (not rows or row in chosen[0]) and (not columns or column in chosen[1])
        if not seeds or run.seed in seeds
    }
    if not found:
        raise SpecError(f"{report}: no run in the rows, columns and seeds that were asked for")
    if kept is None:
        return list(found)
    held = kept_specs(paper, target, kept)
    return [name for name in found if short_hash(catalogue.index[str(Path(name).parent)]) not in held]


def listing(params: Path) -> str:
    """Return a line for each report: its path, its title, how many runs it needs."""
    catalogue = catalogue_of(params)
    lines = [f"scale {catalogue.params.scale}"]
    for name in catalogue.names():
        paper, target = name.split("/")
        about = catalogue.target(paper, target)
        runs = len(catalogue.needed(paper, target))
        lines.append(f"reports/{name:24} {runs:5} runs  {about.published}: {about.title}")
    return "\n".join(lines)


@dataclass(frozen=True)
class Made:
    """What is known about one run of a cell.

    Attributes:
        run: its folder, which is its name.
        facts: by key, in reading order: seed, hashes, status, measurements, commit and time; ``status`` is
            ``not run yet`` where there is no result.
    """

    run: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class CellFacts:
    """What a report's cell was made of.

    Attributes:
        paper, target, row, column: the keys of the cell.
        row_label, column_label: their printed names.
        runs: the runs, in the order of the catalogue.
    """

    paper: str
    target: str
    row: str
    column: str
    row_label: str
    column_label: str
    runs: tuple[Made, ...]


def cell_facts(catalogue: Catalogue, report: str, row: str, column: str, root: Path = Path()) -> CellFacts:
    """Return what a report's cell was made of.

    Args:
        catalogue: where the report's runs are found.
        report: its path, such as ``reports/fedomw/table3.csv``; without a paper, the primary paper's.
        row, column: keys as in the csv, or labels as in print.
        root: the folder that holds results/.

    Raises:
        SpecError: no such report, row or column.
    """
    paper, target = catalogue.named(report)
    cells = catalogue.cells(paper, target)
    if not cells:
        raise SpecError(f"{report}: no cell of it is made of runs; it follows from parameters and recipes")
    rows, columns = labels(catalogue.sources(paper, target))
    row, column = _found(report, "row", row, rows), _found(report, "column", column, columns)
    if (row, column) not in cells:
        there = ", ".join(c for r, c in cells if r == row)
        raise SpecError(f"{report}: no cell at row '{row}', column '{column}'; that row has: {there}")
    made = tuple(Made(run.folder, facts(run, root)) for run in cells[row, column])
    return CellFacts(paper, target, row, column, rows[row], columns[column], made)


def text(found: CellFacts) -> str:
    """Return the facts of a cell for a terminal, a block of lines a run."""
    head = (
        f"{found.row_label}, {found.column_label} of reports/{found.paper}/{found.target}: "
        f"{len(found.runs)} runs (row '{found.row}', column '{found.column}')"
    )
    blocks = (
        [made.run, *(f"  {key:17} {value}" for key, value in made.facts.items())] for made in found.runs
    )
    return "\n".join([head, *(line for block in blocks for line in block)])


def _found(report: str, what: str, asked: str, known: Mapping[str, str]) -> str:
    """Return the key that is asked for by key or by label.

    Raises:
        SpecError: there is none, or there are several.
    """
    if asked in known:
        return asked
    keys = [key for key, label in known.items() if asked.casefold() in {key.casefold(), label.casefold()}]
    if len(keys) == 1:
        return keys[0]
    if keys:
        raise SpecError(f"{report}: {what} '{asked}' may be any of {', '.join(keys)}, expected one of them")
    shown = ", ".join(key if key == label else f"{key} ({label})" for key, label in known.items())
    raise SpecError(
        f"{report}: no {what} '{asked}'{nearest(asked, [*known, *known.values()])}; known: {shown}"
    )
