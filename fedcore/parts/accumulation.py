"""How a local optimizer accumulates gradients: the vector a_k of FedNova."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from fedcore.parts import Run, State
from fedcore.parts.steps import learning_rates


def coefficients(rates: Sequence[float], momentum: float = 0.0, mu: float = 0.0) -> list[float]:
    """Return a with w_0 - w_tau = rates[0] * sum_j a_j g_j, one entry a local step.

    The steps are v <- momentum v + g_j + mu (w - w_0), w <- w - rates[j] v from v = 0, which is linear in
    the gradients; one pass backwards through it (its adjoint) gives every a_j. Plain SGD: 1. Heavy ball: a_j
    = (1 - momentum^(tau - j)) / (1 - momentum). Proximal: a_j = (1 - rate mu)^(tau - 1 - j). Both together,
    and rates that change within the round, have no shorter form. Wang et al. (FedNova).

    Args:
        rates: the learning rate of each step.
        momentum: the heavy ball's factor.
        mu: weight of the proximal term.
    """
    found: list[float] = []
    from_position, from_velocity = 1.0, 0.0
    for rate in reversed(rates):
        coefficient = from_velocity + from_position * rate / rates[0]
        found.append(coefficient)
        from_position -= mu * rates[0] * coefficient
        from_velocity = momentum * coefficient
    return found[::-1]


def norm(run: Run, state: State, client: int, mu: float = 0.0) -> float:
    """Return ||a_k||_1 of one client's coming local steps, with the run's local optimizer."""
    rates = tuple(learning_rates(run, state, client))
    return _norm(rates, run.spec.training.momentum or 0.0, mu)


@lru_cache(maxsize=4096)
def _norm(rates: tuple[float, ...], momentum: float, mu: float) -> float:
    return sum(map(abs, coefficients(rates, momentum, mu)))
