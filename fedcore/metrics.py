"""Measuring the global model."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

from fedcore.local.engine import forward

if TYPE_CHECKING:
    from torch import Tensor

    from fedcore.parts import Run, State
    from fedcore.problem import Block


def measure(run: Run, state: State, final: bool = False) -> dict[str, float]:
    """Return train_loss, test_loss and test_accuracy of the server's models after ``state.round``.

    ``train_loss`` is the mean loss without regularisers over all clients' training rows (each client
    weighted by n_k), NaN in rounds where the specification leaves it out.
    """
    evaluation = run.spec.evaluation
    every = evaluation.every if evaluation.train_every is None else evaluation.train_every
    with_train = bool(every) and (state.round % every == 0 or final)
    if len(state.models) == 1:
        train = mean_loss(run, state.model, run.problem.train) if with_train else nan
        losses, correct = forward(run.problem, state.model, run.problem.test.x, run.problem.test.y)
        return _row(train, float(losses.double().mean()), float(correct.double().mean()))
    return _clustered(run, state, with_train)


def mean_loss(run: Run, w: Tensor, block: Block) -> float:
    """Return the mean loss of the rows of a block at ``w`` [d]."""
    return float(forward(run.problem, w, block.x, block.y)[0].double().mean())


def _clustered(run: Run, state: State, with_train: bool) -> dict[str, float]:
    """Measure one model a cluster: each client's view is its own cluster's model.

    Without a test set of its own, a client's test rows are all test rows, weighted so that their labels
    are distributed as in its training data.
    """
    import torch

    problem = run.problem
    clusters: list[int] = state.values["clusters"]
    total = sum(problem.sizes)
    tested = [forward(problem, model, problem.test.x, problem.test.y) for model in state.models]
    rows = torch.bincount(problem.test.y, minlength=problem.classes).double().clamp(min=1)
    train = test_loss = accuracy = 0.0
    for client in problem.active:
        block, share = problem.clients[client], problem.sizes[client] / total
        if with_train:
            train += share * mean_loss(run, state.models[clusters[client]], block)
        labels = torch.bincount(block.y, minlength=problem.classes).double() / len(block)
        weights = (labels / rows)[problem.test.y]
        weights /= weights.sum()
        losses, correct = tested[clusters[client]]
        test_loss += share * float(weights @ losses.double())
        accuracy += share * float(weights @ correct.double())
    return _row(train if with_train else nan, test_loss, accuracy)


def _row(train_loss: float, test_loss: float, test_accuracy: float) -> dict[str, float]:
    return {"train_loss": train_loss, "test_loss": test_loss, "test_accuracy": test_accuracy}
