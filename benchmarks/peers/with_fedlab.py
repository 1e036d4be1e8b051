"""The workload in FedLab: its server handler and serial trainer in its standalone pipeline."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.metadata import version

import numpy as np
import torch
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.contrib.dataset.basic_dataset import FedDataset
from fedlab.core.standalone import StandalonePipeline
from protocol import Clock, Request, answer, request
from torch import Tensor
from torch_models import arrays, batches, started
from workloads import CLIENTS, load, weights


class Batches:
    """What FedLab takes for a data loader: shuffled batches of tensors in memory."""

    def __init__(self, x: Tensor, y: Tensor, size: int, rng: np.random.Generator) -> None:
        self.x, self.y, self.size, self.rng = x, y, size, rng

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(batches(self.x, self.y, self.size, self.rng))

    def __len__(self) -> int:
        return math.ceil(len(self.y) / self.size)


class Clients(FedDataset):
    """All clients' rows, as tensors."""

    def __init__(self, measurement: Request) -> None:
        super().__init__()
        read = (load(measurement.path, measurement.work, client) for client in range(CLIENTS))
        self.rows = [(torch.from_numpy(x), torch.from_numpy(y)) for x, y in read]
        self.rng = np.random.default_rng(0)

    def get_dataloader(self, id: int, batch_size: int, type: str = "train") -> Batches:
        return Batches(*self.rows[id], batch_size, self.rng)


class Pipeline(StandalonePipeline):
    """FedLab's loop; what it calls after each round looks at the clock."""

    def __init__(self, handler: SyncServerHandler, trainer: SGDSerialClientTrainer, clock: Clock) -> None:
        super().__init__(handler, trainer)
        self.clock = clock

    def evaluate(self) -> None:
        self.clock.mark()


def main() -> None:
    """Do what was asked."""
    measurement, clock = request(), Clock()
    torch.set_num_threads(1)
    work = measurement.work
    model = started(work, weights(measurement.start))
    handler = SyncServerHandler(model, measurement.rounds, sample_ratio=1.0)
    trainer = SGDSerialClientTrainer(model, CLIENTS)
    trainer.setup_dataset(Clients(measurement))
    trainer.setup_optim(work.epochs, measurement.batch, work.lr)
    pipeline = Pipeline(handler, trainer, clock)
    clock.mark()
    pipeline.main()
    answer(measurement, clock, arrays(handler.model), version("fedlab"))


if __name__ == "__main__":
    main()
