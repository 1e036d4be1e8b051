"""The fast engine: hand-derived gradients for dense networks, random features and the CNN.

A gradient goes straight to where it is needed: into a buffer, or, with a plain SGD step, into the parameters
themselves, so that the step costs no pass over them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedcore.base.lazy import Tensor, torch
from fedcore.engines import BoundTerm, Gradient, Task, Upload, convolution, dense
from fedcore.engines.problem import Problem
from fedcore.engines.train import train_client
from fedcore.models.cnn import Cnn
from fedcore.models.linear import Linear
from fedcore.models.mlp import Mlp
from fedcore.models.rff import RffLinear
from fedcore.spec import Spec

BACKWARD: dict[type, Callable[[Any, Any, Any, Any, dense.Scratch], Gradient]] = {
    Linear: dense.linear,
    RffLinear: dense.random_features,
    Mlp: dense.perceptron,
    Cnn: convolution.network,
}


def unsupported(spec: Spec, problem: Problem) -> str | None:
    """Return why no gradient of a run is derived by hand, or None if it is."""
    if type(problem.model) not in BACKWARD:
        return f"the model '{spec.model.name}'"
    return f"precision {spec.precision}" if spec.precision != "fp32" else None


@dataclass(frozen=True)
class Analytic:
    """Hand-derived gradients; terms on features join through their closed-form gradients."""

    problem: Problem
    name: str = "analytic"
    in_place: bool = True
    scratch: dense.Scratch = field(default_factory=dict, repr=False, compare=False)

    def bind(self, w: Tensor, out: Tensor, terms: Sequence[BoundTerm]) -> Gradient:
        """Return the function that writes a batch's gradient at ``w`` into ``out``, which may be ``w``."""
        model = self.problem.model
        views = model.trainable.views(w)
        into = views if out is w else model.trainable.views(out)
        on_features = [feature_gradient(term) for term in terms if term.feature_loss]
        bind = BACKWARD[type(model)]
        return bind(model, {**views, **self.problem.buffers}, into, on_features, self.scratch)

    def train(self, tasks: Iterable[Task]) -> list[Upload]:
        """Train the clients one after another."""
        return [train_client(self, task) for task in tasks]


def feature_gradient(term: BoundTerm) -> dense.FeatureGradient:
    """Return a term's gradient in the features: in closed form where it has one, else by differentiation."""
    if term.feature_gradient is not None:
        return term.feature_gradient
    assert term.feature_loss is not None
    loss = term.feature_loss

    def differentiated(phi: Tensor, batch: Any) -> Tensor:
        with torch.enable_grad():
            leaf = phi.detach().requires_grad_()
            return torch.autograd.grad(loss(leaf, batch), leaf)[0]

    return differentiated
