"""What any model must do: be functions of its parameters and rows, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fedcore.base.errors import SpecError, reason
from fedcore.base.lazy import Tensor, torch
from fedcore.base.options import validate
from fedcore.base.registry import Plugin
from fedcore.conformance import Checks, Skipped, disturb, require
from fedcore.models import Model, ModelOptions, Shape, initialise

ROWS, DIRECTIONS = 4, 5
STEP, TOLERANCE = 1e-6, 1e-4
SHAPES = (Shape((3, 32, 32), 4), Shape((1, 28, 28), 4), Shape((12,), 4), Shape((12,), 4, 30), Shape((2,), 1))


@dataclass(frozen=True)
class Trial:
    """A model with start parameters ``w`` [d], its fixed arrays, and rows ``x`` with labels ``y``."""

    model: Model
    w: Tensor
    buffers: Mapping[str, Tensor]
    x: Tensor
    y: Tensor

    def losses(self, w: Tensor, rows: slice = slice(None)) -> Tensor:
        """Return the losses of some rows at parameters ``w``."""
        p = {**self.model.trainable.views(w), **self.buffers}
        return self.model.losses(self.model.scores(p, self.model.features(p, self.x[rows])), self.y[rows])


def checks(plugin: Plugin, options: Mapping[str, Any]) -> Checks:
    """Yield a model's requirements, each with its check; SpecError if it takes none of the inputs tried."""
    checked: Any = validate(plugin.options, dict(options), "model")
    shape = _accepted(plugin, checked)
    trial = partial(_trial, plugin, checked, shape)
    yield "its start is drawn from the generator alone", partial(_draws, trial)
    yield "features and an output layer give the scores", lambda: _head(trial(), shape.classes)
    yield "the same rows have the same losses again", lambda: _again(trial())
    yield "the loss of a row depends on no other row", lambda: _apart(trial())
    yield "gradients are those of finite differences", lambda: _gradient(trial())
    yield "single and double precision agree", lambda: _precision(trial(), trial(dtype=torch.float32))
    yield "models can be stacked for a GPU", lambda: _stacks(trial())


def _accepted(plugin: Plugin, options: ModelOptions) -> Shape:
    refused: SpecError | None = None
    for shape in SHAPES:
        try:
            plugin.build(options, shape)
        except SpecError as error:
            refused = refused or error
        else:
            return shape
    raise refused or SpecError(f"model '{plugin.name}' takes no inputs")


def _trial(plugin: Plugin, options: ModelOptions, shape: Shape, seed: int = 0, dtype: Any = None) -> Trial:
    model = plugin.build(options, shape)
    dtype = dtype or torch.float64
    w, buffers = initialise(model, options.init, np.random.default_rng(seed), dtype)
    rng = np.random.default_rng(1)
    if shape.vocabulary is None:
        x = torch.as_tensor(rng.standard_normal((ROWS, *shape.inputs)), dtype=dtype)
    else:
        x = torch.as_tensor(rng.integers(shape.vocabulary, size=(ROWS, *shape.inputs)))
    return Trial(model, w, buffers, x, torch.as_tensor(rng.integers(shape.classes, size=ROWS)))


def _draws(trial: partial[Trial]) -> None:
    starts = []
    for seed, disturbed in ((0, 1), (0, 2), (1, 2)):
        disturb(disturbed)
        starts.append(trial(seed=seed).w)
    same = torch.equal(starts[0], starts[1])
    require(same, "one seed gave two starts; draw only from the generator that initial receives")
    if torch.equal(starts[1], starts[2]):
        raise Skipped("two seeds give one start: nothing is drawn")


def _head(trial: Trial, classes: int) -> None:
    model, p = trial.model, {**trial.model.trainable.views(trial.w), **trial.buffers}
    shape = list(model.scores(p, model.features(p, trial.x)).shape)
    require(shape == [ROWS, classes], f"scores have shape {shape}, expected {[ROWS, classes]}: rows, classes")
    head = list(model.trainable.shapes.get(model.head, ()))
    wrong = f"head '{model.head}' has shape {head}, expected [{classes}, ...]: classes, features"
    require(head[:1] == [classes], wrong)


def _again(trial: Trial) -> None:
    first, second = trial.losses(trial.w), trial.losses(trial.w)
    require(torch.equal(first, second), "two calls gave two losses; the model keeps or draws something")


def _apart(trial: Trial) -> None:
    alone = torch.cat([trial.losses(trial.w, slice(i, i + 1)) for i in range(ROWS)])
    same = torch.allclose(trial.losses(trial.w), alone, rtol=TOLERANCE, atol=TOLERANCE)
    require(same, "a row alone has another loss than among others; batch normalisation does that")


def _gradient(trial: Trial) -> None:
    w = trial.w.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(trial.losses(w).mean(), w)
    rng = np.random.default_rng(2)
    wrong = []
    with torch.no_grad():
        for _ in range(DIRECTIONS):
            way = torch.as_tensor(rng.standard_normal(len(trial.w)), dtype=trial.w.dtype)
            way /= way.norm()
            up, down = (trial.losses(trial.w + sign * STEP * way).mean() for sign in (1, -1))
            wrong.append(float(abs((up - down) / (2 * STEP) - way @ gradient) / gradient.norm()))
    require(
        sorted(wrong)[DIRECTIONS // 2] <= TOLERANCE,
        f"along {DIRECTIONS} random directions the slope differs by up to {max(wrong):.1e} of the gradient",
    )


def _precision(double: Trial, single: Trial) -> None:
    apart = float((double.losses(double.w) - single.losses(single.w)).abs().max())
    scale = float(double.losses(double.w).abs().max())
    require(apart <= TOLERANCE * max(scale, 1.0), f"losses are {apart:.1e} apart")


def _stacks(trial: Trial) -> None:
    try:
        losses = torch.vmap(trial.losses)(trial.w.expand(2, -1).contiguous())
    except RuntimeError as error:
        raise Skipped(f"torch.vmap refuses the model ({reason(error)})") from None
    same = torch.allclose(losses[0], trial.losses(trial.w), rtol=TOLERANCE, atol=TOLERANCE)
    require(same, "a stacked model has other losses than the model alone")
