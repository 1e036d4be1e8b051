"""How fast does each engine train a client of the workloads in docs/peers.md, beside a large matrix product?

    python benchmarks/kernels.py                        all workloads and engines, a minute
    python benchmarks/kernels.py --only mlp --only rff  two workloads

One thread. "a client" is the least wall-clock time of its local training, which other programs disturb least.
"of sgemm" relates the arithmetic that plain gradients need to the speed of a float32 product of 1024 x 1024
matrices, measured in the same run: an engine that needs less can exceed 100%.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent / "peers"))

import torch
import typer
from protocol import Request
from with_fedcore import specification
from workloads import CLIENTS, FEATURES, WORKLOADS, Workload, write

from fedcore.base.errors import SpecError
from fedcore.engines import Job
from fedcore.execution.runner import Settings, prepare
from fedcore.parts import State
from fedcore.parts.steps import make_task
from fedcore.spec import parse

ENGINES = ("autograd", "analytic", "fused", "compiled")
SIZE = 1024


def arithmetic(work: Workload) -> float:
    """Return the operations of a row's gradient: forward, weights and, above the first layer, inputs."""
    pixels, tokens = prod(work.inputs[1:]), work.inputs[0]
    if work.name == "mlp":
        layers = [a * b for a, b in pairwise([work.inputs[0], *work.model["hidden"], work.classes])]
    elif work.name == "cnn":
        layers = [pixels * 32 * 25, pixels // 4 * 64 * 32 * 25, pixels // 16 * 64 * 512, 512 * work.classes]
    elif work.name == "lstm":
        hidden, width = work.model["hidden"], work.model["embedding"]
        layers = [tokens * 4 * hidden * (width + hidden), tokens * 4 * hidden * 2 * hidden]
    else:
        layers = [FEATURES * work.classes]
    without = 0 if work.name == "lstm" else layers[0]
    return 2.0 * float(3 * sum(layers) - without)


def least(work: Callable[[], object], times: int) -> float:
    """Return the least seconds of some calls."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def sgemm() -> float:
    """Return the operations a second of a large product."""
    a, b = torch.ones(SIZE, SIZE), torch.ones(SIZE, SIZE)
    return 2 * SIZE**3 / least(lambda: torch.mm(a, b), 20)


def client_seconds(work: Workload, folder: Path, engine: str, repetitions: int) -> float:
    """Return the least time in which an engine trains a client.

    Raises:
        SpecError: the engine does not support the workload.
    """
    values = specification(Request(work.name, str(folder), 2, False, 0.0, "")) | {"engine": engine}
    run, _, _ = prepare(parse(values), Settings(device="cpu"))
    state = State(round=0, models=run.problem.start.clone().unsqueeze(0))

    def train(client: int) -> None:
        run.engine.train([make_task(run, state, Job(client, client, 0, state.model))])

    return min(least(partial(train, client), 1) for client in [*range(CLIENTS)] * repetitions)


def main(
    only: Annotated[list[str] | None, typer.Option(help="A workload; repeatable.")] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="How often each client is trained.")] = 4,
) -> None:
    """Print a line for each workload and engine."""
    torch.set_num_threads(1)
    top = sgemm()
    print(f"sgemm: {top / 1e9:.0f} GFLOP/s\nworkload  engine      a client  of sgemm")
    for work in WORKLOADS:
        if only and work.name not in only:
            continue
        with tempfile.TemporaryDirectory() as name:
            write(work, Path(name) / "data")
            for engine in ENGINES:
                try:
                    seconds = client_seconds(work, Path(name) / "data", engine, repetitions)
                except SpecError:
                    continue
                share = arithmetic(work) * work.rows * work.epochs / seconds / top
                print(f"{work.name:8}  {engine:8}  {seconds * 1e3:6.2f} ms  {share:7.0%}", flush=True)


if __name__ == "__main__":
    typer.run(main)
