"""What scheduling costs: many short runs through Snakemake, against the seconds that they take themselves.

Makes so many runs of about a second each, one job a run, in a throw-away copy of the project. Partitions are
made before the clock starts. Two measures, and the exit code is 1 if the first is below the target:

- efficiency: the sum of the runs' own wall-clock seconds over cores x wall-clock seconds. It needs a machine
  that does nothing else.
- overhead: processor seconds (user and system) of Snakemake and all that it started, less those of the runs
  themselves. It stays about the same on a machine that others use too.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

HOME = Path(__file__).parent.parent
sys.path[:0] = [str(HOME), str(HOME / "tests" / "pipeline")]

from project import SOURCES, parameters  # noqa: E402

from pipeline.catalogue.targets import PlannedRun  # noqa: E402
from pipeline.papers import build_catalogue  # noqa: E402

PAPER, SETTING, ALGORITHM = "fedavgr", "table2-satimage-shards", "fedavg"
TRIAL_ROUNDS = 200
TARGET = 0.85
WARM_SECONDS = 3.0
SAYS = """
import atexit, os, sys, time

if "fedcore.cli.serve" in sys.orig_argv:
    leave = os._exit

    def say(code=None):
        with open({path!r}, "a") as file:
            file.write(f"{{time.process_time()}}\\n")
        if code is not None:
            leave(code)

    atexit.register(say)
    os._exit = say
"""


def main(
    runs: Annotated[int, typer.Option(help="How many.")] = 500,
    seconds: Annotated[float, typer.Option(help="How long each should take, about.")] = 1.0,
    cores: Annotated[int, typer.Option(help="How many at once.")] = 2,
    one_process: Annotated[
        bool, typer.Option(help="All in one job, as at demo scale, and so on one core.")
    ] = False,
) -> None:
    """Print how well the cores are used."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        copy(project)
        rounds = calibrated(project, seconds)
        planned = plan(project, rounds, runs, one_process)
        files = [f"{run.folder}/summary.json" for run in planned]
        snakemake(project, cores, [f"{run.partition}/partition.npz" for run in planned])
        spent = Spent(project)
        snakemake(project, cores, files)
        wall, processor = spent.until_now()
        timings = [json.loads((project / run.folder / "timing.json").read_text()) for run in planned]
        runs_wall = sum(timing["seconds"] for timing in timings)
        runs_processor = sum(map(float, measured(project, "cpu_s")))
    at_once = 1 if one_process else cores
    efficiency, useful = runs_wall / (at_once * wall), runs_processor / processor
    met = "met" if efficiency >= TARGET else "missed"
    print(f"{runs} runs of {runs_wall / runs:.2f} s ({rounds} rounds) on {at_once} cores, {wall:.1f} s")
    print(f"efficiency {efficiency:.1%} of {at_once} x wall-clock seconds, target {TARGET:.0%}: {met}")
    lost = processor - runs_processor
    print(f"overhead {lost:.1f} of {processor:.1f} processor seconds, {lost / runs:.3f} s a run")
    print(f"the runs' own share of all processor seconds {useful:.1%}")
    raise typer.Exit(efficiency < TARGET)


class Spent:
    """Wall-clock and processor seconds of what is started from here, from its making on.

    The system counts processes that are waited for. Those that nobody waits for, the warm process and what it
    forks, are let to say themselves what they used, by a module that Python imports at its start.
    """

    def __init__(self, project: Path) -> None:
        self.seconds = project / "processor_seconds"
        (project / "sitecustomize.py").write_text(SAYS.format(path=str(self.seconds)))
        self.began, self.before = time.monotonic(), waited_for()

    def until_now(self) -> tuple[float, float]:
        """Return the seconds, once the warm process, which outlives its owner for a moment, has ended."""
        wall = time.monotonic() - self.began
        time.sleep(WARM_SECONDS)
        unwaited = sum(map(float, self.seconds.read_text().split())) if self.seconds.exists() else 0.0
        return wall, waited_for() - self.before + unwaited


def waited_for() -> float:
    """Return the processor seconds of all ended children of this process, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(project: Path, column: str) -> list[str]:
    """Return a column of what all runs measured of themselves."""
    values = []
    for path in (project / "logs" / "benchmarks").rglob("*.tsv"):
        head, *lines = (line.split("\t") for line in path.read_text().splitlines())
        values += [line[head.index(column)] for line in lines]
    return values


def copy(project: Path) -> None:
    """Copy the project with its demo data."""
    for name in SOURCES:
        source = HOME / name
        if source.is_dir():
            shutil.copytree(source, project / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, project / name)
    shutil.copytree(HOME / "data" / "demo", project / "data" / "demo")


def calibrated(project: Path, seconds: float) -> int:
    """Return the number of rounds that take so many processor seconds here."""
    (run,) = plan(project, TRIAL_ROUNDS, 1, False)
    snakemake(project, 1, [f"{run.folder}/summary.json"])
    took = float(measured(project, "cpu_s")[0])
    for name in ("results", "logs"):
        shutil.rmtree(project / name)
    return max(1, round(TRIAL_ROUNDS * seconds / took))


def plan(project: Path, rounds: int, runs: int, one_process: bool) -> list[PlannedRun]:
    """Write a params.yaml with so many seeds, and return the runs."""
    config: dict[str, Any] = parameters(PAPER)
    config["primary_paper"] = PAPER
    demo = config["scales"]["demo"]
    demo["seeds"] = list(range(runs))
    demo["one_process"] = one_process
    demo["papers"][PAPER]["regimes"]["table2"]["training"] = {"rounds": rounds}
    (project / "params.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    groups = build_catalogue(config).planned(PAPER).groups.values()
    return next(runs for runs in groups if (runs[0].setting, runs[0].algorithm) == (SETTING, ALGORITHM))


def snakemake(project: Path, cores: int, files: list[str]) -> None:
    """Make files, and say what went wrong if it does."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    process = subprocess.run(
        ["snakemake", "--cores", str(cores), *files],
        cwd=project,
        env=os.environ | {"PATH": path, "PYTHONPATH": str(project), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise SystemExit(process.stdout[-2000:] + process.stderr[-4000:])


if __name__ == "__main__":
    typer.run(main)
