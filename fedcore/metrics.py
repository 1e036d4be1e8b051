"""Measuring the global model."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

from fedcore.local.engine import forward

if TYPE_CHECKING:
    from torch import Tensor

    from fedcore.parts import Run, State
    from fedcore.problem import Block, Problem


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


def by_client(run: Run, state: State) -> list[dict[str, float]]:
    """Return each client's samples, test_loss and test_accuracy on its own view of the test rows.

    A client's view is all test rows, weighted so that their labels are distributed as in its training data,
    under the model that serves it (its cluster's, where there are several).
    """
    problem = run.problem
    serving: list[int] = state.values.get("clusters", [0] * len(problem.clients))
    tested = [forward(problem, model, problem.test.x, problem.test.y) for model in state.models]
    rows = []
    for client in problem.active:
        weights = _label_weights(problem, client)
        losses, correct = (values.double() for values in tested[serving[client]])
        measured = {"test_loss": float(weights @ losses), "test_accuracy": float(weights @ correct)}
        rows.append({"client": client, "samples": problem.sizes[client], **measured})
    return rows


def _clustered(run: Run, state: State, with_train: bool) -> dict[str, float]:
    """Measure one model a cluster: each client counts with n_k, under its own cluster's model."""
    clusters: list[int] = state.values["clusters"]
    rows = by_client(run, state)
    total = sum(row["samples"] for row in rows)
    train = 0.0 if with_train else nan
    for row in rows if with_train else ():
        client = int(row["client"])
        model = state.models[clusters[client]]
        train += row["samples"] / total * mean_loss(run, model, run.problem.clients[client])
    loss, accuracy = (
        sum(row["samples"] / total * row[key] for row in rows) for key in ("test_loss", "test_accuracy")
    )
    return _row(train, loss, accuracy)


def _label_weights(problem: Problem, client: int) -> Tensor:
    """Return a weight for each test row [n]: the client's label distribution, spread over the test rows."""
    import torch

    block = problem.clients[client]
    test = torch.bincount(problem.test.y, minlength=problem.classes).double().clamp(min=1)
    own = torch.bincount(block.y, minlength=problem.classes).double()
    weights = (own / test)[problem.test.y]
    return weights / weights.sum()


def _row(train_loss: float, test_loss: float, test_accuracy: float) -> dict[str, float]:
    return {"train_loss": train_loss, "test_loss": test_loss, "test_accuracy": test_accuracy}
