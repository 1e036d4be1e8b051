"""Local optimizers: one in-place step on a flat parameter vector."""

from __future__ import annotations

from collections.abc import Callable

from fedcore.base.lazy import Tensor, torch
from fedcore.spec import LrSchedule, Training

RMSPROP_SMOOTHING = 0.99
RMSPROP_EPSILON = 1e-8


def stepper(training: Training, w: Tensor) -> Callable[[Tensor, float], None]:
    """Return ``step(g, lr)``, which moves ``w`` [..., d] in place along ``g`` (and may overwrite ``g``).

    Momentum is the heavy ball v <- rho v + g, w <- w - lr v, with v = 0 at the start of every round;
    weight decay adds ``weight_decay * w`` to the gradient.
    """
    decay = training.weight_decay
    rho = training.momentum or 0.0

    def decayed(g: Tensor) -> Tensor:
        return g.add_(w, alpha=decay) if decay else g

    if training.optimizer == "rmsprop":
        square = torch.zeros_like(w)
        velocity = torch.zeros_like(w) if rho else None

        def rmsprop(g: Tensor, lr: float) -> None:
            g = decayed(g)
            square.mul_(RMSPROP_SMOOTHING).addcmul_(g, g, value=1 - RMSPROP_SMOOTHING)
            if velocity is None:
                w.addcdiv_(g, square.sqrt().add_(RMSPROP_EPSILON), value=-lr)
            else:
                velocity.mul_(rho).addcdiv_(g, square.sqrt().add_(RMSPROP_EPSILON))
                w.add_(velocity, alpha=-lr)

        return rmsprop
    if rho:
        buffer = torch.zeros_like(w)

        def heavy_ball(g: Tensor, lr: float) -> None:
            buffer.mul_(rho).add_(decayed(g))
            w.add_(buffer, alpha=-lr)

        return heavy_ball

    def sgd(g: Tensor, lr: float) -> None:
        w.add_(decayed(g), alpha=-lr)

    return sgd


def rate(lr: float, schedule: LrSchedule, round: int, step: int) -> float:
    """Return the local learning rate in a round (from 1) at a gradient step of the run (from 0)."""
    if schedule.name == "milestones":
        passed = [at for at in schedule.milestones if at <= round]
        return schedule.milestones[max(passed)] if passed else lr
    if schedule.name == "inverse_time":
        return lr / (1.0 + step / schedule.offset)
    return lr
