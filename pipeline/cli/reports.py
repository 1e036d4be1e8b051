"""Commands that make reports, pages and numbers of finished runs; Snakemake's jobs call them."""

from pathlib import Path
from typing import Annotated

import typer

from fedcore.base.errors import say
from fedcore.base.files import write_text
from fedcore.cli.options import Json, show
from pipeline.catalogue.params import configuration, with_studies
from pipeline.cli.names import PARAMS, Overlay, Params, Report, Scale, StudyFiles
from pipeline.fidelity.board import board
from pipeline.papers import catalogue_of
from pipeline.reports import build_report, write_partial
from pipeline.reports.render import compile_document
from pipeline.reports.results import is_made
from pipeline.reports.style import labels
from pipeline.site import build as build_site
from pipeline.site.board import write as write_board
from pipeline.workflow.dvc import means_json


def report(report: Report, params: Params = PARAMS) -> None:
    """Write a report in all its forms from finished runs; `snakemake` calls this once they are there.

    Example: fedcore report rfedavg/table1
    """
    catalogue = catalogue_of(params)
    say(*(f"wrote {path}" for path in build_report(catalogue.sources(*catalogue.named(report)))))


def partial(report: Report, scale: Scale = None, overlay: Overlay = None, study: StudyFiles = None) -> None:
    """Write a table of the runs that are finished, and count them; an empty cell says why its runs failed.

    Example: fedcore partial rfedavg/table1
    """
    catalogue = catalogue_of(PARAMS, scale, overlay, studies=study or ())
    sources = catalogue.sources(*catalogue.named(report))
    paths = write_partial(sources)
    finished = sum(is_made(run, sources.root) for run in sources.runs)
    say(f"{finished} of {len(sources.runs)} runs are finished", *(f"wrote {path}" for path in paths))


def fidelity(scale: Scale = None, params: Params = PARAMS, as_json: Json = False) -> None:
    """Write reports/fidelity.{csv,md,html} and fidelity-claims.csv: what was published beside ours.

    Example: fedcore fidelity
    """
    catalogue = catalogue_of(params, scale)
    comparison = board(catalogue.params.scale)
    beside = {*comparison.cells[["paper", "beside"]].itertuples(index=False, name=None)}
    names = {name: labels(catalogue.sources(*name)) for name in beside if "/".join(name) in catalogue.names()}
    paths = write_board(comparison, names)
    parts = {name: getattr(comparison, name).to_dict("records") for name in ("cells", "tables", "claims")}
    show(as_json, {"scale": comparison.scale, **parts, "files": paths}, [f"wrote {path}" for path in paths])


def metrics(
    out: Annotated[Path, typer.Option(help="The JSON file to write.")],
    tables: Annotated[list[Path] | None, typer.Argument(help="Tables as csv.")] = None,
) -> None:
    """Write the means of tables as JSON, for `dvc metrics`.

    Example: fedcore metrics reports/rfedavg/table1.csv --out metrics.json
    """
    write_text(out, means_json(tables or ()))


def pdf(source: Path, target: Path) -> None:
    """Compile a standalone table.

    Example: fedcore pdf reports/rfedavg/table1.standalone.tex table1.pdf
    """
    compile_document(source, target)


def site(params: Params = PARAMS) -> None:
    """Build reports/site/ from the reports and runs that exist; missing ones are shown as missing.

    Example: fedcore site
    """
    say(f"wrote {build_site(with_studies(configuration(params)))}")
