"""The fastest engine on a CPU: fewer and larger products than ``analytic`` has, hence a rounding of its own.

Gradients of a client's first layer are combinations of its rows X. So steps on few rows leave that layer's W
alone and move coefficients A [rows, outputs] of W + X^T A. The layer's sums are X W + (X X^T) A, and X X^T is
computed once a run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Task, Upload, analytic
from fedcore.engines.train import batches, batches_of, steps_per_pass
from fedcore.models.dense import Dense

NARROW = 16  # fewer outputs than this are summed faster column by column


@dataclass(frozen=True)
class Fused(analytic.Analytic):
    """Hand-derived gradients, with a proximal pull, straight into plain steps.

    ``grams`` holds X X^T, plus 1 for the bias, of clients whose first layer moves by coefficients.
    """

    name: str = "fused"
    grams: dict[int, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def _train(self, task: Task) -> Upload:
        overshoots = max(task.rates) * sum(term.pull for term in task.terms) >= 1
        others = overshoots or any(term.add_gradient and term.pull <= 0 for term in task.terms)
        if task.loop or others or task.direction.anchored or task.training.optimizer != "sgd":
            return super()._train(task)
        with torch.no_grad():
            w = task.job.received.clone()
            if self._spans(task):
                self._by_coefficients(task, w)
            else:
                self._in_place(task, w)
        return task.upload(w)

    def _spans(self, task: Task) -> bool:
        """Whether rows are few and all taken, weights can't grow, and no term is on features."""
        training, rows = task.training, len(task.block)
        few = type(self.problem.model) is Dense and 2 * rows <= task.block.x[0].numel()
        seen = len(task.rates) >= steps_per_pass(rows, training.batch_size, training.drop_last)
        steady = max(task.rates) * (training.weight_decay + sum(term.pull for term in task.terms)) <= 2
        return few and seen and steady and not any(term.feature_loss for term in task.terms)

    def _in_place(self, task: Task, w: Tensor) -> None:
        """Take steps that each add a gradient to ``w`` [d]."""
        training = task.training
        drift = _Drift(task, w, 0)
        step = self.bind(w, w, task.terms)
        drawn = batches(task.block, training.batch_size, training.drop_last, task.rng)
        for lr, (x, y) in zip(task.rates, drawn, strict=False):
            step(x, y, *drift.factors(lr))
            drift.add(lr)

    def _by_coefficients(self, task: Task, w: Tensor) -> None:
        """Take steps that move the first layer's coefficients and the other layers of ``w`` [d].

        At each step the first layer is kept W + shift O + X^T A, with O the update rule's offset.
        """
        block, training, offset = task.block, task.training, task.direction.offset
        x = block.x.flatten(1)
        first, *others = self._layers(w)
        first_size = first.matrix.numel() + (0 if first.bias is None else first.bias.numel())
        sums = _sums(first, x)
        offsets = None if offset is None else _sums(self._layers(offset)[0], x)
        if (gram := self.grams.get(task.job.client)) is None:
            gram = self.grams[task.job.client] = (x @ x.T).add_(0.0 if first.bias is None else 1.0)

        drift = _Drift(task, w, first_size)
        a = sums.new_zeros(sums.shape)
        step: Callable[..., None]
        if others:
            coefficients = analytic.Layer(a, None, a, None, first.activation)
            step, labels = analytic.Backward([coefficients, *others], (), self.scratch), block.y
        else:
            step, labels = partial(_linear, a), torch.eye(a.shape[1]).to(a).index_select(0, block.y)
        columns = [labels, sums, gram, *(() if offsets is None else (offsets,))]
        drawn = batches_of(columns, training.batch_size, training.drop_last, task.rng)
        for lr, (rows, wanted, given, near, *offset_sums) in zip(task.rates, drawn, strict=False):
            if drift.kept != 1:
                given.mul_(drift.kept)
            for values in offset_sums:
                given.add_(values, alpha=drift.shift)
            step(near, wanted, *drift.factors(lr), given, rows)
            if drift.pull:
                a.mul_(1 - lr * drift.pull)
            drift.add(lr)

        first.matrix.T.addmm_(a.T, x, beta=drift.kept)
        if first.bias is not None:
            first.bias.mul_(drift.kept).add_(a.sum(0))
        if offset is not None:
            w[:first_size].add_(offset[:first_size], alpha=drift.shift)

    def _layers(self, w: Tensor) -> Sequence[analytic.Layer]:
        """Return the model's layers at ``w`` [d], whose gradients go into ``w``."""
        model, views = self.problem.model, self.problem.model.trainable.views(w)
        assert isinstance(model, Dense)
        return analytic.dense(model, views, views)


def _linear(
    a: Tensor, near: Tensor, one_hot: Tensor, keep: float, scale: float, given: Tensor, moved: Tensor
) -> None:
    """As ``Backward``, without hidden layers and with labels [batch, classes]: move coefficients ``a``."""
    delta = torch.softmax(torch.addmm(given, near, a), 1).sub_(one_hot)
    if keep != 1:
        a.mul_(keep)
    a.index_add_(0, moved, delta, alpha=scale / delta.shape[0])


class _Drift:
    """What steps do to parameters besides their gradients: decay, the pull to the start, the rule's offset.

    Without gradients, parameters that started at W would be kept W + shift offset. ``add`` completes a step
    for those of ``w`` [d] from ``first`` on.
    """

    def __init__(self, task: Task, w: Tensor, first: int) -> None:
        self.decay, self.scale = task.training.weight_decay, task.direction.scale
        self.pull = self.scale * sum(term.pull for term in task.terms)
        self.w, self.start = w[first:], task.job.received[first:]
        self.offset = None if task.direction.offset is None else task.direction.offset[first:]
        self.kept, self.shift = 1.0, 0.0

    def factors(self, lr: float) -> tuple[float, float]:
        """Return what a step keeps of parameters, and takes of gradients, before the pull to the start."""
        rest = 1 - lr * self.pull
        return (rest - lr * self.decay) / rest, -lr * self.scale / rest

    def add(self, lr: float) -> None:
        """Pull to the start, and add the offset."""
        if self.pull:
            self.w.lerp_(self.start, lr * self.pull)
        if self.offset is not None:
            self.w.add_(self.offset, alpha=-lr)
        self.shift -= lr * (1 + (self.decay + self.pull) * self.shift)
        self.kept += lr * (self.pull * (1 - self.kept) - self.decay * self.kept)


def _sums(layer: analytic.Layer, x: Tensor) -> Tensor:
    """Return a layer's sums [rows, outputs] of rows ``x`` [rows, inputs]."""
    sums = (layer.matrix.T @ x.T).T if layer.matrix.shape[1] < NARROW else x @ layer.matrix
    return sums if layer.bias is None else sums.add_(layer.bias)
