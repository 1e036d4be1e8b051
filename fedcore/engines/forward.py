"""Forward passes, in chunks."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fedcore.base.lazy import Tensor, torch
from fedcore.engines.problem import Block, Pair, Problem

CHUNK, CHUNK_OF_IMAGES = 1024, 128
CHUNKS_OF_A_GPU = 16


def chunks(x: Tensor, y: Tensor) -> Iterator[Pair]:
    """Yield rows by the chunk: as many as keep a layer's activations in cache, or a GPU busy."""
    size = (CHUNK_OF_IMAGES if x.dim() > 2 else CHUNK) * (CHUNKS_OF_A_GPU if x.is_cuda else 1)
    return zip(x.split(size), y.split(size), strict=True)


def arithmetic(w: Tensor, precision: str) -> AbstractContextManager[Any]:
    """Return the context in which a model computes at ``w``: in 'bf16', or for 'fp32' in its own type."""
    return torch.autocast(w.device.type, dtype=torch.bfloat16) if precision == "bf16" else nullcontext()


def forward(problem: Problem, w: Tensor, x: Tensor, y: Tensor, precision: str = "fp32") -> Pair:
    """Return per-sample losses [n] and correctness [n] at ``w`` [d], computed in chunks."""
    model = problem.model
    losses, correct = [], []
    for scores, labels in _scored(problem, w, x, y, precision):
        losses.append(model.losses(scores, labels))
        correct.append(model.correct(scores, labels))
    return torch.cat(losses), torch.cat(correct)


def outputs(problem: Problem, w: Tensor, x: Tensor, precision: str = "fp32") -> Tensor:
    """Return the output [n, classes] at ``w`` [d], computed in chunks."""
    return torch.cat([scores for scores, _ in _scored(problem, w, x, x, precision)])


def _scored(problem: Problem, w: Tensor, x: Tensor, y: Tensor, precision: str) -> Iterator[Pair]:
    """Yield the scores of a chunk with its labels; the output layer computes in the parameters' own type."""
    model = problem.model
    p = {**model.trainable.views(w), **problem.buffers}
    for rows, labels in chunks(x, y):
        with torch.no_grad():
            with arithmetic(w, precision):
                phi = model.features(p, rows)
            yield model.scores(p, phi.to(w.dtype)), labels


def features(problem: Problem, w: Tensor, x: Tensor, precision: str = "fp32") -> Tensor:
    """Return phi(x) [n, features] at ``w`` [d] in the type of ``w``, computed in chunks."""
    p = {**problem.model.trainable.views(w), **problem.buffers}
    with torch.no_grad(), arithmetic(w, precision):
        return torch.cat([problem.model.features(p, rows).to(w.dtype) for rows, _ in chunks(x, x)])


def mean_loss(problem: Problem, w: Tensor, block: Block, precision: str = "fp32") -> float:
    """Return the mean loss of a block's rows at ``w`` [d]; of a client's rows that is F_k(w)."""
    return float(forward(problem, w, block.x, block.y, precision)[0].double().mean())
