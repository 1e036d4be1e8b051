"""The reference engine: reverse-mode differentiation, for every model and every term."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Batch, BoundTerm, Gradient, Task, Upload
from fedcore.engines.forward import arithmetic
from fedcore.engines.problem import Problem
from fedcore.engines.train import train_client


@dataclass(frozen=True)
class Autograd:
    """Parameters are leaves that share memory with the flat vector; gradients are taken as they come."""

    problem: Problem
    precision: str = "fp32"
    name: str = "autograd"
    in_place: bool = True

    def bind(self, w: Tensor, out: Tensor, terms: Sequence[BoundTerm]) -> Gradient:
        """Return the function that writes a batch's gradient at ``w`` into ``out``, another vector."""
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
                    batch = Batch(x, torch.full((len(y),), 1 / len(y), dtype=w.dtype, device=w.device))
                    loss = loss + sum(term(phi, batch) for term in on_features)
            gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
            put(gradients, targets, keep, scale)

        return gradient

    def train(self, tasks: Iterable[Task]) -> list[Upload]:
        """Train the clients one after another."""
        return [train_client(self, task) for task in tasks]


def put(gradients: Sequence[Tensor], targets: Sequence[Tensor], keep: float, scale: float) -> None:
    """Set each target <- keep target + scale gradient; keep = 0 drops whatever it held."""
    for target, value in zip(targets, gradients, strict=True):
        if keep:
            (target if keep == 1.0 else target.mul_(keep)).add_(value, alpha=scale)
        else:
            torch.mul(value, scale, out=target)
