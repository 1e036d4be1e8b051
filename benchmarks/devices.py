"""What stacking a cohort's clients is worth, on the CPU and on a GPU where there is one.

    python benchmarks/devices.py                  all models and cohorts, a few minutes
    python benchmarks/devices.py --only mlp10     one model

`engine: stacked` trains the clients of a round together, as one batched computation; the others train them
one after another. Every side does the same round in turns with the rest, in one process; the first round of
each is left out, and times are medians of wall-clock time. Ratios are to `autograd` on the same device (above
1: faster), and to the fastest side on the CPU. The machine should be otherwise idle.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from engines import CASES, Case, fedcore_round, prepared, write_federation

from fedcore.base.errors import SpecError
from fedcore.parts import Run, State

ENGINES = ("autograd", "analytic", "stacked")
COHORTS = (10, 50)
ROWS = 40
NAMES = ("rff", "mlp10", "cnn")
LINE = "{:8} {:>7} {:6} {:10} {:>10} {:>15} {:>15}"


def sides(
    case: Case, folder: Path, cohort: int, devices: tuple[str, ...]
) -> dict[tuple[str, str], tuple[Run, State]]:
    """Return a run and its state for each device and engine that can do the case."""
    runs = {}
    for device in devices:
        for engine in ENGINES:
            try:
                runs[device, engine] = prepared(case, folder, engine, device, cohort)
            except SpecError:
                continue
    return runs


def seconds(side: tuple[Run, State], device: str) -> float:
    """Do a round, and return its wall-clock seconds."""
    began = time.perf_counter()
    fedcore_round(*side)
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def compare(case: Case, cohort: int, devices: tuple[str, ...], repetitions: int) -> None:
    """Print a line a side."""
    with tempfile.TemporaryDirectory() as folder:
        write_federation(case, Path(folder), ROWS)
        runs = sides(case, Path(folder), cohort, devices)
        times: dict[tuple[str, str], list[float]] = {key: [] for key in runs}
        for _ in range(repetitions + 1):
            for (device, engine), side in runs.items():
                times[device, engine].append(seconds(side, device))
    taken = {key: statistics.median(rounds[1:]) for key, rounds in times.items()}
    fastest = min(value for (device, _), value in taken.items() if device == "cpu")
    for (device, engine), value in taken.items():
        beside = taken[device, "autograd"] / value
        print(
            LINE.format(
                case.name,
                cohort,
                device,
                engine,
                f"{1000 * value:.1f} ms",
                f"{beside:.2f}",
                f"{fastest / value:.2f}",
            ),
            flush=True,
        )


def main(
    only: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(NAMES)}; repeatable.")] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="Rounds of each side.")] = 5,
) -> None:
    """Print the time of a round for each model, cohort, device and engine."""
    torch.set_num_threads(1)
    devices = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
    if "cuda" not in devices:
        print("no GPU here: sides on a GPU are left out")
    print(LINE.format("model", "clients", "device", "engine", "a round", "over autograd", "over fastest CPU"))
    for case in CASES:
        if case.name in (only or NAMES):
            for cohort in COHORTS:
                compare(case, cohort, devices, repetitions)


if __name__ == "__main__":
    typer.run(main)
