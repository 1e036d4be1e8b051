"""What ways of submission cost: many runs of a second through a real Slurm of one node with two cores.

    python benchmarks/cluster.py                           60 runs, four ways, ten minutes on two cores
    python benchmarks/cluster.py --runs 500 --way groups --way pilot
    python benchmarks/cluster.py --way alone --latency-wait 60

- alone: a submission for each run, which is what long runs get.
- arrays: the same runs as tasks of job arrays (`--slurm-array-jobs train`).
- groups: as profiles/slurm does with short runs.
- pilot: one allocation, Snakemake inside (profiles/slurm/pilot.sh).

Each way starts from a fresh copy of the project, with partitions made. It needs Slurm, and root.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from scheduling import HOME, copy, plan, snakemake

sys.path.append(str(HOME / "tests" / "slurm"))

from toy_cluster import Cluster, cluster, missing

ROUNDS = 200
CORES = 2
SLURM = ["--profile", "profiles/slurm", "--slurm-status-command", "squeue"]
SLURM += ["--slurm-init-seconds-before-status-checks", "2"]
WAYS = ("alone", "arrays", "groups", "pilot")


def main(
    runs: Annotated[int, typer.Option(help="How many.")] = 60,
    way: Annotated[list[str], typer.Option(help=f"One or more of: {', '.join(WAYS)}.")] = list(WAYS),  # noqa: B006
    latency_wait: Annotated[int, typer.Option(help="Snakemake's wait for files that are seen late.")] = 5,
) -> None:
    """Print a table: submissions, seconds of wall-clock time, and runs a minute."""
    if missing():
        raise SystemExit(f"no Slurm: {', '.join(missing())} missing")
    print(f"| {runs} runs | Submissions | Seconds | Runs a minute |\n|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder, "slurm"), CORES) as toy:
        for name in way:
            project = Path(folder, name)
            project.mkdir()
            submissions, seconds = measured(project, name, runs, toy, latency_wait)
            print(f"| {name} | {submissions} | {seconds:.0f} | {60 * runs / seconds:.0f} |", flush=True)


def measured(project: Path, way: str, runs: int, toy: Cluster, latency_wait: int) -> tuple[int, float]:
    """Make runs in one of the ways; return the submissions and the seconds."""
    copy(project)
    if way in ("alone", "arrays"):
        rule = project / "pipeline" / "workflow" / "answers.py"
        rule.write_text(rule.read_text().replace("SHORT_SECONDS = 120.0", "SHORT_SECONDS = 0.0"))
    planned = plan(project, ROUNDS, runs, False)
    snakemake(project, 2, [f"{run.partition}/partition.npz" for run in planned])
    files = [f"{run.folder}/summary.json" for run in planned]
    before, began = submitted(toy), time.monotonic()
    if way == "pilot":
        options = ["--wait", f"--cpus-per-task={CORES}", f"--output={project}/said.txt"]
        call = ["sbatch", *options, "profiles/slurm/pilot.sh", "--", *files]
    else:
        arrays = ["--slurm-array-jobs", "train"] if way == "arrays" else []
        call = ["snakemake", "--cores", "1", "--jobs", str(runs), *SLURM, *arrays]
        call += ["--latency-wait", str(latency_wait), "--", *files]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": path, "PYTHONPATH": str(project), "OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        call, cwd=project, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - began
    if lacking := [file for file in files if not (project / file).exists()]:
        raise SystemExit(
            f"{way}: {len(lacking)} runs are missing\n{process.stdout[-2000:]}{process.stderr[-4000:]}"
        )
    return submitted(toy) - before, seconds


def submitted(toy: Cluster) -> int:
    """Return how often a job was submitted; an array counts once."""
    return (
        (toy.folder / "slurmctld.log").read_text(errors="replace").count("_slurm_rpc_submit_batch_job: JobId")
    )


if __name__ == "__main__":
    typer.run(main)
