"""How does it grow? Time and peak memory over clients, rows, rounds and planned runs.

    python benchmarks/growth.py                  all axes, a quarter of an hour; writes growth.csv
    python benchmarks/growth.py --axis rounds    one of them; the others keep their numbers
    python benchmarks/growth.py --draw           measure nothing; either draws the figure of docs/growth.md

Each size is a process of its own. Time is processor time, which others disturb least, without that of
imports. Memory is the peak resident size of the largest process. The exit code is 1 if a size is over its
limit, or if time grows faster than linearly between the two largest sizes.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch  # noqa: F401 - so that no size pays for it
import yaml
from scheduling import copy, snakemake

from fedcore.base.options import validate
from fedcore.base.registry import find
from fedcore.data import Dataset, Rows
from fedcore.execution.runner import run
from fedcore.partitions import PartitionOptions
from fedcore.partitions.build import make
from pipeline.fidelity.reference import inserted
from pipeline.papers import build_catalogue
from pipeline.reports.render import md_table

ROOT = Path(__file__).parents[1]
LOOK: Any = {"svg.hashsalt": "growth", "font.size": 9, "figure.constrained_layout.w_pad": 0.15}
NUMBERS, PICTURE, PAGE = ROOT / "benchmarks/growth.csv", ROOT / "docs/img/growth.svg", ROOT / "docs/growth.md"
COHORT = 10
STEEPEST = 1.1
SMALL = {"smallest": 10, "largest": 20, "size_mean": 1.0}  # about 14 rows a client


@dataclass(frozen=True)
class Axis:
    """What grows.

    Attributes:
        label: in print.
        work: does one size.
        sizes: what is measured.
        limits: by size, the processor seconds and the GB that it may take.
        through: whether it works through Snakemake, so that other processes count.
    """

    label: str
    work: Callable[[int], None]
    sizes: tuple[int, ...]
    limits: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    through: bool = False


def trained(data: Mapping[str, Any], rounds: int, every: int, algorithm: str = "fedavg") -> None:
    """Train ten clients a round on synthetic data, in steps of ten rows, and write the results."""
    spec = {
        "data": {"name": "synthetic", "dimension": 10, **data},
        "partition": {"name": "natural"},
        "model": {"name": "logistic"},
        "algorithm": {"name": algorithm},
        "training": {"rounds": rounds, "local_steps": 2, "batch_size": 10, "lr": 0.01},
        "participation": {"fraction": COHORT / data["clients"]},
        "evaluation": {"every": every, "train_every": every},
    }
    with tempfile.TemporaryDirectory() as folder:
        run(spec, Path(folder, "run"))


def clients(count: int) -> None:
    """Train 20 rounds of SCAFFOLD, which remembers a control of each client."""
    trained({"clients": count, **SMALL}, 20, 10, "scaffold")


def rows(count: int) -> None:
    """Train 20 rounds with 100 clients that hold so many rows, all of which are measured three times."""
    trained({"clients": 100, "smallest": count // 100, "largest": count // 100}, 20, 10)


def dealt(count: int) -> None:
    """Deal rows of 20 features out to 100 clients by Dirichlet(.1)."""
    rng = np.random.default_rng(0)
    train = Rows(rng.standard_normal((count, 20), dtype=np.float32), rng.integers(0, 10, count))
    dataset = Dataset("made", train, Rows(train.x[:10], train.y[:10]), 10, "synthetic", "")
    plugin = find("partition", "dirichlet", "partition.name")
    options = validate(plugin.options, {"clients": 100, "alpha": 0.1, "convention": "by_client"}, "partition")
    assert isinstance(options, PartitionOptions)
    assert sum(map(len, make(plugin, options, dataset, 0).clients)) == count


def rounds(count: int) -> None:
    """Train so many rounds, each of which is measured."""
    trained({"clients": COHORT, **SMALL}, count, 1)


def demo(seeds: int) -> dict[str, Any]:
    """Return params.yaml with so many seeds a setting in the demo, a job each."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text())
    config["scales"]["demo"] |= {"seeds": list(range(seeds)), "one_process": False}
    return config


def planned(count: int) -> None:
    """Plan the demo of all papers with about so many runs, a job each, as `snakemake -n` does."""
    seeds = max(1, round(2 * count / len(build_catalogue(demo(2)).index)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy(folder)
        (folder / "params.yaml").write_text(yaml.safe_dump(demo(seeds), sort_keys=False))
        snakemake(folder, 1, ["--dry-run", "--quiet", "rules"])


AXES = {
    "clients": Axis("clients, 10 of them a round", clients, (10, 100, 1_000, 10_000, 100_000)),
    "rows": Axis("rows of 100 clients", rows, (10_000, 100_000, 1_000_000, 10_000_000)),
    "dealt": Axis("rows that are dealt out", dealt, (10_000, 100_000, 1_000_000, 10_000_000)),
    "rounds": Axis("rounds of a run", rounds, (10, 100, 1_000, 10_000, 100_000)),
    "planned": Axis("runs in a plan", planned, (500, 10_000, 100_000), {10_000: (30, 1.5)}, through=True),
}


def measured(name: str, size: int) -> dict[str, Any]:
    """Do one size in a process of its own; return its line of growth.csv."""
    process = subprocess.run(
        [sys.executable, __file__, "--work", name, str(size)], capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise SystemExit(f"{name} {size:,}: failed\n{process.stderr[-2000:]}")
    processor, peak = map(float, process.stdout.split()[-2:])
    line = {"axis": name, "size": size, "seconds": round(processor, 2), "gigabytes": round(peak / 2**20, 3)}
    print(*line.values(), flush=True)
    return line


def work(name: str, size: int) -> None:
    """Do one size, and print the processor seconds and the peak size in KiB of what did it."""
    who = resource.RUSAGE_CHILDREN if AXES[name].through else resource.RUSAGE_SELF
    before = resource.getrusage(who)
    AXES[name].work(size)
    used = resource.getrusage(who)
    print(used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime, used.ru_maxrss)


def exponent(lines: pd.DataFrame) -> float:
    """Return the power of the size that the last of an axis's seconds have grown with."""
    before, last = lines.iloc[-2], lines.iloc[-1]
    return log(last["seconds"] / before["seconds"]) / log(last["size"] / before["size"])


def missed(numbers: pd.DataFrame) -> Iterator[str]:
    """Yield each size that is over its limit, and each axis that ends steeper than linear."""
    for name, lines in numbers.groupby("axis", sort=False):
        axis = AXES[str(name)]
        for line in lines.to_dict("records"):
            seconds, gigabytes = axis.limits.get(line["size"], (np.inf, np.inf))
            if line["seconds"] > seconds or line["gigabytes"] > gigabytes:
                yield f"{axis.label}, {line['size']:,}: {line['seconds']:g} s and {line['gigabytes']:g} GB"
        if len(lines) > 1 and (power := exponent(lines)) > STEEPEST:
            yield f"{axis.label}: seconds grow with the power {power:.2f}"


def drawn(numbers: pd.DataFrame) -> None:
    """Draw seconds and memory over sizes, and write the table into the page."""
    shown = numbers.assign(axis=numbers["axis"].map({name: axis.label for name, axis in AXES.items()}))
    with sns.axes_style("whitegrid"), plt.rc_context(LOOK):
        figure, sides = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        for axes, column, label in zip(
            sides, ("seconds", "gigabytes"), ("processor seconds", "peak memory, GB"), strict=True
        ):
            sns.lineplot(
                shown, x="size", y=column, hue="axis", style="axis", markers=True, dashes=False,
                palette="colorblind", legend=axes is sides[1], ax=axes,
            )  # fmt: skip
            axes.set(xscale="log", xlabel="size", ylabel=label)
        sides[0].set(yscale="log")
        sides[1].set(ylim=(0, None))
        sns.move_legend(sides[1], "center left", bbox_to_anchor=(1, 0.5), title="", frameon=False)
        figure.savefig(PICTURE, metadata={"Date": None})
    heads = ("What grows", "Size", "Time", "Peak memory")
    lines = (
        (
            AXES[line["axis"]].label,
            f"{line['size']:,}",
            f"{line['seconds']:.3g} s",
            f"{line['gigabytes']:.2f} GB",
        )
        for line in numbers.to_dict("records")
    )
    PAGE.write_text(inserted(PAGE.read_text(), "growth", md_table(heads, lines)))


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--axis", choices=AXES, action="append", help="one axis; all unless given")
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    parser.add_argument("--work", nargs=2, help=SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work[0], int(options.work[1]))
        return
    numbers = pd.read_csv(NUMBERS) if NUMBERS.exists() else pd.DataFrame(columns=["axis"])
    for name in () if options.draw else options.axis or AXES:
        lines = pd.DataFrame(measured(name, size) for size in AXES[name].sizes)
        numbers = pd.concat([numbers[numbers["axis"] != name], lines]).astype({"size": int})
        numbers = numbers.sort_values("axis", key=lambda names: names.map([*AXES].index), kind="stable")
        numbers.to_csv(NUMBERS, index=False)
    drawn(numbers)
    over = list(missed(numbers))
    print(*over, sep="\n")
    sys.exit(1 if over else 0)


if __name__ == "__main__":
    main()
