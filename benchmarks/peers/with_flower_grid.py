"""One run of a table in Flower: one of its strategies, and the test accuracy after each round."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flower_app
import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedYogi
from flwr.simulation import run_simulation
from torch_models import module, started
from whole_table import FRACTION, MOMENTUM, SERVER, WEIGHT_DECAY
from with_flower import BACKEND
from workloads import CLIENTS, GRID, weights


@dataclass(frozen=True)
class Asked:
    """A run: the folder of data, the strategy, FedProx's mu, the number of rounds."""

    folder: str
    server: str
    mu: float
    rounds: int


def strategy(server: str) -> FedAvg:
    """Return Flower's strategy of a name, with ComFed's values."""
    common: dict[str, Any] = {
        "fraction_train": FRACTION,
        "fraction_evaluate": 0.0,
        "min_available_nodes": CLIENTS,
    }
    adaptive = {"eta": SERVER["server_lr"], "tau": SERVER["tau"]}
    decays = {"beta_1": SERVER["beta1"], "beta_2": SERVER["beta2"]}
    if server == "adagrad":
        return FedAdagrad(**common, **adaptive)
    if server in {"adam", "yogi"}:
        return {"adam": FedAdam, "yogi": FedYogi}[server](**common, **adaptive, **decays)
    return FedAvg(**common)


def main() -> None:
    """Do what was asked, and print the accuracy of every round."""
    run = Asked(**json.loads(sys.argv[1]))
    torch.set_num_threads(1)
    net, measured = started(GRID, weights(Path(run.folder) / "start.npz")), module(GRID)
    with np.load(Path(run.folder) / "test.npz") as file:
        x, y = torch.from_numpy(file["x"]), torch.from_numpy(file["y"])
    config = {"folder": run.folder, "workload": GRID.name, "batch": GRID.batch}
    config |= {"momentum": MOMENTUM, "weight_decay": WEIGHT_DECAY} | ({"mu": run.mu} if run.mu else {})
    accuracies: list[float] = []
    server = ServerApp()

    def evaluate(round_: int, arrays: ArrayRecord) -> MetricRecord:
        measured.load_state_dict(arrays.to_torch_state_dict())
        with torch.no_grad():
            accuracies.append(float((measured(x).argmax(dim=1) == y).float().mean()))
        return MetricRecord({"accuracy": accuracies[-1]})

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy(run.server).start(
            grid=grid,
            initial_arrays=ArrayRecord(net.state_dict()),
            num_rounds=run.rounds,
            train_config=ConfigRecord(config),
            evaluate_fn=evaluate,
        )

    run_simulation(server, flower_app.app, num_supernodes=CLIENTS, backend_config=BACKEND)
    print("\n" + json.dumps({"accuracies": accuracies}))


if __name__ == "__main__":
    main()
