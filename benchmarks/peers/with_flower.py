"""The workload in Flower: its FedAvg strategy and its simulation on Ray, one client at a time."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import flower_app
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from protocol import Clock, answer, request
from torch_models import arrays, started
from workloads import CLIENTS, weights

BACKEND: Any = {
    "init_args": {"num_cpus": 1, "include_dashboard": False, "log_to_driver": False},
    "client_resources": {"num_cpus": 1},
}


class Timed(FedAvg):
    """FedAvg that looks at the clock when a round begins."""

    clock: Clock

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        messages: Iterable[Message] = super().configure_train(server_round, arrays, config, grid)
        self.clock.mark()
        return messages


def main() -> None:
    """Do what was asked."""
    measurement, clock = request(), Clock()
    torch.set_num_threads(1)
    net = started(measurement.work, weights(measurement.start))
    config = {"folder": measurement.folder, "workload": measurement.work.name, "batch": measurement.batch}
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = Timed(
            fraction_train=1.0,
            fraction_evaluate=0.0,
            min_train_nodes=CLIENTS,
            min_available_nodes=CLIENTS,
        )
        strategy.clock = clock
        result = strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(net.state_dict()),
            num_rounds=measurement.rounds,
            train_config=ConfigRecord(config),
        )
        clock.mark()
        net.load_state_dict(result.arrays.to_torch_state_dict())

    run_simulation(server, flower_app.app, num_supernodes=CLIENTS, backend_config=BACKEND)
    answer(measurement, clock, arrays(net), version("flwr"), f"ray {version('ray')}")


if __name__ == "__main__":
    main()
