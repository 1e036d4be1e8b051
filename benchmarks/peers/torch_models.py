"""The workloads' models as one writes them in PyTorch, with fedcore's names of parameters."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, max_pool2d, relu
from workloads import FEATURES, Arrays, Workload


class Mlp(nn.Module):
    """Fully connected layers."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = relu(layer(x))
        scores: Tensor = self.layers[-1](x)
        return scores


class Cnn(nn.Module):
    """Two convolutions and two dense layers."""

    def __init__(self, work: Workload) -> None:
        super().__init__()
        depth, height, width = work.inputs
        self.conv1, self.conv2 = nn.Conv2d(depth, 32, 5, padding=2), nn.Conv2d(32, 64, 5, padding=2)
        self.fc1 = nn.Linear(64 * (height // 4) * (width // 4), 512)
        self.fc2 = nn.Linear(512, work.classes)

    def forward(self, x: Tensor) -> Tensor:
        for convolution in (self.conv1, self.conv2):
            x = max_pool2d(relu(convolution(x)), 2)
        scores: Tensor = self.fc2(relu(self.fc1(x.flatten(1))))
        return scores


class Linear(nn.Module):
    """A linear head without bias on given features."""

    def __init__(self, work: Workload) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(work.classes, FEATURES))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight)


class Lstm(nn.Module):
    """Embedding, two LSTM layers, linear head on the last output."""

    def __init__(self, work: Workload) -> None:
        super().__init__()
        width, hidden = work.model["embedding"], work.model["hidden"]
        self.embedding = nn.Embedding(work.vocabulary or 0, width)
        self.lstm = nn.LSTM(width, hidden, work.model["layers"], batch_first=True)
        self.fc = nn.Linear(hidden, work.classes)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(self.lstm(self.embedding(x))[0][:, -1])
        return scores


def module(work: Workload) -> nn.Module:
    """Return the workload's model."""
    name = work.model["name"]
    if name == "mlp":
        return Mlp([prod(work.inputs), *work.model["hidden"], work.classes])
    return {"cnn": Cnn, "rff_linear": Linear, "lstm": Lstm}[name](work)


def started(work: Workload, start: Arrays) -> nn.Module:
    """Return the model with given weights."""
    model = module(work)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in start.items()})
    return model


def arrays(model: nn.Module) -> Arrays:
    """Return the model's weights by name."""
    return {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}


def batches(x: Tensor, y: Tensor, size: int, rng: np.random.Generator) -> list[tuple[Tensor, Tensor]]:
    """Return one shuffled pass over tensors in memory, all rows in order if one batch holds them."""
    if size >= len(y):
        return [(x, y)]
    order = torch.from_numpy(rng.permutation(len(y)))
    return [(x[rows], y[rows]) for rows in order.split(size)]


def train(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    size: int,
    epochs: int,
    rng: np.random.Generator,
    mu: float = 0.0,
    **sgd: Any,
) -> None:
    """Do a client's local steps; with ``mu``, FedProx's term pulls to the weights received."""
    optimizer = torch.optim.SGD(model.parameters(), **sgd)
    received = [p.detach().clone() for p in model.parameters()] if mu else []
    for _ in range(epochs):
        for inputs, labels in batches(x, y, size, rng):
            optimizer.zero_grad()
            loss = cross_entropy(model(inputs), labels)
            for p, old in zip(model.parameters(), received, strict=False):
                loss = loss + mu / 2 * (p - old).square().sum()
            loss.backward()
            optimizer.step()
