"""The engine for GPUs: several clients' local steps as one batch of models.

Clients are rows of one matrix of parameters [clients, d]. A step differentiates all of their losses at
once. Smaller batches are filled up with rows of weight zero; a client that has done its steps is set
aside while the others go on. On a GPU, a step that differs from round to round in tensors alone is recorded
once, as a CUDA graph, and replayed.
"""

import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest

import numpy as np
from numpy.typing import NDArray

from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Batch, BoundTerm, Task, Upload
from fedcore.engines.autograd import Autograd, put
from fedcore.engines.forward import arithmetic
from fedcore.engines.problem import Problem
from fedcore.engines.train import batch_rows, stepper
from fedcore.spec import Spec, Training

GROUP_BYTES = 4 << 30
COPIES = 8
MOST_RECORDINGS = 4
Step = Callable[[Sequence[int]], None]
Shapes = tuple[tuple[int, ...], ...]
Terms = Sequence[Sequence[BoundTerm]]
Mapped = Sequence[tuple[Callable[..., Tensor], Sequence[Tensor]]]


def unsupported(spec: Spec, problem: Problem) -> str | None:
    """Return why a run can't be stacked, or None if it can."""
    if spec.training.lr_schedule.name == "inverse_time":
        return "a learning rate that decays by steps"
    test = problem.test
    try:
        with torch.no_grad(), arithmetic(problem.start, spec.precision):
            p = problem.model.trainable.views(problem.start.expand(2, -1).contiguous())
            _forward(problem, p, test.x[:1].expand(2, 1, *test.x.shape[1:]), test.y[:1].expand(2, 1))
    except RuntimeError:
        return f"the model '{spec.model.name}'"
    return None


@dataclass(frozen=True)
class Form:
    """What a step of some clients does: steps of one form differ in tensors alone.

    ``anchored``, ``scaled`` and ``moved`` say which of a Direction's corrections some client has, and
    ``pulled`` whether some client is pulled to the model that it received.
    """

    clients: int
    batch: int
    rate: float
    anchored: bool
    scaled: bool
    moved: bool
    pulled: bool
    mapped: tuple[tuple[Callable[..., Tensor], Shapes], ...]  # losses on features, their tensors' shapes


class Memory:
    """What the steps of a form read and write: in the same place in every round."""

    def __init__(self, form: Form, start: Tensor) -> None:
        def zeros(*shape: int) -> Tensor:
            return start.new_zeros(form.clients, *shape)

        d = len(start)
        self.received, self.w = zeros(d), zeros(d)  # models
        self.offsets, self.scales = zeros(d), zeros(1)  # of gradients, as a Direction has them
        self.pulls = zeros(1)  # their weights
        self.given = [[zeros(*shape) for shape in shapes] for _, shapes in form.mapped]
        self.index, self.weights = zeros(form.batch).long(), zeros(form.batch)  # of rows among all rows

    def begin(self, tasks: Sequence[Task], mapped: Terms) -> None:
        """Set everything but the batches to what the tasks say."""
        torch.stack([task.job.received for task in tasks], out=self.received)
        self.w.copy_(self.received)
        zero = torch.zeros_like(self.w[0])
        directions = [task.direction for task in tasks]
        torch.stack([zero if d.offset is None else d.offset for d in directions], out=self.offsets)
        self.scales.copy_(self.scales.new_tensor([[d.scale] for d in directions]))
        self.pulls.copy_(self.pulls.new_tensor([[sum(t.pull for t in task.terms)] for task in tasks]))
        for stacks, terms in zip(self.given, mapped, strict=True):
            for stack, tensors in zip(stacks, zip(*(t.given or () for t in terms), strict=True), strict=True):
                torch.stack(tensors, out=stack)


def recorded(step: Step) -> Step:
    """Do a step once, as libraries set themselves up in it, and record another as a CUDA graph.

    Python must not collect other graphs meanwhile, as CUDA frees nothing while it records.
    """
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step(())
    torch.cuda.current_stream().wait_stream(side)
    gc.collect()
    gc.disable()
    try:
        with torch.cuda.graph(graph):
            step(())
    finally:
        gc.enable()

    def replay(sizes: Sequence[int], kept: Step = step) -> None:  # the graph uses the memory of what is kept
        graph.replay()

    return replay


RECORDERS: dict[str, Callable[[Step], Step]] = {"cuda": recorded}


@dataclass(frozen=True)
class Stacked(Autograd):
    """Trains the clients of a stage together; single gradients come from the reference engine."""

    name: str = "stacked"
    recordings: dict[Form, tuple[Memory, Step]] = field(default_factory=dict, repr=False, compare=False)

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
            uploads |= zip(group, self._together([bound[i] for i in group]), strict=True)
        return [uploads[i] for i in range(len(bound))]

    def _together(self, tasks: Sequence[Task]) -> list[Upload]:
        index, weights, sizes = _batches(self.problem, tasks)
        mapped, others = _mapped_and_others([task.terms for task in tasks])
        directions = [task.direction for task in tasks]
        form = Form(
            *index.shape[1:],
            rate=tasks[0].rates[0],
            anchored=any(direction.anchored for direction in directions),
            scaled=any(direction.scale != 1 for direction in directions),
            moved=any(direction.offset is not None for direction in directions),
            pulled=any(term.pull for task in tasks for term in task.terms),
            mapped=tuple((terms[0].feature_loss, _shapes(terms[0])) for terms in mapped),  # type: ignore[misc]
        )
        memory, step = self._bound(form, tasks[0].training, others)
        memory.begin(tasks, mapped)
        models: dict[int, Tensor] = {}
        for t in range(len(index)):
            memory.index.copy_(index[t])
            memory.weights.copy_(weights[t])
            step(sizes[t])
            models |= {k: memory.w[k].clone() for k, task in enumerate(tasks) if len(task.rates) == t + 1}
        return [task.upload(models[k]) for k, task in enumerate(tasks)]

    def _bound(self, form: Form, training: Training, others: Terms) -> tuple[Memory, Step]:
        """Return the memory and the step of a form, recorded where it differs in tensors alone."""
        fixed = training.optimizer == "sgd" and not any(others)
        recorder = RECORDERS.get(self.problem.start.device.type) if fixed else None
        if recorder and form in self.recordings:
            return self.recordings[form]
        memory = Memory(form, self.problem.start)
        step = self._step(form, memory, training, others)
        if recorder:
            if len(self.recordings) == MOST_RECORDINGS:
                self.recordings.clear()
            step = recorder(step)
            self.recordings[form] = memory, step
        return memory, step

    def _step(self, form: Form, memory: Memory, training: Training, others: Terms) -> Step:
        """Return the function that does a step of all clients, given the sizes of their batches."""
        w, rate = memory.w, form.rate
        adders = [(k, t.add_gradient) for k, terms in enumerate(others) for t in terms if t.add_gradient]
        plain = training.optimizer == "sgd" and not (adders or form.anchored or form.scaled or form.pulled)
        g = w if plain else torch.empty_like(w)
        mapped = [(loss, given) for (loss, _), given in zip(form.mapped, memory.given, strict=True)]
        gradient = self._gradient(memory, w, g, mapped, others)
        anchor = self._gradient(memory, memory.received, g)
        descend = stepper(training, w)

        def step_in_place(sizes: Sequence[int]) -> None:
            gradient(sizes, 1 - rate * training.weight_decay, -rate)
            if form.moved:
                w.add_(memory.offsets, alpha=-rate)

        def step(sizes: Sequence[int]) -> None:
            gradient(sizes, 0.0, 1.0)
            if form.pulled:
                g.addcmul_(memory.pulls, w - memory.received)
            for k, add_gradient in adders:
                add_gradient(g[k], w[k])
            if form.anchored:
                anchor(sizes, 1.0, -1.0)
            if form.scaled:
                g.mul_(memory.scales)
            if form.moved:
                g.add_(memory.offsets)
            descend(g, rate)

        return torch.no_grad()(step_in_place if plain else step)

    def _gradient(
        self, memory: Memory, w: Tensor, out: Tensor, mapped: Mapped = (), others: Terms = ()
    ) -> Callable[[Sequence[int], float, float], None]:
        """Return the function of batch sizes, ``keep`` and ``scale`` that sets out <- keep out + scale g.

        g are the gradients at ``w`` [clients, d].
        """
        problem = self.problem
        layout = problem.model.trainable
        leaves = {name: view.detach().requires_grad_() for name, view in layout.views(w).items()}
        targets = list(layout.views(out).values())
        on_features = [(k, t.loss) for k, terms in enumerate(others) for t in terms if t.feature_loss]

        def gradient(sizes: Sequence[int], keep: float, scale: float) -> None:
            x, y, weights = problem.train.x[memory.index], problem.train.y[memory.index], memory.weights
            with torch.enable_grad(), arithmetic(w, self.precision):
                phi, losses = _forward(problem, leaves, x, y)
                loss = (losses * weights).sum()
                for feature_loss, given in mapped:
                    loss = loss + torch.vmap(_of_batch(feature_loss))(phi, x, weights, *given).sum()
                for k, feature_loss in on_features:
                    if size := sizes[k]:
                        loss = loss + feature_loss(phi[k, :size], Batch(x[k, :size], weights[k, :size]))
            gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
            put(gradients, targets, keep, scale)

        return gradient


def _mapped_and_others(terms: Terms) -> tuple[list[list[BoundTerm]], list[list[BoundTerm]]]:
    """Return the terms that are mapped over the clients, by term, and each client's other ones.

    Pulls are neither, as a step has them for all clients.
    """
    mapped: list[list[BoundTerm]] = []
    others: list[list[BoundTerm]] = [[] for _ in terms]
    for column in zip_longest(*terms, fillvalue=BoundTerm()):
        if len({(term.feature_loss, _shapes(term)) for term in column}) == 1 and column[0].given is not None:
            mapped.append(list(column))
            continue
        for client, term in enumerate(column):
            if not term.pull and (term.add_gradient or term.feature_loss):
                others[client].append(term)
    return mapped, others


def _shapes(term: BoundTerm) -> Shapes:
    return tuple(tensor.shape for tensor in term.given or ())


def _of_batch(feature_loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a loss on features as a function of tensors alone."""
    return lambda phi, x, weights, *given: feature_loss(phi, Batch(x, weights), *given)


def _forward(problem: Problem, p: Mapping[str, Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return features [clients, batch, features] and losses [clients, batch] of stacked models."""
    model, fixed = problem.model, problem.buffers

    def one(trained: Mapping[str, Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        named = {**trained, **fixed}
        phi = model.features(named, x)
        return phi, model.losses(model.scores(named, phi), y)

    phi, losses = torch.vmap(one)(dict(p), x, y)
    return phi, losses


def _batches(problem: Problem, tasks: Sequence[Task]) -> tuple[Tensor, Tensor, list[list[int]]]:
    """Draw the clients' batches, filled up to one size with the first of all rows at weight zero.

    Returns:
        Rows among all rows [steps, clients, batch], their weights alike, and the true sizes.
    """
    starts = np.cumsum([0, *problem.sizes])
    drawn = [_rows(task) for task in tasks]
    shape = max(map(len, drawn)), len(tasks)
    sizes = np.zeros(shape, np.int64)
    for k, batches in enumerate(drawn):
        sizes[: len(batches), k] = [len(rows) for rows in batches]
    index = np.zeros((*shape, sizes.max()), np.int64)
    for k, (task, batches) in enumerate(zip(tasks, drawn, strict=True)):
        for t, rows in enumerate(batches):
            index[t, k, : len(rows)] = rows + starts[task.job.client]
    weights = (np.arange(index.shape[2]) < sizes[..., None]) / np.maximum(sizes, 1)[..., None]
    start = problem.start
    return torch.from_numpy(index).to(start.device), torch.from_numpy(weights).to(start), sizes.tolist()


def _rows(task: Task) -> list[NDArray[np.int64]]:
    training, n = task.training, len(task.block)
    drawn = batch_rows(n, training.batch_size, training.drop_last, task.rng)
    return [np.arange(n) if rows is None else rows.numpy() for rows in islice(drawn, len(task.rates))]
