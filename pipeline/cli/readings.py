"""`fedcore readings`: a table under other readings of its paper, by Snakemake, its cost announced first."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcore.base.errors import SpecError, say
from fedcore.base.lazy import pd
from fedcore.cli.options import Json, show
from pipeline.catalogue.params import configuration, overlay
from pipeline.claims.points import points as open_points
from pipeline.claims.readings import ENDING, held, nearest, sentences
from pipeline.cli.build import Cores, DryRun, run_snakemake
from pipeline.cli.cost import bill, text
from pipeline.cli.names import PARAMS, Report, Scale
from pipeline.papers import build_catalogue, catalogue_of


def readings(
    table: Report,
    points: Annotated[str, typer.Option(help="Open points, with commas; params.yaml's by default.")] = "",
    rows: Annotated[str, typer.Option(help="Rows of the table, likewise; all by default.")] = "",
    columns: Annotated[str, typer.Option(help="Its columns, likewise.")] = "",
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds each reading runs with.")] = None,
    again: Annotated[
        int, typer.Option(min=0, help="How many of the nearest readings, once built, run with all seeds.")
    ] = 0,
    cores: Cores = None,
    scale: Scale = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Measure a table under readings of its paper: which is nearest to what was published, which claims hold.

    Example: fedcore readings fedomw/table2 --points labels,start --dry-run
    """
    original = catalogue_of(PARAMS, scale)
    paper, target = original.named(table)
    if f"{paper}/{target}{ENDING}" not in original.names():
        original.target(paper, target)  # refuses a wrong name
    if original.papers[paper].is_study:
        raise SpecError(f"{table}: is of a study, which has no open points; expected a table of a paper")
    config = configuration(PARAMS) | ({"scale": scale} if scale else {})
    report = Path(f"reports/{paper}/{target}{ENDING}.csv")
    lists = {"points": points, "rows": rows, "columns": columns}
    section: dict[str, Any] = {
        key: [name.strip() for name in names.split(",")] for key, names in lists.items() if names
    }
    if not points and target not in original.params.papers[paper].readings:
        names = [name for name, point in open_points(paper).items() if not point.fixed]
        raise SpecError(f"--points: missing, expected some of {', '.join(names)}")
    section |= {"seeds": seeds} if seeds else {}
    section |= {"again": nearest(pd.read_csv(report), again)} if again and report.exists() else {}
    of_scale = original.params.scale  # whose values come last
    change = {of_scale: {"papers": {paper: {"readings": {target: section}}}}}
    catalogue = build_catalogue(overlay(config, {"scales": change}))
    cost = bill(catalogue, f"{paper}/{target}{ENDING}", cores=cores or os.cpu_count() or 1)
    say(*text(cost), error=as_json)
    laid_over = [f"scales={json.dumps(change)}"]
    code = run_snakemake([str(report.with_suffix(""))], cores, scale, laid_over, dry_run=dry_run)
    lines = [] if code or dry_run else [*sentences(pd.read_csv(report)), *held(pd.read_csv(report))]
    show(as_json, {"cost": cost, "report": report, "sentences": lines}, lines)
    raise typer.Exit(code)
