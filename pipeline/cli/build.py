"""`fedcore build`: reports, as users type their names, by Snakemake."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fedcore.base.errors import SpecError, say
from fedcore.cli.options import Quiet
from pipeline.cli.names import PARAMS, Reports, Scale, elsewhere
from pipeline.papers import catalogue_of
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
    config = [f"studies={json.dumps([*map(str, studies)])}"] if studies else []
    paths = [path_of(catalogue, target) for target in targets]
    options = {"dry_run": dry_run, "quiet": quiet, "verbose": verbose}
    raise typer.Exit(run_snakemake(paths, cores, scale, config, **options))


def run_snakemake(
    paths: Iterable[str],
    cores: int | None,
    scale: str | None,
    config: Sequence[str] = (),
    *,
    dry_run: bool,
    quiet: bool = False,
    verbose: bool = False,
) -> int:
    """Let Snakemake make files, by the options of ``build`` and more keys of its configuration.

    Returns:
        Its exit code.
    """
    options = {"--dry-run": dry_run, "--quiet": quiet, "--printshellcmds": verbose}
    command = ["snakemake", "--cores", str(cores or "all"), *(name for name, on in options.items() if on)]
    config = [*([f"scale={scale}"] if scale else []), *config]
    command += [*(["--config", *config] if config else []), "--", *paths]
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
