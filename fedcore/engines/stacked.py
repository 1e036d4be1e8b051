"""The engine for GPUs: several clients' local steps as one batch of models.

Clients are rows of one matrix of parameters [clients, d]. A step differentiates all of their losses at
once. Smaller batches are filled up with rows of weight zero; a client that has done its steps is set
aside while the others go on.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

import numpy as np

from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Batch, BoundTerm, Task, Upload
from fedcore.engines.autograd import Autograd
from fedcore.engines.problem import Problem
from fedcore.engines.train import passes, stepper
from fedcore.spec import Spec

GROUP_BYTES = 1 << 30
COPIES = 8


def unsupported(spec: Spec, problem: Problem) -> str | None:
    """Return why a run can't be stacked, or None if it can."""
    if spec.training.lr_schedule.name == "inverse_time":
        return "a learning rate that decays by steps"
    if spec.precision != "fp32":
        return f"precision {spec.precision}"
    test = problem.test
    try:
        with torch.no_grad():
            stack = problem.start.expand(2, -1).contiguous()
            p = problem.model.trainable.views(stack)
            _forward(problem, p, test.x[:1].expand(2, 1, *test.x.shape[1:]), test.y[:1].expand(2, 1))
    except RuntimeError:
        return f"the model '{spec.model.name}'"
    return None


@dataclass(frozen=True)
class Stacked(Autograd):
    """Trains the clients of a stage together; single gradients come from the reference engine."""

    name: str = "stacked"
    in_place: bool = False

    def train(self, tasks: Iterable[Task]) -> list[Upload]:
        """Train the clients in groups that fit in memory, those with as many steps together."""
        start = self.problem.start
        size = max(1, GROUP_BYTES // (COPIES * start.numel() * start.element_size()))
        bound = list(tasks)
        if any(task.loop for task in bound):
            return super().train(bound)
        order = sorted(range(len(bound)), key=lambda i: -len(bound[i].rates))
        uploads: dict[int, Upload] = {}
        for low in range(0, len(order), size):
            group = order[low : low + size]
            uploads |= zip(group, train_together(self.problem, [bound[i] for i in group]), strict=True)
        return [uploads[i] for i in range(len(bound))]


@dataclass(frozen=True)
class Stack:
    """One batch of each client, filled up to the largest: rows [clients, batch, ...], labels and weights
    [clients, batch], and the true sizes.
    """

    x: Tensor
    y: Tensor
    weights: Tensor
    sizes: list[int]


def train_together(problem: Problem, tasks: Sequence[Task]) -> list[Upload]:
    """Do all steps of some clients."""
    received = torch.stack([task.job.received for task in tasks])
    w, g = received.clone(), torch.empty_like(received)
    gradient = _bind(problem, w, g, [task.terms for task in tasks])
    at_start = torch.empty_like(g) if any(task.direction.anchored for task in tasks) else None
    anchor = None if at_start is None else _bind(problem, received, at_start, [[] for _ in tasks])
    scales = g.new_tensor([[task.direction.scale] for task in tasks])
    none, zero = torch.empty(0, dtype=torch.int64), torch.zeros_like(g[0])
    offsets = torch.stack([zero if (own := task.direction.offset) is None else own for task in tasks])
    adders = [
        (k, term.add_gradient) for k, task in enumerate(tasks) for term in task.terms if term.add_gradient
    ]
    step = stepper(tasks[0].training, w)
    longest = max((task.rates for task in tasks), key=len)
    done: dict[int, Tensor] = {}

    for t, batches in enumerate(zip_longest(*map(_rows, tasks), fillvalue=none)):
        stack = _gather(problem, tasks, batches)
        gradient(stack)
        with torch.no_grad():
            for k, add_gradient in adders:
                add_gradient(g[k], w[k])
            if anchor is not None and at_start is not None:
                anchor(stack)
                g.sub_(at_start)
            g.mul_(scales).add_(offsets)
            step(g, longest[t])
            done |= {k: w[k].clone() for k, task in enumerate(tasks) if len(task.rates) == t + 1}
    return [task.upload(done[k]) for k, task in enumerate(tasks)]


def _bind(
    problem: Problem, w: Tensor, out: Tensor, terms: Sequence[Sequence[BoundTerm]]
) -> Callable[[Stack], None]:
    """Return the function that writes the gradient at each row of ``w`` [clients, d] into that of ``out``."""
    layout = problem.model.trainable
    leaves = {name: view.detach().requires_grad_() for name, view in layout.views(w).items()}
    places = list(layout.views(out).values())
    on_features = [
        (k, term.feature_loss) for k, bound in enumerate(terms) for term in bound if term.feature_loss
    ]

    def gradient(stack: Stack) -> None:
        with torch.enable_grad():
            phi, losses = _forward(problem, leaves, stack.x, stack.y)
            loss = (losses * stack.weights).sum()
            for k, feature_loss in on_features:
                if size := stack.sizes[k]:
                    batch = Batch(stack.x[k, :size], stack.weights[k, :size])
                    loss = loss + feature_loss(phi[k, :size], batch)
        for place, value in zip(places, torch.autograd.grad(loss, list(leaves.values())), strict=True):
            place.copy_(value)

    return gradient


def _forward(problem: Problem, p: Mapping[str, Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return features [clients, batch, features] and losses [clients, batch] of stacked models."""
    model, fixed = problem.model, problem.buffers

    def one(trained: Mapping[str, Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        named = {**trained, **fixed}
        phi = model.features(named, x)
        return phi, model.losses(model.scores(named, phi), y)

    phi, losses = torch.vmap(one)(dict(p), x, y)
    return phi, losses


def _rows(task: Task) -> Iterator[Tensor]:
    """Yield the row indices of each of a client's batches."""
    training, n = task.training, len(task.block)
    drawn = passes(n, training.batch_size, training.drop_last, task.rng)
    return (torch.arange(n) if batch is None else batch for batch in islice(drawn, len(task.rates)))


def _gather(problem: Problem, tasks: Sequence[Task], rows: Sequence[Tensor]) -> Stack:
    """Collect each client's rows, filled up with the first of all rows at weight zero."""
    starts, pad = np.cumsum([0, *problem.sizes]).tolist(), torch.nn.utils.rnn.pad_sequence
    sizes = [len(batch) for batch in rows]
    places = [starts[task.job.client] + batch for task, batch in zip(tasks, rows, strict=True)]
    weights = [torch.full((size,), 1 / max(size, 1), dtype=problem.start.dtype) for size in sizes]
    index, filled = (pad(own, batch_first=True).to(problem.start.device) for own in (places, weights))
    return Stack(problem.train.x[index], problem.train.y[index], filled, sizes)
