"""The workload in pfl-research: its FederatedAveraging on its simulated backend, with PyTorch."""

from __future__ import annotations

from importlib.metadata import version
from itertools import count

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from protocol import Clock, answer, request
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_models import arrays, started
from workloads import load, weights


class WithLoss(nn.Module):
    """A model with the two methods that pfl asks for."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(self.inner(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, float]:
        return {"loss": float(self.loss(x, y))}


class Marks(TrainingProcessCallback):
    """Looks at the clock after each round."""

    def __init__(self, clock: Clock, device: str) -> None:
        self.clock, self.device = clock, device

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.clock.mark(self.device)
        return False, Metrics()


def main() -> None:
    """Do what was asked; nothing is measured in a round whose number evaluation_frequency does not divide."""
    measurement, clock = request(), Clock()
    torch.set_num_threads(1)
    np.random.seed(0)
    work = measurement.work
    read = (load(measurement.path, work, client) for client in range(work.clients))
    users = [
        Dataset(
            (torch.from_numpy(x).to(work.device), torch.from_numpy(y).to(work.device)), user_id=str(client)
        )
        for client, (x, y) in enumerate(read)
    ]
    order = (client for number in count() for client in work.round_of(number))
    federation = FederatedDataset(users.__getitem__, lambda: next(order))
    net = WithLoss(started(work, weights(measurement.start))).to(work.device)
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    rounds = NNAlgorithmParams(
        central_num_iterations=measurement.rounds,
        evaluation_frequency=measurement.rounds + 1,
        train_cohort_size=work.cohort,
        val_cohort_size=0,
    )
    steps = NNTrainHyperParams(
        local_num_epochs=work.epochs,
        local_learning_rate=work.lr,
        local_batch_size=None if measurement.full_batch else work.batch,
    )
    backend = SimulatedBackend(training_data=federation, val_data=federation)
    clock.mark(work.device)
    FederatedAveraging().run(
        rounds,
        backend,
        model,
        steps,
        NNEvalHyperParams(local_batch_size=None),
        [Marks(clock, work.device)],
        send_metrics_to_platform=False,
    )
    answer(measurement, clock, arrays(net.inner.cpu()), version("pfl"))


if __name__ == "__main__":
    main()
