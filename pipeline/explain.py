"""Looks into the catalogue: what can be asked for, and what a cell was made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcore import core_yaml
from fedcore.errors import DataError, SpecError
from fedcore.files import canonical_json, read_object, sha256_text
from fedcore.options import nearest
from pipeline.catalogue import Catalogue, Run
from pipeline.params import load, overlay
from pipeline.report import style
from pipeline.targets import Curves, Drawing, Table

MEASURED = ("status", "final", "data_note", "data_state", "data_sha256", "partition_sha256")
TIMED = ("seconds", "finished", "device", "commit")
Labels = tuple[Mapping[str, str], Mapping[str, str]]


def configuration(params: Path) -> dict[str, Any]:
    """Read a params.yaml.

    Raises:
        SpecError: the file can't be read or holds no keys and values.
    """
    config = core_yaml.read(params, "configuration")
    if not isinstance(config, dict):
        raise SpecError(f"{params}: expected keys and values")
    return config


def catalogue_of(params: Path, scale: str | None = None, over: Path | None = None) -> Catalogue:
    """Return the catalogue of a params.yaml, at its own scale or another, with a second file laid over it.

    Raises:
        SpecError: a file can't be read or is wrong.
    """
    config = configuration(params)
    if over is not None:
        config = overlay(config, configuration(over))
    return Catalogue(load(config | ({"scale": scale} if scale else {})))


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
    paper, target = named(catalogue, report)
    known = labels(catalogue, paper, target)
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
    from pipeline.fidelity.reference import kept_specs
    from pipeline.report.sittings import short_hash

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
    """What is known of one run behind a cell.

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
        row_label, column_label: how they are printed.
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
    paper, target = named(catalogue, report)
    cells = catalogue.cells(paper, target)
    if not cells:
        raise SpecError(f"{report}: no cell of it is made of runs; it follows from parameters and recipes")
    rows, columns = labels(catalogue, paper, target)
    row, column = _found(report, "row", row, rows), _found(report, "column", column, columns)
    if (row, column) not in cells:
        there = ", ".join(c for r, c in cells if r == row)
        raise SpecError(f"{report}: no cell at row '{row}', column '{column}'; that row has: {there}")
    made = tuple(Made(run.folder, facts(run, root)) for run in cells[row, column])
    return CellFacts(paper, target, row, column, rows[row], columns[column], made)


def labels(catalogue: Catalogue, paper: str, target: str) -> Labels:
    """Return the printed label of each row and of each column of a target, by key."""
    about, params = catalogue.target(paper, target), catalogue.params.papers[paper]
    cells = catalogue.cells(paper, target)
    rows = {row: style.label(row) for row, _ in cells}
    columns = {column: catalogue.papers[paper].datasets.get(column, column) for _, column in cells}
    if isinstance(about, Table | Drawing):
        own = {} if about.rows is None else about.rows(params)
        rows |= {row: label for row, label in own.items() if label}
    if isinstance(about, Table):
        columns |= {c.key: f"{c.group} {c.label}".strip() for c in about.columns(params)}
    elif isinstance(about, Curves):
        columns |= {panel.key: panel.label for panel in about.panels}
    return rows, columns


def facts(run: Run, root: Path = Path()) -> dict[str, Any]:
    """Return what is known of a run: from the catalogue, its summary and its timing."""
    known: dict[str, Any] = {
        "seed": run.seed,
        "spec": sha256_text(canonical_json(run.spec)),
        "code": run.code,
        "partition": run.partition,
    }
    summary = _json(root / run.folder / "summary.json")
    if summary is None:
        return known | {"status": "not run yet"}
    timing = _json(root / run.folder / "timing.json") or {}
    return known | _some(summary, MEASURED) | _some(timing, TIMED)


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


def named(catalogue: Catalogue, report: str) -> tuple[str, str]:
    """Return paper and target of a report's path."""
    path = Path(report)
    target = path.name.partition(".")[0]
    paper = path.parent.name
    return (paper if paper not in {"", "reports"} else catalogue.params.primary), target


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


def _json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        return read_object(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not valid JSON ({error}); delete the folder and build it again") from None


def _some(values: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: values[key] for key in keys if values.get(key) not in (None, "")}
