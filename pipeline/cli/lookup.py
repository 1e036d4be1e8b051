"""Commands that look into the catalogue: what can be asked for, and what a cell was made of."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError, say
from fedcore.base.files import write_text
from fedcore.base.options import nearest
from fedcore.cli.options import Json, show
from fedcore.execution.integrity import SUMMARY
from pipeline.catalogue import Catalogue
from pipeline.catalogue.targets import Sources
from pipeline.cli.names import PARAMS, TARGET, Overlay, Report, Scale, StudyFiles, elsewhere
from pipeline.fidelity.reference import kept_specs
from pipeline.papers import catalogue_of
from pipeline.reports.kept import REFERENCE
from pipeline.reports.results import facts, short_hash
from pipeline.reports.search import chosen as choice
from pipeline.reports.search import with_chosen
from pipeline.reports.style import labels
from pipeline.workflow.reports import targets_of


def targets(report: Annotated[str, TARGET] = "all", scale: Scale = None, as_json: Json = False) -> None:
    """List the reports that can be asked for, all or a paper's, with the number of runs that each needs.

    Example: fedcore targets rfedavg
    """
    catalogue = catalogue_of(PARAMS, scale, studies=elsewhere([report]))
    rows = [
        {
            "report": f"reports/{sources.paper}/{sources.name}",
            "runs": len(sources.trained),
            "published": sources.target.published,
            "title": sources.target.title,
        }
        for sources in (catalogue.sources(*one) for one in targets_of(catalogue, report))
    ]
    lines = (f"{row['report']:32} {row['runs']:5} runs  {row['published']}: {row['title']}" for row in rows)
    show(as_json, rows, [f"scale {catalogue.params.scale}", *lines])


def explain(
    report: Report,
    row: Annotated[str, typer.Option(help="The row, by key or label: fedomw or FedOMW.")],
    column: Annotated[str, typer.Option(help="The column, by key or label.")],
    scale: Scale = None,
    study: StudyFiles = None,
    as_json: Json = False,
) -> None:
    """Show the runs of a cell: folders, seeds, hashes of spec, data and partition, commit, time.

    Example: fedcore explain rfedavg/table1 --row fedprox --column mnist-sim0
    """
    details = cell_facts(catalogue_of(PARAMS, scale, studies=study or ()), report, row, column)
    show(as_json, details, text(details))


def runs(
    report: Report,
    row: Annotated[list[str] | None, typer.Option(help="Only these rows, by key or label.")] = None,
    column: Annotated[list[str] | None, typer.Option(help="Only these columns, by key or label.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Only these seeds.")] = None,
    scale: Scale = None,
    missing: Annotated[bool, typer.Option("--missing", help="Only what reports/reference/ lacks.")] = False,
    overlay: Overlay = None,
    study: StudyFiles = None,
    as_json: Json = False,
) -> None:
    """List the result files that a report's cells need, for `snakemake $(fedcore runs ...)`.

    Example: fedcore runs rfedavg/table1 --row fedprox --seed 1
    """
    catalogue = catalogue_of(PARAMS, scale, overlay, studies=study or ())
    paths = summaries(catalogue, report, row or (), column or (), seed or (), REFERENCE if missing else None)
    show(as_json, paths, paths)


def chosen(
    report: Annotated[list[Path], typer.Argument(help="Searches' csv: reports/fedavgr/search_fedavg.csv.")],
    write: Annotated[bool, typer.Option("--write", help="Put it into the study's file.")] = False,
    scale: Scale = None,
    overlay: Overlay = None,
    study: StudyFiles = None,
    as_json: Json = False,
) -> None:
    """Print what searches chose, as a file for `--configfile` or to be copied into params.yaml.

    What a study's searches chose goes into its file: `fedcore chosen reports/skew/tune_*.csv --write`.

    Example: fedcore chosen reports/fedavgr/search_fedavg.csv
    """
    catalogue = catalogue_of(PARAMS, scale, overlay, studies=study or ())
    choices = choice(catalogue, *report)
    if not write:
        show(as_json, choices, core_yaml.to_yaml(choices).splitlines())
        return
    for name, section in choices.get("papers", {}).items():
        file = catalogue.params.files.get(name)
        if file is None:
            raise SpecError(f"--write: '{name}' is a paper, expected a study; copy the values to params.yaml")
        write_text(Path(file), with_chosen(Path(file).read_text(encoding="utf-8"), section["chosen"]))
        say(f"wrote {file}")


def summaries(
    catalogue: Catalogue,
    report: str,
    rows: Collection[str],
    columns: Collection[str],
    seeds: Collection[int],
    kept: Path | None = None,
) -> list[str]:
    """Return the result files that some cells of a report need.

    Rows and columns are keys as in the csv, or labels as in print; without any, and without seeds, all count.
    With a folder of reference results, ``kept``, runs that a table in it holds are left out. It raises
    SpecError if there is no such report, row or column, or nothing like that is in it.
    """
    sources = catalogue.sources(*catalogue.named(report))
    if sources.target.needs == "partitions":
        raise SpecError(f"{report}: needs partitions and no run")
    if not sources.runs:
        raise SpecError(f"{report}: needs no run; `fedcore build {sources.paper}/{sources.name}` makes it")
    known_rows, known_columns = labels(sources)
    asked_rows = {_found(report, "row", name, known_rows) for name in rows} or known_rows
    asked_columns = {_found(report, "column", name, known_columns) for name in columns} or known_columns
    selected = {
        run.folder: run
        for (row, column), runs in sources.cells.items()
        for run in runs
        if row in asked_rows and column in asked_columns and (not seeds or run.seed in seeds)
    }
    if not selected:
        raise SpecError(f"{report}: no run in the rows, columns and seeds that were asked for")
    held = kept_specs(sources.paper, sources.name, kept) if kept else ()
    return [f"{folder}/{SUMMARY}" for folder, run in selected.items() if short_hash(run) not in held]


def cell_facts(
    catalogue: Catalogue, report: str, row: str, column: str, root: Path = Path()
) -> dict[str, Any]:
    """Return what a report's cell, named by keys as in the csv or labels as in print, was made of.

    These are keys and labels, and of each of its ``runs`` the folder and ``facts``, whose ``status`` is
    ``not run yet`` where ``root`` holds no result. It raises as ``cell`` does.
    """
    sources, row, column = cell(catalogue, report, row, column)
    rows, columns = labels(sources)
    keys = {"paper": sources.paper, "target": sources.name, "row": row, "column": column}
    entries = [{"run": run.folder, "facts": facts(run, root)} for run in sources.cells[row, column]]
    return {**keys, "row_label": rows[row], "column_label": columns[column], "runs": entries}


def cell(catalogue: Catalogue, report: str, row: str, column: str) -> tuple[Sources, str, str]:
    """Return a report and the keys of its cell, named by keys or labels; SpecError if there is no such."""
    sources = catalogue.sources(*catalogue.named(report))
    if not sources.cells:
        raise SpecError(f"{report}: no cell of it is made of runs; it follows from parameters and recipes")
    rows, columns = labels(sources)
    row, column = _found(report, "row", row, rows), _found(report, "column", column, columns)
    if (row, column) not in sources.cells:
        row_columns = ", ".join(c for r, c in sources.cells if r == row)
        raise SpecError(f"{report}: no cell at row '{row}', column '{column}'; that row has: {row_columns}")
    return sources, row, column


def text(cell: Mapping[str, Any]) -> Iterator[str]:
    """Yield the facts of a cell for a terminal, a block of lines a run."""
    yield (
        f"{cell['row_label']}, {cell['column_label']} of reports/{cell['paper']}/{cell['target']}: "
        f"{len(cell['runs'])} runs (row '{cell['row']}', column '{cell['column']}')"
    )
    for entry in cell["runs"]:
        yield entry["run"]
        yield from (f"  {key:17} {value}" for key, value in entry["facts"].items())


def _found(report: str, what: str, name: str, known: Mapping[str, str]) -> str:
    if name in known:
        return name
    keys = [key for key, label in known.items() if name.casefold() in {key.casefold(), label.casefold()}]
    if len(keys) == 1:
        return keys[0]
    if keys:
        raise SpecError(f"{report}: {what} '{name}' may be any of {', '.join(keys)}, expected one of them")
    shown = ", ".join(key if key == label else f"{key} ({label})" for key, label in known.items())
    raise SpecError(f"{report}: no {what} '{name}'{nearest(name, [*known, *known.values()])}; known: {shown}")
