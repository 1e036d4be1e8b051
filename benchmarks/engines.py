"""How fast are local steps? fedcore's engines against the loop that everyone writes.

    python benchmarks/engines.py                 all cases, some minutes
    python benchmarks/engines.py --quick cnn     one of them, fewer repetitions

The plain loop deep-copies the global model for each client, feeds it through a DataLoader, steps
torch.optim.SGD and averages the state dicts. Both sides train the same federation in the same process on one
thread, in turns; times are medians of processor time, which other programs disturb least. "of peak" relates
the arithmetic that the gradients need to the speed of a large float32 matrix product, measured at the start.
Memory is the growth of the peak resident size in a process of its own, from before the data are read to
after a round, over what the run must hold: its rows and the cohort's models. With random features the plain
loop is given the features, computed beforehand; fedcore computes them from the raw rows, once.
"""

from __future__ import annotations

import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent / "peers"))

import numpy as np
import torch
import torch_models
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from workloads import FEATURES

from fedcore.execution.runner import Settings, prepare
from fedcore.execution.simulation import merge, train
from fedcore.parts import Run, State
from fedcore.spec import parse

CLIENTS, COHORT, ROWS, EPOCHS, CLASSES, LR = 60, 10, 100, 2, 10, 0.05
MEMORY_ROWS = 1000
Plain = Callable[[], None]


@dataclass(frozen=True)
class Case:
    """One comparison: a model at a batch size, and the ratio to reach."""

    name: str
    model: dict[str, Any]
    shape: tuple[int, ...]
    batch: int
    target: float
    precision: str = "fp32"


MLP = {"name": "mlp", "hidden": [200, 200]}
CASES = (
    Case("rff", {"name": "rff_linear", "features": FEATURES}, (784,), 32, 4.0),
    Case("mlp10", MLP, (784,), 10, 3.0),
    Case("mlp32", MLP, (784,), 32, 3.0),
    Case("cnn", {"name": "cnn"}, (1, 28, 28), 32, 1.25),
    Case("cnn-bf16", {"name": "cnn"}, (1, 28, 28), 32, 1.5, "bf16"),
)


def module(case: Case) -> nn.Module:
    """Return the case's model as one writes it in PyTorch."""
    work: Any = SimpleNamespace(model=case.model, inputs=case.shape, classes=CLASSES)
    return torch_models.module(work)


def arithmetic(case: Case) -> float:
    """Return the operations of one row's gradient: forward, weights and, above the first layer, inputs."""
    layers = {
        "rff_linear": [FEATURES * CLASSES],
        "mlp": [784 * 200, 200 * 200, 200 * CLASSES],
        "cnn": [28 * 28 * 32 * 25, 14 * 14 * 64 * 32 * 25, 64 * 49 * 512, 512 * CLASSES],
    }[case.model["name"]]
    return 2.0 * (3 * sum(layers) - layers[0])


def write_federation(case: Case, folder: Path, rows: int) -> None:
    """Write random clients of equal size, and test rows."""
    rng = np.random.default_rng(0)
    (folder / "clients").mkdir()

    def save(path: Path, count: int) -> None:
        x = rng.standard_normal((count, *case.shape), dtype=np.float32)
        np.savez(path, x=x, y=np.arange(count) % CLASSES)

    for client in range(CLIENTS):
        save(folder / "clients" / f"{client}.npz", rows)
    save(folder / "test.npz", ROWS)


def prepared(
    case: Case, folder: Path, engine: str = "auto", device: str = "cpu", cohort: int = COHORT
) -> tuple[Run, State]:
    """Return the case as a run of fedcore and its state."""
    spec = {
        "data": {"name": "npz", "path": str(folder)},
        "model": case.model,
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 1, "local_epochs": EPOCHS, "batch_size": case.batch, "lr": LR},
        "participation": {"cohorts": [list(range(cohort))]},
        "precision": case.precision,
        "engine": engine,
    }
    run, _, _ = prepare(parse(spec), Settings(device=device))
    return run, State(round=0, models=run.problem.start.clone().unsqueeze(0))


def fedcore_round(run: Run, state: State) -> None:
    """Do one federated round without measuring the model."""
    plan = run.recipe.schedule.plan(run, state)
    uploads, _ = train(run, state, plan)
    state.models = merge(run, state, plan, uploads)
    state.round += 1


def plain_round(case: Case, run: Run) -> Plain:
    """Return one federated round as the plain loop does it, on the same rows."""
    server = module(case)
    clients = [TensorDataset(block.x, block.y) for block in run.problem.clients[:COHORT]]

    def work() -> None:
        states = []
        for rows in clients:
            model = copy.deepcopy(server)
            optimizer = torch.optim.SGD(model.parameters(), lr=LR)
            loader = DataLoader(rows, batch_size=case.batch, shuffle=True)
            for _ in range(EPOCHS):
                for x, y in loader:
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(model(x), y).backward()
                    optimizer.step()
            states.append(model.state_dict())
        server.load_state_dict({name: torch.stack([s[name] for s in states]).mean(0) for name in states[0]})

    return work


def seconds(work: Callable[[], Any]) -> float:
    """Time one call, in processor time, which other programs disturb less."""
    began = time.process_time()
    work()
    return time.process_time() - began


def peak(dtype: torch.dtype) -> float:
    """Measure this core's matrix product in operations a second."""
    size = 1024
    a, b = torch.ones(size, size, dtype=dtype), torch.ones(size, size, dtype=dtype)
    torch.mm(a, b)
    return 2 * size**3 / min(seconds(lambda: torch.mm(a, b)) for _ in range(10))


def compare(case: Case, repetitions: int) -> tuple[float, float, str]:
    """Return the medians of a round's seconds, plain and fedcore, and the engine's name."""
    with tempfile.TemporaryDirectory() as name:
        write_federation(case, Path(name), ROWS)
        run, state = prepared(case, Path(name))
        plain = plain_round(case, run)
        times: dict[str, list[float]] = {"plain": [], "fedcore": []}
        for repetition in range(repetitions + 1):
            pair = {"plain": seconds(plain), "fedcore": seconds(lambda: fedcore_round(run, state))}
            if repetition:
                for side, value in pair.items():
                    times[side].append(value)
    return statistics.median(times["plain"]), statistics.median(times["fedcore"]), run.engine.name


def resident(key: str) -> float:
    """Return this process's resident size (VmRSS) or its peak since the last reset (VmHWM) in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def memory(case: Case) -> dict[str, float]:
    """Do a round in this process; return the growth of its peak size and what the run must hold, in MB."""
    with tempfile.TemporaryDirectory() as name:
        write_federation(case, Path(name), MEMORY_ROWS)
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        run, state = prepared(case, Path(name))
        fedcore_round(run, state)
        grown = resident("VmHWM") - before
    problem = run.problem
    blocks = (problem.train, problem.test)
    data = sum(block.x.nbytes + block.y.nbytes for block in blocks)
    models = COHORT * problem.start.nbytes
    return {"grown": grown / 1e6, "data": data / 1e6, "models": models / 1e6}


def memory_apart(case: Case) -> dict[str, float]:
    """Measure memory in a process of its own."""
    command = [sys.executable, __file__, "--memory-of", case.name]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    mb: dict[str, float] = json.loads(process.stdout)
    return mb


def main() -> int:
    """Print the table; return 1 if a target is missed."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    names = [case.name for case in CASES]
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"some of {', '.join(names)}; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--memory-of", choices=names, help=SUPPRESS)
    options = parser.parse_args()
    unknown = sorted(set(options.cases) - set(names))
    if unknown:
        parser.error(f"no case named '{unknown[0]}'; known: {', '.join(names)}")
    torch.set_num_threads(1)
    if options.memory_of:
        json.dump(memory(CASES[names.index(options.memory_of)]), sys.stdout)
        return 0

    top, low = peak(torch.float32), peak(torch.bfloat16)
    print(f"one thread, {top / 1e9:.0f} GFLOP/s in float32 and {low / 1e9:.0f} in bf16 (matrix products)")
    print(f"a round: {COHORT} clients of {ROWS} rows, {EPOCHS} epochs, plain SGD\n")
    print("case       plain    fedcore  ratio  target  of peak  engine     memory over data and models")
    missed = []
    for case in (case for case in CASES if not options.cases or case.name in options.cases):
        if case.precision == "bf16" and low < top:
            print(f"{case.name:9s}  not measured: this processor multiplies bf16 slower than float32")
            continue
        plain, ours, engine = compare(case, 5 if options.quick else 15)
        rows = COHORT * ROWS * EPOCHS
        used = arithmetic(case) * rows / ours / top
        mb = memory_apart(case)
        share = mb["grown"] / (mb["data"] + mb["models"])
        ratio = plain / ours
        times = f"{plain * 1e3:6.0f} ms {ours * 1e3:6.0f} ms  {ratio:5.2f}  {case.target:6.2f}  {used:7.0%}"
        sizes = f"{share:.2f} ({mb['grown']:.0f} MB / {mb['data']:.0f} + {mb['models']:.0f} MB)"
        print(f"{case.name:9s} {times}  {engine:9s}  {sizes}", flush=True)
        missed += [f"{case.name}: ratio {ratio:.2f} < {case.target}"] if ratio < case.target else []
        missed += [f"{case.name}: memory {share:.2f} > 1.5"] if share > 1.5 else []
    print("\n" + ("missed: " + "; ".join(missed) if missed else "every target reached"))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
