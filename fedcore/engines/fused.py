"""The fastest engine on a CPU: fewer and larger products than ``analytic`` has, hence a rounding of its own.

Gradients of a client's first layer are combinations of its rows X. So steps on few rows leave that layer's W
alone and move coefficients A [rows, outputs] of W + X^T A. The layer's sums are X W + (X X^T) A, and X X^T is
computed once a run. Clients with equal numbers of rows take such steps at once.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Task, Upload, analytic
from fedcore.engines.train import batches, batches_of, steps_per_pass
from fedcore.models.dense import Dense

NARROW = 16  # fewer outputs than this are summed faster column by column
AT_ONCE = 1 << 22  # numbers that the steps of clients at once go over; 16 MiB in single precision


@dataclass(frozen=True)
class Fused(analytic.Analytic):
    """Hand-derived gradients, with a proximal pull, straight into plain steps.

    ``grams`` holds X X^T, plus 1 for the bias, of clients whose first layer moves by coefficients.
    """

    name: str = "fused"
    grams: dict[int, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def train(self, tasks: Iterable[Task]) -> list[Upload]:
        """Train at once clients with few rows, equally many, and steps alike; others one after another."""
        uploads: dict[int, Upload] = {}
        alike: dict[Hashable, list[tuple[int, Task]]] = {}
        for place, task in enumerate(tasks):
            if not (self._is_plain(task) and self._spans(task)):
                uploads[place] = self._train(task)
                continue
            direction, pulls = task.direction, [term.pull for term in task.terms]
            steps = *task.rates, *pulls, direction.scale, direction.offset is None
            alike.setdefault((len(task.block), steps), []).append((place, task))
        while alike:
            group = alike.pop(next(iter(alike)))
            size = max(1, AT_ONCE // self._numbers(group[0][1]))
            while group:  # emptied, so that offsets don't outlive their clients' steps
                places, members = zip(*group[:size], strict=True)
                del group[:size]
                uploads |= zip(places, self._by_coefficients(members), strict=True)
        return [uploads[place] for place in sorted(uploads)]

    def _train(self, task: Task) -> Upload:
        if not self._is_plain(task):
            return super()._train(task)
        training, w = task.training, task.job.received.clone()
        with torch.no_grad():
            drift = _Drift(task, w, task.direction.offset)
            step = self.bind(w, w, task.terms)
            drawn = batches(task.block, training.batch_size, training.drop_last, task.rng)
            for lr, (x, y) in zip(task.rates, drawn, strict=False):
                step(x, y, *drift.factors(lr))
                drift.add(lr)
        return task.upload(w)

    def _is_plain(self, task: Task) -> bool:
        """Whether steps are those of SGD, with at most pulls to the start that don't overshoot."""
        overshoots = max(task.rates) * sum(term.pull for term in task.terms) >= 1
        others = overshoots or any(term.add_gradient and term.pull <= 0 for term in task.terms)
        return not (task.loop or others or task.direction.anchored or task.training.optimizer != "sgd")

    def _spans(self, task: Task) -> bool:
        """Whether rows are few and all taken, weights can't grow, and no term is on features."""
        training, rows = task.training, len(task.block)
        few = type(self.problem.model) is Dense and 2 * rows <= task.block.x[0].numel()
        seen = len(task.rates) >= steps_per_pass(rows, training.batch_size, training.drop_last)
        steady = max(task.rates) * (training.weight_decay + sum(term.pull for term in task.terms)) <= 2
        return few and seen and steady and not any(term.feature_loss for term in task.terms)

    def _numbers(self, task: Task) -> int:
        """Return how many numbers a client's steps by coefficients go over."""
        first, *others = self._layers(task.job.received[None])
        rows = len(task.block)
        return rows * (rows + first.matrix.shape[2]) + sum(layer.matrix.numel() for layer in others)

    def _by_coefficients(self, tasks: Sequence[Task]) -> list[Upload]:
        """Take alike steps of all clients, which move their first layers' coefficients and other layers.

        At each step a first layer is kept W + shift O + X^T A, with O the update rule's offset.
        """
        task, training = tasks[0], tasks[0].training
        with torch.no_grad():
            w = torch.stack([task.job.received for task in tasks])
            x = [task.block.x.flatten(1) for task in tasks]
            first, *others = self._layers(w)
            size = sum(part[0].numel() for part in (first.matrix, first.bias) if part is not None)
            given = [task.direction.offset for task in tasks if task.direction.offset is not None]
            offset = torch.stack(given) if given else None
            one_hot = torch.eye(self.problem.classes).to(w)[torch.cat([task.block.y for task in tasks])]
            columns = [one_hot, self._grams(tasks, x, first.bias is not None), _sums(first, x)]
            columns += [] if offset is None else [_sums(self._layers(offset)[0], x)]

            drift = _Drift(task, w[:, size:], None if offset is None else offset[:, size:])
            a = w.new_zeros(len(tasks), len(x[0]), first.matrix.shape[2])
            layers = _Layers(a, first, others)
            streams = [task.rng for task in tasks]
            drawn = batches_of(columns, training.batch_size, training.drop_last, streams)
            for lr, (rows, wanted, near, sums, *offset_sums) in zip(task.rates, drawn, strict=False):
                if drift.kept != 1:
                    sums.mul_(drift.kept)
                for values in offset_sums:
                    sums.add_(values, alpha=drift.shift)
                layers.step(near, sums, wanted, rows, *drift.factors(lr))
                if drift.pull:
                    a.mul_(1 - lr * drift.pull)
                drift.add(lr)

            for matrix, coefficients, inputs in zip(first.matrix, a, x, strict=True):
                matrix.T.addmm_(coefficients.T, inputs, beta=drift.kept)
            if first.bias is not None:
                first.bias.mul_(drift.kept).add_(a.sum(1))
            if offset is not None:
                w[:, :size].add_(offset[:, :size], alpha=drift.shift)
        return [task.upload(row) for task, row in zip(tasks, w, strict=True)]

    def _layers(self, w: Tensor) -> Sequence[analytic.Layer]:
        """Return the model's layers at ``w`` [clients, d], whose gradients go into ``w``."""
        model, views = self.problem.model, self.problem.model.trainable.views(w)
        assert isinstance(model, Dense)
        return analytic.dense(model, views, views)

    def _grams(self, tasks: Sequence[Task], x: Sequence[Tensor], bias: bool) -> Tensor:
        """Return X X^T of the clients, one below another, plus 1 where the first layer has a bias."""
        for task, rows in zip(tasks, x, strict=True):
            if task.job.client not in self.grams:
                self.grams[task.job.client] = (rows @ rows.T).add_(float(bias))
        return torch.cat([self.grams[task.job.client] for task in tasks])


@dataclass(frozen=True)
class _Layers:
    """Layers of several clients: coefficients ``a`` [clients, rows, outputs] of the first, and the others."""

    a: Tensor
    first: analytic.Layer
    others: Sequence[analytic.Layer]

    def step(
        self, near: Tensor, sums: Tensor, wanted: Tensor, rows: Tensor, keep: float, scale: float
    ) -> None:
        """Set all that is trained to keep times itself + scale times the gradient of each client's mean loss.

        ``near`` [clients batch, rows of a client] are the batches' rows of X X^T, ``sums`` what their first
        layers sum to without ``a``, ``wanted`` one-hot labels, and ``rows`` their places among all rows.
        """
        a, clients = self.a, len(self.a)
        z = torch.baddbmm(sums.view(clients, -1, a.shape[2]), near.view(clients, -1, a.shape[1]), a)
        pairs, outputs = [*pairwise([self.first, *self.others])], []
        for below, layer in pairs:
            analytic.calls(below, z, z, z)[0]()
            outputs.append(z)
            bias = layer.bias
            z = z @ layer.matrix if bias is None else torch.baddbmm(bias[:, None], z, layer.matrix)
        delta = torch.softmax(z, 2)
        delta.sub_(wanted.view(delta.shape))

        alpha = scale / delta.shape[1]
        for (below, layer), h in zip(reversed(pairs), reversed(outputs), strict=True):
            lower = torch.bmm(delta, layer.matrix.mT)
            analytic.calls(below, h, h, lower)[1]()
            layer.matrix.mT.baddbmm_(delta.mT, h, beta=keep, alpha=alpha)
            if layer.bias is not None:
                layer.bias.mul_(keep).add_(delta.sum(1), alpha=alpha)
            delta = lower
        if keep != 1:
            a.mul_(keep)
        a.view(-1, a.shape[2]).index_add_(0, rows, delta.view(-1, a.shape[2]), alpha=alpha)


class _Drift:
    """What steps do to parameters besides their gradients: decay, the pull to the start, the rule's offset.

    Without gradients, parameters that started at W would be kept W + shift offset. ``add`` completes a step
    for those in ``w``, which still are where they started; ``offset`` is theirs.
    """

    def __init__(self, task: Task, w: Tensor, offset: Tensor | None) -> None:
        self.decay, self.scale = task.training.weight_decay, task.direction.scale
        self.pull = self.scale * sum(term.pull for term in task.terms)
        self.w, self.start, self.offset = w, w.clone() if self.pull else w, offset
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


def _sums(layers: analytic.Layer, x: Sequence[Tensor]) -> Tensor:
    """Return the sums [clients rows, outputs] of each client's layer for its rows [rows, inputs]."""
    narrow = layers.matrix.shape[2] < NARROW
    pairs = zip(layers.matrix, x, strict=True)
    sums = torch.stack([(matrix.T @ rows.T).T if narrow else rows @ matrix for matrix, rows in pairs])
    return (sums if layers.bias is None else sums.add_(layers.bias[:, None])).flatten(0, 1)
