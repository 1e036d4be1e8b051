"""Forward passes, in chunks."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fedcore.base.lazy import Tensor, torch
from fedcore.engines.problem import Block, Pair, Problem
from fedcore.models import Parameters

CHUNK, CHUNK_OF_IMAGES = 1024, 128
CHUNKS_OF_A_GPU = 16


def chunks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield rows by the chunk: as many as keep a layer's activations in cache, or a GPU busy."""
    x = tensors[0]
    size = (CHUNK_OF_IMAGES if x.dim() > 2 else CHUNK) * (CHUNKS_OF_A_GPU if x.is_cuda else 1)
    return zip(*(tensor.split(size) for tensor in tensors), strict=True)


def arithmetic(w: Tensor, precision: str) -> AbstractContextManager[Any]:
    """Return the context in which a model computes at ``w``: in 'bf16', or for 'fp32' in its own type."""
    return torch.autocast(w.device.type, dtype=torch.bfloat16) if precision == "bf16" else nullcontext()


def forward(problem: Problem, w: Tensor, x: Tensor, y: Tensor, precision: str = "fp32") -> Pair:
    """Return per-sample losses [n] and correctness [n] at ``w`` [d], computed in chunks."""
    model, p = problem.model, problem.parameters(w)
    losses, correct = [], []
    with torch.no_grad():
        for rows, labels in chunks(x, y):
            scores = model.scores(p, _phi(problem, w, p, rows, precision))
            losses.append(model.losses(scores, labels))
            correct.append(model.correct(scores, labels))
    return torch.cat(losses), torch.cat(correct)


def outputs(problem: Problem, w: Tensor, x: Tensor, precision: str = "fp32") -> Tensor:
    """Return the output [n, classes] at ``w`` [d], computed in chunks."""
    p = problem.parameters(w)
    with torch.no_grad():
        phis = (_phi(problem, w, p, rows, precision) for (rows,) in chunks(x))
        return torch.cat([problem.model.scores(p, phi) for phi in phis])


def features(problem: Problem, w: Tensor, x: Tensor, precision: str = "fp32") -> Tensor:
    """Return phi(x) [n, features] at ``w`` [d] in the type of ``w``, computed in chunks."""
    p = problem.parameters(w)
    with torch.no_grad():
        return torch.cat([_phi(problem, w, p, rows, precision) for (rows,) in chunks(x)])


def _phi(problem: Problem, w: Tensor, p: Parameters, rows: Tensor, precision: str) -> Tensor:
    """Return the features of a chunk in the type of ``w``, in which the output layer computes."""
    if problem.features is not None and precision == "fp32" and w.dtype == problem.start.dtype:
        return problem.features(p, rows)
    with arithmetic(w, precision):
        return problem.model.features(p, rows).to(w.dtype)


def mean_loss(problem: Problem, w: Tensor, block: Block, precision: str = "fp32") -> float:
    """Return the mean loss of a block's rows at ``w`` [d]; of a client's rows that is F_k(w)."""
    return float(forward(problem, w, block.x, block.y, precision)[0].double().mean())
