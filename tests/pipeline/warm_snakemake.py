"""Snakemake as its command runs it, in processes forked from one that has imported it already.

It imports nothing of the project, so that the copy in the folder where the command runs is the one imported.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

LIBRARIES = ("snakemake.cli", "pandas", "pydantic", "rich.console", "rich.table", "scipy.stats", "yaml")
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([__name__, *LIBRARIES])


def snakemake(
    folder: Path, arguments: tuple[str, ...], environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run ``snakemake`` in a folder, whose modules come first, and return what it printed."""
    with tempfile.TemporaryDirectory() as place:
        out, error = Path(place, "out"), Path(place, "error")
        values = (str(folder), arguments, dict(environment), str(out), str(error))
        process = SERVER.Process(target=_snakemake, args=values)
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(arguments, timeout, out.read_bytes(), error.read_bytes())
        assert process.exitcode is not None
        return subprocess.CompletedProcess(
            arguments, process.exitcode, out.read_text(errors="replace"), error.read_text(errors="replace")
        )


def _snakemake(
    folder: str, arguments: tuple[str, ...], environment: dict[str, str], out: str, error: str
) -> None:
    from snakemake.cli import main  # noqa: PLC0415 - the server has it, the tests' process need not

    for number, path in enumerate((os.devnull, out, error)):
        opened = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, folder)
    sys.pycache_prefix = environment.get("PYTHONPYCACHEPREFIX")
    sys.argv = ["snakemake", *arguments]
    try:
        main(list(arguments))
    finally:
        atexit._run_exitfuncs()
