"""Commands of Python modules, in processes forked from one that has imported the libraries already.

It imports nothing of the project, so that the copy in the folder where the command runs is the one imported.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

LIBRARIES = (
    *("snakemake.cli", "pandas", "pydantic", "rich.console", "rich.table", "scipy.stats", "yaml"),
    *("jinja2", "markdown_it", "matplotlib.figure", "seaborn", "typer"),
)
FEDCORE = str(Path(sys.executable).with_name("fedcore"))
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([__name__, *LIBRARIES])


def call(
    folder: Path, command: Sequence[str], environment: Mapping[str, str] = os.environ, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, whose modules come first, and return what it printed.

    ``snakemake``, ``fedcore`` and ``python -m MODULE`` are forked, others are started. What Python and the
    libraries read of the environment when they start, such as PYTHONUTF8, is that of the tests.
    """
    match [*command]:
        case ["python" | sys.executable, "-m", module, *arguments]:
            pass
        case ["snakemake", *arguments]:
            module = "snakemake"
        case [program, *arguments] if program == FEDCORE:
            module = program
        case _:
            return subprocess.run(
                command,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
    with tempfile.TemporaryDirectory() as place:
        out, error = Path(place, "out"), Path(place, "error")
        values = (module, arguments, str(folder), dict(environment), str(out), str(error))
        process = SERVER.Process(target=_run, args=values)
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, timeout, out.read_bytes(), error.read_bytes())
        assert process.exitcode is not None
        return subprocess.CompletedProcess(
            command, process.exitcode, out.read_text(errors="replace"), error.read_text(errors="replace")
        )


def _run(
    module: str, arguments: list[str], folder: str, environment: dict[str, str], out: str, error: str
) -> None:
    for number, path in enumerate((os.devnull, out, error)):
        opened = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.pycache_prefix = environment.get("PYTHONPYCACHEPREFIX")
    sys.argv = [module, *arguments]
    try:
        if module == FEDCORE:
            runpy.run_path(module, run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
