"""Measuring the global model."""

from math import isfinite, nan
from typing import Any

from fedcore.base import sum_in_order
from fedcore.base.errors import SpecError
from fedcore.base.lazy import Tensor, torch
from fedcore.engines.forward import forward, mean_loss, outputs
from fedcore.engines.problem import Block, Problem
from fedcore.parts import Run, State
from fedcore.spec import Spec

MEASURED = ("train_", "test_", "validation_")


def check(spec: Spec, problem: Problem) -> None:
    """Refuse validation without such rows, metrics without classes, and 'auc' of other than two or of one."""
    validation = problem.validation if spec.evaluation.validation else None
    if spec.evaluation.validation and validation is None:
        raise SpecError(
            "evaluation.validation: there are no validation rows; give partition.fold or partition.validation"
        )
    if spec.evaluation.metrics and not problem.model.classifies:
        raise SpecError(
            f"evaluation.metrics: the model '{spec.model.name}' has no class scores, expected none"
        )
    if "auc" not in spec.evaluation.metrics:
        return
    if problem.classes != 2:
        raise SpecError(f"evaluation.metrics: 'auc' needs two classes, the data have {problem.classes}")
    for name, block in (("test", problem.test), ("validation", validation)):
        if block is not None and bool((block.y == block.y[0]).all()):
            raise SpecError(
                f"evaluation.metrics: 'auc' needs rows of both classes, all {name} rows are of class "
                f"{int(block.y[0])}"
            )


def measure(run: Run, state: State, final: bool = False) -> dict[str, float]:
    """Return train_loss, test_loss, test_accuracy (a fraction) and what else is asked for after the round.

    ``train_loss`` is the mean loss without regularisers over all clients' training rows (each client
    weighted by n_k), NaN in rounds where the specification leaves it out. With one model per cluster, each
    client counts with n_k, under its own cluster's model; all methods of a table share one yardstick, so
    each model is tested on all test rows. A model that is not finite, or whose loss on a block is not, has
    no measurements there: all are NaN.
    """
    evaluation, problem = run.spec.evaluation, run.problem
    interval = evaluation.every if evaluation.train_every is None else evaluation.train_every
    with_train = bool(interval) and (state.round % interval == 0 or final)
    train = _train_loss(run, state) if with_train else nan
    row = _if_finite({"train_loss": train}, state.models, train)
    blocks = {"test_": problem.test}
    if evaluation.validation and problem.validation is not None:
        blocks["validation_"] = problem.validation
    shares = _shares(run, state)
    for of, block in blocks.items():
        tested = [_quality(run, model, block, of) for model in state.models]
        for key in tested[0]:
            row[key] = sum_in_order(share * scores[key] for share, scores in zip(shares, tested, strict=True))
    return row


def _train_loss(run: Run, state: State) -> float:
    problem, precision = run.problem, run.spec.evaluation.precision
    if len(state.models) == 1:
        return mean_loss(problem, state.model, problem.train, precision)
    serving, total = state.values["clusters"], sum(problem.sizes)
    return sum_in_order(
        problem.sizes[k] / total * mean_loss(problem, state.models[serving[k]], problem.clients[k], precision)
        for k in problem.active
    )


def _shares(run: Run, state: State) -> list[float]:
    if len(state.models) == 1:
        return [1.0]
    sizes = run.problem.sizes
    total = sum(sizes)
    shares = [0.0] * len(state.models)
    for client in run.problem.active:
        shares[state.values["clusters"][client]] += sizes[client] / total
    return shares


def f1(predicted: Tensor, y: Tensor, classes: int) -> float:
    """Return the F1 score of class 1 of two; of more classes, the plain mean over those that occur.

    ``predicted`` and ``y`` are predicted and true labels [n].
    """
    hits = torch.bincount(y[predicted == y], minlength=classes).double()
    seen = (torch.bincount(y, minlength=classes) + torch.bincount(predicted, minlength=classes)).double()
    scores = 2 * hits / seen.clamp(min=1)
    return float(scores[1] if classes == 2 else scores[seen > 0].mean())


def auc(margins: Tensor, y: Tensor) -> float:
    """Return the area under the ROC curve: the chance that a row of class 1 has the larger margin.

    A tie counts one half; NaN where there is no row of one of the classes. ``margins`` [n] say how much more
    the model speaks for class 1 than for class 0, ``y`` [n] are the labels.
    """
    positive = margins[y == 1]
    negative = margins[y == 0].sort().values
    below = torch.searchsorted(negative, positive) + torch.searchsorted(negative, positive, right=True)
    pairs = len(positive) * len(negative)
    return float(below.double().sum()) / (2 * pairs) if pairs else nan


def by_client(run: Run, state: State) -> list[dict[str, Any]]:
    """Return samples, test_loss, test_accuracy (a fraction) and any name of each client that holds rows.

    All test rows count, weighted so that their labels are distributed as in the client's training data,
    under the model that serves it (its cluster's, where there are several). A client has no score (NaN) if no
    test row has one of its labels, or if its model is not finite.
    """
    problem = run.problem
    serving: list[int] = state.values.get("clusters", [0] * len(problem.clients))
    test, precision = problem.test, run.spec.evaluation.precision
    tested = [forward(problem, model, test.x, test.y, precision) for model in state.models]
    labels = torch.bincount(test.y, minlength=problem.classes).double().clamp(min=1)
    rows = []
    for client in problem.active:
        trained = torch.bincount(problem.clients[client].y, minlength=problem.classes).double()
        weights = (trained / labels)[test.y]
        weights /= weights.sum()
        losses, correct = (values.double() for values in tested[serving[client]])
        measured = {"test_loss": float(weights @ losses), "test_accuracy": float(weights @ correct)}
        measured = _if_finite(measured, state.models[serving[client]], measured["test_loss"])
        named = {"name": problem.names[client]} if problem.names else {}
        rows.append({"client": client, "samples": problem.sizes[client], **measured, **named})
    return rows


def _quality(run: Run, w: Tensor, block: Block, of: str) -> dict[str, float]:
    """Return loss, accuracy and the metrics asked for at ``w`` [d] on a block, keys starting with ``of``."""
    problem, metrics, precision = run.problem, run.spec.evaluation.metrics, run.spec.evaluation.precision
    further = {}
    if metrics:
        scores = outputs(problem, w, block.x, precision)
        losses, correct = problem.model.losses(scores, block.y), problem.model.correct(scores, block.y)
        if "f1" in metrics:
            further[f"{of}f1"] = f1(scores.argmax(dim=-1), block.y, problem.classes)
        if "auc" in metrics:
            further[f"{of}auc"] = auc((scores[:, 1] - scores[:, 0]).double(), block.y)
    else:
        losses, correct = forward(problem, w, block.x, block.y, precision)
    row = {f"{of}loss": float(losses.double().mean()), f"{of}accuracy": float(correct.double().mean())}
    row |= further
    return _if_finite(row, w, row[f"{of}loss"])


def _if_finite(measured: dict[str, float], models: Tensor, loss: float) -> dict[str, float]:
    """Return measurements of models; NaN for all of them if a model or the loss is not finite.

    Outputs that are NaN would count as class 0, and give an accuracy that means nothing.
    """
    return measured if isfinite(loss) and finite(models) else dict.fromkeys(measured, nan)


def finite(values: Tensor) -> bool:
    """Whether all values are finite: their sum is, as is quick to tell, or it overflows and each one is."""
    return bool(values.sum().isfinite()) or bool(values.isfinite().all())
