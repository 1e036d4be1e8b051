"""Where does the time of a report go? Its runs of one seed by phase, in processor seconds.

    python benchmarks/phases.py                         Table I at demo scale, two minutes
    python benchmarks/phases.py fedavgr/table2          another report
    python benchmarks/phases.py table1 --scale quick

Does what the workflow does, in one process: makes the runs one after another, and writes the report. What
Snakemake takes to plan them is measured with a dry run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from fedcore.data import Source
from fedcore.execution import metrics, runner, simulation
from fedcore.execution.runner import Settings
from fedcore.spec import parse
from pipeline.papers import catalogue_of

HOME = Path(__file__).parent.parent
IMPORTED = time.process_time()
PLANNED, IMPORTS, PREPARED, TRAINED, MERGED, ROUNDS, TESTED, LOSS, WRITTEN, REST, REPORT = PHASES = (
    "planning by Snakemake",
    "starting Python and its libraries",
    "loading data, dealing out rows, drawing the model",
    "local training",
    "aggregation and the server's step",
    "the rest of a round: plans, traffic, what algorithms compute besides",
    "measuring on test rows",
    "measuring the loss on all training rows",
    "writing results",
    "everything else of a run",
    "the report",
)


class Clock:
    """Processor seconds by phase; a phase inside of another one counts for itself alone."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self.inside: list[float] = []

    def timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that counts its seconds for a phase."""

        def call(*args: Any, **named: Any) -> Any:
            self.inside.append(0.0)
            began = time.process_time()
            try:
                return function(*args, **named)
            finally:
                took = time.process_time() - began
                self.spent[phase] += took - self.inside.pop()
                if self.inside:
                    self.inside[-1] += took

        return call


def main(
    report: Annotated[str, typer.Argument(help="A report, as people type it.")] = "rfedavg/table1",
    scale: Annotated[str, typer.Option(help="A scale of params.yaml.")] = "demo",
) -> None:
    """Print the phases' seconds and shares, and how fast the runs were."""
    os.chdir(HOME)
    clock = Clock()
    clock.spent |= {PLANNED: planned(report, scale), IMPORTS: IMPORTED}
    for module, name, phase in (
        (runner, "prepare", PREPARED),
        (simulation, "train", TRAINED),
        (simulation, "merge", MERGED),
        (simulation, "advance", ROUNDS),
        (simulation, "measure", TESTED),
        (metrics, "_train_loss", LOSS),
        (runner, "write", WRITTEN),
        (runner, "execute", REST),
    ):
        setattr(module, name, clock.timed(phase, getattr(module, name)))
    catalogue = catalogue_of(Path("params.yaml"), scale)
    paper, target = catalogue.named(report)
    needed = catalogue.needed(paper, target)
    runs = [run for run in needed if run.seed == needed[0].seed]
    torch.set_num_threads(1)
    settings = Settings(source=Source(mirror=os.environ.get("FEDCORE_MIRROR")), device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for run in runs:
            runner.execute(parse(run.spec), root / run.folder, settings, None)
        sources = catalogue.sources(paper, target, root)
        clock.timed(REPORT, sources.build)(catalogue.target(paper, target).paths(root, "report"))
    total = sum(clock.spent.values())
    print(f"{paper}/{target} at {scale} scale, one seed: {len(runs)} runs, {total:.0f} processor seconds\n")
    print("| Phase | Seconds | Share |\n|:--|--:|--:|")
    for phase in PHASES:
        print(f"| {phase} | {clock.spent[phase]:.1f} | {clock.spent[phase] / total:.1%} |")


def planned(report: str, scale: str) -> float:
    """Return the processor seconds of a dry run."""
    before = os.times()
    command = ["snakemake", "-n", "--quiet", "all", "--cores", "1", "--config", f"scale={scale}"]
    subprocess.run(
        [Path(sys.executable).parent / command[0], *command[1:], "--", f"reports/{report}.csv"],
        check=True,
        capture_output=True,
    )
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


if __name__ == "__main__":
    typer.run(main)
