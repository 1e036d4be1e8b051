"""`fedcore build` and `fedcore readings`: reports, as users type their names, by Snakemake."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcore.base.errors import DataError, SpecError, say
from fedcore.base.lazy import DataFrame
from fedcore.cli.options import Json, Quiet, show
from pipeline.catalogue.params import configuration, overlay
from pipeline.claims.points import points as open_points
from pipeline.claims.readings import ENDING, held, nearest, sentences
from pipeline.cli.cost import bill, text
from pipeline.cli.names import PARAMS, Report, Reports, Scale, elsewhere
from pipeline.papers import build_catalogue, catalogue_of
from pipeline.reports.results import read_tidy
from pipeline.workflow.reports import path_of

Cores = Annotated[int | None, typer.Option(min=1, help="Jobs at once; one per core by default.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Only list what would be done.")]

# Snakemake says which profile it uses before it looks at --quiet.
SILENT = """import contextlib, io, sys
from snakemake import cli
with contextlib.redirect_stderr(io.StringIO()):
    parser, options = cli.parse_args(sys.argv[1:])
sys.exit(not cli.args_to_api(options, parser))"""


def build(
    targets: Reports,
    cores: Cores = None,
    scale: Scale = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the command of each job too.")
    ] = False,
) -> None:
    """Build reports with Snakemake; finished parts are kept.

    Example: fedcore build rfedavg/table2 --cores 2
    """
    if not Path("Snakefile").exists():
        raise SpecError("Snakefile: not here; expected the folder of a checkout")
    studies = elsewhere(targets)
    catalogue = catalogue_of(PARAMS, scale, studies=studies)
    config = {"studies": [*map(str, studies)]} if studies else {}
    paths = [path_of(catalogue, target) for target in targets]
    flags = {"--dry-run": dry_run, "--quiet": quiet, "--printshellcmds": verbose}
    raise typer.Exit(_run_snakemake(paths, cores, scale, config, flags))


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
    name = f"{paper}/{target}{ENDING}"
    if name not in original.names():
        original.target(paper, target)  # refuses a wrong name
    if original.papers[paper].is_study:
        raise SpecError(f"{table}: is of a study, which has no open points; expected a table of a paper")
    lists = {"points": points, "rows": rows, "columns": columns}
    section: dict[str, Any] = {
        key: [*map(str.strip, given.split(","))] for key, given in lists.items() if given
    }
    if not points and target not in original.params.papers[paper].readings:
        known = [key for key, point in open_points(paper).items() if not point.fixed]
        raise SpecError(f"--points: missing, expected some of {', '.join(known)}")
    report = Path(f"reports/{name}.csv")
    section |= {"seeds": seeds} if seeds else {}
    section |= {"again": nearest(_numbers(report), again)} if again and report.exists() else {}
    # the values of the scale come last
    change = {"scales": {original.params.scale: {"papers": {paper: {"readings": {target: section}}}}}}
    config = configuration(PARAMS) | ({"scale": scale} if scale else {})
    cost = bill(build_catalogue(overlay(config, change)), name, cores=cores or os.cpu_count() or 1)
    say(*text(cost), error=as_json)
    code = _run_snakemake([f"reports/{name}"], cores, scale, change, {"--dry-run": dry_run})
    lines = [] if code or dry_run else [*sentences(_numbers(report)), *held(_numbers(report))]
    show(as_json, {"cost": cost, "report": report, "sentences": lines}, lines)
    raise typer.Exit(code)


def _numbers(report: Path) -> DataFrame:
    frame = read_tidy(report)
    if not {"row", "column", "mean"} <= {*frame}:
        raise DataError(f"{report}: no readings; build it again")
    return frame


def _run_snakemake(
    paths: Iterable[str],
    cores: int | None,
    scale: str | None,
    config: Mapping[str, Any],
    flags: Mapping[str, bool],
) -> int:
    """Let Snakemake make files, with more keys of its configuration and flags; return its exit code."""
    keys = [f"{key}={json.dumps(value)}" for key, value in config.items()]
    keys = [f"scale={scale}", *keys] if scale else keys
    command = ["snakemake", "--cores", str(cores or "all"), *(flag for flag, on in flags.items() if on)]
    command += [*(["--config", *keys] if keys else []), "--", *paths]
    quiet = "--quiet" in command
    if not quiet:
        say(shlex.join(command), error=True)
    path = os.environ["PATH"]
    if shutil.which("fedcore") is None:  # the command of the jobs
        path = os.pathsep.join([path, str(Path(sys.executable).parent)])
    arguments = ["-c", SILENT, *command[1:]] if quiet else ["-m", *command]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's `&` ignores it, and Snakemake would
    process = subprocess.Popen([sys.executable, *arguments], env={**os.environ, "PATH": path})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Snakemake gets it too, and ends its jobs
    signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGINT))
    return process.wait()
