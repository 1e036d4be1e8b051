"""The reference engine: reverse-mode differentiation, for every model and every term.

Its loop of local steps is that of every engine which trains clients one after another.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Batch, BoundTerm, Gradient, Task, Upload
from fedcore.engines.forward import arithmetic, chunks
from fedcore.engines.problem import Block, Problem
from fedcore.engines.train import batches, stepper


@dataclass(frozen=True)
class Autograd:
    """Parameters are leaves that share memory with the flat vector; gradients are taken as they come."""

    problem: Problem
    precision: str = "fp32"
    name: str = "autograd"

    @property
    def versions(self) -> dict[str, str]:
        """Versions, by name, of packages that its results depend on, besides PyTorch and NumPy."""
        return {}

    def bind(self, w: Tensor, out: Tensor, terms: Sequence[BoundTerm]) -> Gradient:
        """Return the function that writes a batch's gradient at ``w`` into ``out``, which may be ``w``."""
        model = self.problem.model
        leaves = {name: view.detach().requires_grad_() for name, view in model.trainable.views(w).items()}
        targets = list(model.trainable.views(out).values())
        p = {**leaves, **self.problem.buffers}
        on_features = [term.loss for term in terms if term.feature_loss]

        def gradient(x: Tensor, y: Tensor, keep: float = 0.0, scale: float = 1.0) -> None:
            with torch.enable_grad(), arithmetic(w, self.precision):
                phi = model.features(p, x)
                loss = model.losses(model.scores(p, phi), y).mean()
                if on_features:
                    batch = Batch(x, w.new_full((len(y),), 1 / len(y)))
                    loss = loss + sum(term(phi, batch) for term in on_features)
            gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
            put(gradients, targets, keep, scale)

        return gradient

    def full_gradient(self, w: Tensor, block: Block) -> Tensor:
        """Return the gradient [d] of the mean loss over all rows of a block, without other terms."""
        total = torch.zeros_like(w)
        gradient = self.bind(w, total, ())
        with torch.no_grad():
            for x, y in chunks(block.x, block.y):
                gradient(x, y, 1.0, len(y) / len(block))
        return total

    def train(self, tasks: Iterable[Task]) -> list[Upload]:
        """Train the clients one after another."""
        return [self._train(task) for task in tasks]

    def _train(self, task: Task) -> Upload:
        training, direction = task.training, task.direction
        drawn = batches(task.block, training.batch_size, training.drop_last, task.rng)
        if task.loop:
            copies = ((x.clone(), y.clone()) for x, y in islice(drawn, len(task.rates)))  # to write to
            trained, extras = task.loop(copies)
            return replace(task.upload(trained), extras=extras)
        steps = zip(task.rates, drawn, strict=False)
        adders = [term.add_gradient for term in task.terms if term.add_gradient]
        w = task.job.received.clone()
        with torch.no_grad():
            if training.optimizer == "sgd" and not adders and not direction.anchored:
                descend = self.bind(w, w, task.terms)
                for lr, (x, y) in steps:
                    descend(x, y, 1 - lr * training.weight_decay, -lr * direction.scale)
                    if direction.offset is not None:
                        w.add_(direction.offset, alpha=-lr)
                return task.upload(w)
            g = torch.empty_like(w)
            gradient = self.bind(w, g, task.terms)
            anchor = self.bind(task.job.received, g, ()) if direction.anchored else None
            step = stepper(training, w)
            for lr, (x, y) in steps:
                gradient(x, y)
                for add_gradient in adders:
                    add_gradient(g, w)
                if anchor is not None:
                    anchor(x, y, 1.0, -1.0)
                if direction.scale != 1.0:
                    g.mul_(direction.scale)
                if direction.offset is not None:
                    g.add_(direction.offset)
                step(g, lr)
        return task.upload(w)


def put(gradients: Sequence[Tensor], targets: Sequence[Tensor], keep: float, scale: float) -> None:
    """Set each target <- keep target + scale gradient; keep = 0 drops whatever it held."""
    for target, value in zip(targets, gradients, strict=True):
        if not keep:
            torch.mul(value, scale, out=target)
            continue
        if keep != 1.0:
            target.mul_(keep)
        target.add_(value, alpha=scale)
