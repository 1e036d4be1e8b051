"""A table through a real Slurm whose node dies, or whose allocation ends: the same bytes as on one machine.

    uv run pytest -m slurm -n 0

Needs Slurm and MUNGE (`apt-get install slurm-wlm munge`) and root; a minute or two.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from toy_cluster import Cluster, cluster, missing

sys.path.append(str(Path(__file__).parents[1] / "pipeline"))

from project import HOME, copy_sources, parameters

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"no Slurm: {', '.join(missing())} missing"),
]
TABLE = "reports/fedomw/table3.csv"
DATASETS = ("satimage", "letter", "dna")
RUNS = len(DATASETS) * 3 * 2  # algorithms, seeds
PATIENCE = 900.0
WATCH = """
import os, sys

def note(event, arguments):
    if event == "os.putenv" and arguments[0] == b"CUDA_VISIBLE_DEVICES":
        with open(os.path.join(os.path.dirname(__file__), "seen"), "a") as seen:
            seen.write(f"{os.getpid()} {arguments[1].decode()}\\n")

sys.addaudithook(note)
"""


def copy(folder: Path) -> Path:
    """Copy the project, with FedOMW alone, on half of its data sets."""
    folder.mkdir()
    copy_sources(folder)
    shutil.copytree(HOME / "data" / "demo", folder / "data" / "demo")
    config = parameters("fedomw")
    config["primary_paper"] = "fedomw"
    forget_others(config["papers"]["fedomw"])
    forget_others(config["scales"]["demo"]["papers"]["fedomw"])
    (folder / "params.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return folder


def forget_others(paper: dict[str, Any]) -> None:
    """Take the data sets that are left out from a paper's parameters."""
    for name in set(paper["datasets"]) - set(DATASETS):
        for part in (paper["datasets"], *(entry.get("per", {}) for entry in paper["algorithms"].values())):
            part.pop(name, None)


def call(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start Snakemake in a folder; what it says goes to a file there."""
    kept = {key: value for key, value in os.environ.items() if key != "FEDCORE_MIRROR"}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with (folder / "said.txt").open("ab") as log:
        return subprocess.Popen(
            ["snakemake", "--cores", "1", *arguments, "--", TABLE],
            cwd=folder,
            env=kept | {"PATH": path, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
        )


def said(folder: Path) -> str:
    return (folder / "said.txt").read_text(errors="replace")


def contents(folder: Path) -> dict[str, bytes]:
    """Return the results and reports, but for times and machines."""
    files = (path for part in ("results", "reports") for path in (folder / part).rglob("*"))
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in files
        if path.is_file() and path.name != "timing.json" and not path.name.startswith(".")
    }


def finished(folder: Path) -> set[Path]:
    return set(folder.glob("results/fedomw/demo/fl-*/*/*/provenance.json"))


def wait_for_runs(folder: Path, number: int, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until so many runs are finished."""
    end = time.monotonic() + PATIENCE
    while len(finished(folder)) < number:
        assert process is None or process.poll() is None, said(folder)[-4000:]
        assert time.monotonic() < end, said(folder)[-4000:]
        time.sleep(0.2)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@pytest.fixture(scope="module")
def of_one_machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the results and reports of a call without a cluster."""
    folder = copy(tmp_path_factory.mktemp("local") / "here")
    local = call(folder)
    assert local.wait(PATIENCE) == 0, said(folder)[-4000:]
    files = contents(folder)
    assert len([path for path in files if path.endswith("summary.json")]) == RUNS
    return files


@pytest.mark.timeout(2000)
def test_a_table_survives_the_death_of_its_node(
    toy: Cluster, of_one_machine: dict[str, bytes], tmp_path: Path
) -> None:
    folder = copy(tmp_path / "there")
    options = ["--profile", "profiles/slurm", "--slurm-status-command", "squeue", "--latency-wait", "5"]
    remote = call(folder, *options, "--slurm-init-seconds-before-status-checks", "3")
    try:
        wait_for_runs(folder, 3, remote)
        toy.fail_node()
        paths = finished(folder)
        times = {path: path.with_name("timing.json").read_bytes() for path in paths}
        toy.wait_for_node("down")
        toy.start_node()
        assert remote.wait(PATIENCE) == 0, said(folder)[-4000:]
    finally:
        remote.kill()
    assert len(paths) < RUNS, "the node died after everything was done"
    assert "Trying to restart job" in said(folder)
    assert {path: path.with_name("timing.json").read_bytes() for path in paths} == times, "done once"
    assert contents(folder) == of_one_machine


@pytest.mark.timeout(2000)
def test_a_pilot_uses_its_allocation_and_goes_on_in_the_next(
    toy: Cluster, of_one_machine: dict[str, bytes], tmp_path: Path
) -> None:
    """Runs of a whole GPU each use all four, and no GPU serves two at once; the first time ends early."""
    folder = copy(tmp_path / "there")
    (folder / "watch").mkdir()
    (folder / "watch" / "sitecustomize.py").write_text(WATCH)

    first = submit_pilot(folder)
    wait_for_runs(folder, 3)
    toy.ask("scancel", "--signal=INT", "--batch", first)
    wait_for_job(toy, first, folder)
    seen = gpus_used(folder / "watch" / "seen")
    paths = finished(folder)
    assert 3 <= len(paths) < RUNS
    times = {path: path.with_name("timing.json").read_bytes() for path in paths}
    wait_for_job(toy, submit_pilot(folder), folder)
    assert len(finished(folder)) == RUNS, said(folder)[-4000:]
    assert {path: path.with_name("timing.json").read_bytes() for path in paths} == times, "done once"
    assert seen | gpus_used(folder / "watch" / "seen") == {"0", "1", "2", "3"}
    assert contents(folder) == of_one_machine


def submit_pilot(folder: Path) -> str:
    """Submit a pilot that takes the whole node, and return its job; processes note which GPUs they see."""
    kept = {key: value for key, value in os.environ.items() if key != "FEDCORE_MIRROR"}
    modules = os.pathsep.join([str(folder), str(folder / "watch")])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    size = [
        "--cpus-per-task=8",
        "--gpus=4",
        "--mem=4000",
        f"--output={folder}/said.txt",
        "--open-mode=append",
    ]
    arguments = ["profiles/slurm/pilot.sh", "--set-resources", "train:gpu_percent=100", "--", TABLE]
    sent = subprocess.run(
        ["sbatch", "--parsable", *size, *arguments],
        cwd=folder,
        env=kept | {"PATH": path, "PYTHONPATH": modules},
        capture_output=True,
        text=True,
        check=True,
    )
    return sent.stdout.strip()


def wait_for_job(toy: Cluster, job: str, folder: Path) -> None:
    end = time.monotonic() + PATIENCE
    while toy.ask("squeue", "--noheader", f"--jobs={job}"):
        assert time.monotonic() < end, said(folder)[-4000:]
        time.sleep(0.5)


def gpus_used(record: Path) -> set[str]:
    """Return the GPUs that processes saw alone, and forget them; fails if two saw one at a time."""
    held: dict[str, str] = {}
    used: set[str] = set()
    for process, gpus in map(str.split, record.read_text().splitlines()):
        held = {gpu: holder for gpu, holder in held.items() if holder != process}
        if "," not in gpus:
            assert gpus not in held, f"{process} and {held[gpus]} saw GPU {gpus}"
            held[gpus] = process
            used.add(gpus)
    record.unlink()
    return used
