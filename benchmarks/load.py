"""How much does it bear? Time and peak memory of large catalogues, federations and data sets.

    python benchmarks/load.py                    all cases, some minutes
    python benchmarks/load.py --case catalogue   one of them

Each case is a process of its own. Limits are on processor time, which others disturb least, and on the
peak resident size of the largest process. The exit code is 1 if a case is over its limit.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parents[1]
COPIED = ("Snakefile", "params.yaml", "pipeline", "fedcore", "profiles")
RUNS, CLIENTS, ROWS = 10_000, 5_000, 2_000_000


@dataclass(frozen=True)
class Case:
    """What is done, in words, and what it may take: seconds and GB, or None where nothing is promised."""

    work: Callable[[], str]
    seconds: float | None = None
    gigabytes: float | None = None


def demo(seeds: int) -> dict[str, Any]:
    """Return params.yaml with so many seeds a setting in the demo, a job each."""
    import yaml

    config: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text())
    config["scales"]["demo"] |= {"seeds": list(range(seeds)), "one_process": False}
    return config


def runs(config: dict[str, Any]) -> int:
    """Return the number of runs in a configuration's catalogue."""
    from pipeline.papers import build_catalogue

    return len(build_catalogue(config).index)


def copy(folder: Path) -> None:
    """Make a copy of the project without data and results."""
    folder.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)


def parse() -> str:
    """Parse a catalogue of 10,000 runs and plan all of it, as `snakemake -n` does."""
    import yaml

    seeds = next(seeds for seeds in count(10, step=2) if runs(demo(seeds)) >= RUNS)
    config = demo(seeds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "demo")
        copy(folder)
        (folder / "params.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
        jobs = planned(folder)
    return f"{runs(config):,} runs, {seeds} seeds a setting: parsed and {jobs} jobs planned"


def paper() -> str:
    """Plan everything of all papers at paper scale, a job for each run."""
    import yaml

    with tempfile.TemporaryDirectory() as name:
        copy(Path(name, "paper"))
        jobs = planned(Path(name, "paper"), "--config", "scale=paper")
    config = yaml.safe_load((ROOT / "params.yaml").read_text()) | {"scale": "paper"}
    return f"{runs(config):,} runs at paper scale: parsed and {jobs} jobs planned"


def planned(folder: Path, *arguments: str) -> str:
    """Plan everything in a copy of the project; return the number of jobs."""
    command = [shutil.which("snakemake") or "snakemake", "--dry-run", "--quiet", "rules", "--cores", "1"]
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    jobs = re.search(r"^total\s+(\d+)$", done.stdout + done.stderr, re.MULTILINE)
    return f"{int(jobs[1]):,}" if jobs else "no"


def federation() -> str:
    """Run a few rounds with 5,000 clients, all of them known, a hundredth of them in each round."""
    from fedcore.execution.runner import run

    spec = {
        "data": {"name": "synthetic", "clients": CLIENTS, "largest": 200},
        "partition": {"name": "natural"},
        "model": {"name": "logistic"},
        "algorithm": {"name": "scaffold"},
        "training": {"rounds": 20, "local_epochs": 1, "batch_size": 10, "lr": 0.01},
        "participation": {"fraction": 0.01},
        "evaluation": {"every": 10, "train_every": 10},
    }
    summary = run(spec).summary
    return (
        f"{summary['clients']:,} clients, {summary['samples']:,} rows, {summary['rounds']} rounds of SCAFFOLD"
    )


def rows() -> str:
    """Deal 2,000,000 rows out in three ways."""
    import numpy as np

    from fedcore.base.options import validate
    from fedcore.base.registry import find
    from fedcore.data import Dataset, Rows
    from fedcore.partitions import PartitionOptions
    from fedcore.partitions.build import make

    rng = np.random.default_rng(0)
    train = Rows(rng.standard_normal((ROWS, 20), dtype=np.float32), rng.integers(0, 10, ROWS))
    dataset = Dataset("made", train, Rows(train.x[:10], train.y[:10]), 10, "synthetic", "")
    took = []
    for name, values in (
        ("iid", {"clients": 100}),
        ("dirichlet", {"clients": 100, "alpha": 0.1, "convention": "by_client"}),
        ("similarity", {"clients": 100, "similarity": 0.1}),
    ):
        plugin = find("partition", name, "partition.name")
        began = time.perf_counter()
        options = validate(plugin.options, values, "partition")
        assert isinstance(options, PartitionOptions)
        made = make(plugin, options, dataset, 0)
        assert sum(map(len, made.clients)) == ROWS
        took.append(f"{name} {time.perf_counter() - began:.1f} s")
    return f"{ROWS:,} rows of 20 features: {', '.join(took)}"


CASES = {
    "catalogue": Case(parse, seconds=30, gigabytes=1.5),
    "paper": Case(paper, gigabytes=1.5),
    "federation": Case(federation),
    "rows": Case(rows),
}


def measured(name: str) -> bool:
    """Do a case in a process of its own and print what it took; return whether it kept its limits."""
    case = CASES[name]
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--work", name], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        print(f"{name}: failed\n{done.stderr[-2000:]}")
        return False
    said, _, used = done.stdout.strip().rpartition("\n")
    processor, peak = map(float, used.split())
    gigabytes = peak / 2**20
    limits = [
        f"{limit:g} {unit}"
        for limit, unit in ((case.seconds, "s"), (case.gigabytes, "GB"))
        if limit is not None
    ]
    kept = (case.seconds is None or processor <= case.seconds) and (
        case.gigabytes is None or gigabytes <= case.gigabytes
    )
    against = f" (limit {', '.join(limits)}: {'kept' if kept else 'MISSED'})" if limits else ""
    took = f"{processor:.1f} s of processor, {seconds:.1f} s of wall-clock, peak {gigabytes:.2f} GB"
    print(f"{name}: {said}; {took}{against}", flush=True)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", choices=CASES, action="append", help="one case; all unless given")
    parser.add_argument("--work", choices=CASES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        print(CASES[given.work].work())
        who = resource.RUSAGE_CHILDREN if given.work in {"catalogue", "paper"} else resource.RUSAGE_SELF
        used = resource.getrusage(who)
        print(used.ru_utime + used.ru_stime, used.ru_maxrss)
        return
    results = [measured(name) for name in given.case or CASES]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
