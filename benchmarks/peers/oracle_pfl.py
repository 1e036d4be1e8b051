"""The oracle's cases by pfl-research's own algorithms; PyTorch's optimizers are its servers' side."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import torch
from oracle_cases import NOTES, Case, NotOffered, Weights, answer
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.algorithm.fedprox import FedProx, FedProxParams
from pfl.algorithm.scaffold import SCAFFOLD, SCAFFOLDParams
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.user_state import InMemoryUserStateStorage
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel
from pfl.stats import TrainingStatistics
from reference import CLASSES, INPUTS, clients
from torch import Tensor
from torch.nn.functional import cross_entropy


class Softmax(torch.nn.Linear):
    """Softmax regression with the methods that pfl asks for."""

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(self(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, float]:
        return {"loss": float(self.loss(x, y))}


def central(case: Case, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """Return the server's optimizer of a case."""
    if case.algorithm != "fedopt":
        return torch.optim.SGD(parameters, lr=1.0)
    hyper, kind = case.hyper, case.hyper["server"]
    if kind == "avgm":
        return torch.optim.SGD(parameters, lr=1.0, momentum=hyper["beta"])
    if kind == "adagrad":
        return torch.optim.Adagrad(parameters, lr=hyper["lr_g"], eps=hyper["tau"])
    if kind == "adam":
        return torch.optim.Adam(
            parameters, lr=hyper["lr_g"], betas=(hyper["b1"], hyper["b2"]), eps=hyper["tau"]
        )
    raise NotOffered("PyTorch has no Yogi")


class Copies(InMemoryUserStateStorage):
    """Users' states in memory, copied: the model reuses the tensors of its last difference."""

    def save_state(self, state: TrainingStatistics, user_id: str, key: str | None = None) -> None:
        super().save_state(state.apply_elementwise(torch.clone), user_id, key)


def solve(case: Case) -> Weights:
    """Run a case."""
    if case.algorithm not in {"fedavg", "fedprox", "fedopt", "scaffold"}:
        raise NotOffered("")
    np.random.seed(0)
    net = Softmax(INPUTS, CLASSES).double()
    for parameter in net.parameters():
        torch.nn.init.zeros_(parameter)
    users = [
        Dataset((torch.from_numpy(x), torch.from_numpy(y)), user_id=str(k))
        for k, (x, y) in enumerate(clients(case.folder))
    ]
    order = itertools.cycle(range(len(users)))
    federation = FederatedDataset(users.__getitem__, lambda: next(order))
    model = PyTorchModel(net, torch.optim.SGD, central(case, net.parameters()))
    rounds = {
        "central_num_iterations": case.rounds,
        "evaluation_frequency": case.rounds + 1,
        "train_cohort_size": len(users),
        "val_cohort_size": 0,
    }
    params, algorithm, weighting = NNAlgorithmParams(**rounds), FederatedAveraging(), [WeightByDatapoints()]
    if case.algorithm == "fedprox":
        params, algorithm = FedProxParams(**rounds, mu=case.hyper["mu"]), FedProx()
    elif case.algorithm == "scaffold":
        shared = "its in-memory storage shares tensors between users, here they are copied"
        NOTES["scaffold"] = shared if case.hyper["option"] == 1 else ""
        params = SCAFFOLDParams(
            **rounds,
            population=len(users),
            use_gradient_as_control_variate=case.hyper["option"] == 1,
            user_state_storage=Copies(),
        )
        algorithm, weighting = SCAFFOLD(), []
    steps = NNTrainHyperParams(
        local_num_epochs=case.equal_steps(), local_learning_rate=case.lr, local_batch_size=None
    )
    backend = SimulatedBackend(training_data=federation, val_data=federation, postprocessors=weighting)
    measuring = NNEvalHyperParams(local_batch_size=None)
    algorithm.run(params, backend, model, steps, measuring, send_metrics_to_platform=False)
    return net.weight.detach().numpy().T, net.bias.detach().numpy()


if __name__ == "__main__":
    answer(solve)
