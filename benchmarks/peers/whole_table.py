"""A whole table end to end: the 16 runs of ComFed's grid, with all start-ups, in fedcore and in Flower.

fedcore does all 16 (four clients' sides by four servers' sides) by one `fedcore run-batch`. Flower has the
servers' sides as strategies, and FedProx's term is a line of a client's code; SCAFFOLD and FedNova it does
not have, so their eight runs are done with plain clients there: less work than they would be. Each of its
runs is a process of its own, one after another.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import processes
from workloads import GRID, write_grid

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMIT = 3600.0
FRACTION, MOMENTUM, WEIGHT_DECAY, MU = 0.3, 0.9, 1e-4, 0.01
SERVER = {"server_lr": 0.01, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3}
SERVERS = ("avg", "adam", "adagrad", "yogi")
CLIENT_SIDES = ("plain", "prox", "scaf", "nova")
ALONE = {"plain": "fedavg", "prox": "fedprox", "scaf": "scaffold", "nova": "fednova"}
REAL_IN_FLOWER = ("plain", "prox")
RUNS = [(client, server) for client in CLIENT_SIDES for server in SERVERS]


def algorithm(client: str, server: str) -> dict[str, Any]:
    """Return fedcore's `algorithm` section of a run."""
    options: dict[str, Any] = {"mu": MU} if client == "prox" else {}
    if server == "avg":
        return {"name": ALONE[client], **options}
    name = f"fed{server}" if client == "plain" else f"{client}_{server}"
    return {"name": name, **SERVER, **options}


def batch(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Return the runs as `fedcore run-batch` takes them."""
    common = {
        "data": {"name": "npz", "path": str(folder)},
        "model": {**GRID.model, "init": str(folder / "start.npz")},
        "engine": GRID.engine,
        "participation": {"fraction": FRACTION},
        "evaluation": {"train_every": 0},
        "training": {
            "rounds": rounds,
            "local_epochs": GRID.epochs,
            "batch_size": GRID.batch,
            "lr": GRID.lr,
            "momentum": MOMENTUM,
            "weight_decay": WEIGHT_DECAY,
        },
    }
    return [
        {"spec": {**common, "algorithm": algorithm(*run)}, "out": str(folder / "-".join(run))} for run in RUNS
    ]


def measure(
    pythons: Mapping[str, Path], folder: Path, quick: bool, core: int, failures: dict[str, str]
) -> dict[str, Any]:
    """Do the table on both sides; a side that fails is added to the failures."""
    write_grid(ROOT / "data/demo/cifar10/cifar10.npz", folder)
    rounds = GRID.quick_rounds if quick else GRID.rounds
    table: dict[str, Any] = {"runs": len(RUNS), "rounds": rounds}
    batch_file = folder / "batch.json"
    batch_file.write_text(json.dumps(batch(folder, rounds)))
    command = [
        sys.executable,
        "-m",
        "fedcore.cli.main",
        "run-batch",
        str(batch_file),
        "--device",
        "cpu",
        "--quiet",
    ]
    process = processes.run(command, {"PYTHONPATH": str(ROOT)}, core, LIMIT)
    if process.code:
        failures["fedcore, table"] = process.reason
    else:
        table["fedcore"] = process.seconds
    if "flower" in pythons:
        seconds = []
        for client, server in RUNS:
            mu = MU if client == "prox" else 0.0
            request = json.dumps({"folder": str(folder), "server": server, "mu": mu, "rounds": rounds})
            script = HERE / "with_flower_grid.py"
            environment = {"PYTHONPATH": os.pathsep.join([str(HERE)])}
            process = processes.run([pythons["flower"], script, request], environment, core, LIMIT)
            if process.code:
                failures["Flower, table"] = process.reason
                break
            seconds.append(process.seconds)
        else:
            table |= {"flower": sum(seconds), "flower_runs": seconds}
    return table


def text(found: Mapping[str, Any]) -> str:
    """Return the comparison for the terminal."""
    lines = [f"\ntable: {found['runs']} runs of ComFed's grid, {found['rounds']} rounds each, end to end"]
    for side, title in (("fedcore", "fedcore"), ("flower", "Flower")):
        if side in found:
            lines.append(f"{title:13s} {found[side]:6.1f} s, {found[side] / found['runs']:.2f} s a run")
    if "fedcore" in found and "flower" in found:
        lines.append(f"fedcore's table takes 1/{found['flower'] / found['fedcore']:.1f} of Flower's time")
    return "\n".join(lines)
