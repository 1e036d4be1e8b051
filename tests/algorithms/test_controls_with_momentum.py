"""SCAFFOLD's second option under local momentum, on the clients f1 = w^2 / 2 and f2 = 5 (w - 1)^2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fedcore.base.errors import SpecError
from fedcore.execution.runner import Settings, prepare
from fedcore.execution.simulation import simulate
from fedcore.parts import State
from fedcore.spec import parse

OTHERS = ({"name": "fedadc"}, {"name": "vrl_sgd"}, {"name": "feddc", "alpha": 0.1})
SLOPES: tuple[Callable[[float], float], ...] = (lambda w: w, lambda w: 10 * (w - 1))
OPTIMUM = 10 / 11


def specification(divisor: str, rounds: int, name: str = "scaffold", **training: Any) -> dict[str, Any]:
    given = {"rounds": rounds, "local_steps": 4, "batch_size": "full", "lr": 0.02, "momentum": 0.9}
    return {
        "data": {"name": "quadratics"},
        "model": {"name": "scalar_quadratic"},
        "algorithm": {"name": name, "option": 2, "divisor": divisor},
        "training": {**given, **training},
        "dtype": "float64",
    }


def after(spec: dict[str, Any]) -> State:
    run, _, _ = prepare(parse(spec), Settings())
    state = State(round=0, models=run.problem.start.clone()[None])
    for _ in simulate(run, state):
        pass
    return state


def by_hand(length: float, rounds: int) -> tuple[float, list[float]]:
    """Return the model and the controls: heavy ball from 0 along g - c_k + c, changes over .02 ``length``."""
    w, c, controls = 0.0, 0.0, [0.0, 0.0]
    for _ in range(rounds):
        ends, new = [], []
        for slope, control in zip(SLOPES, controls, strict=True):
            at, velocity = w, 0.0
            for _ in range(4):
                velocity = 0.9 * velocity + slope(at) - control + c
                at -= 0.02 * velocity
            ends.append(at)
            new.append(control - c + (w - at) / (0.02 * length))
        c += sum(b - a for a, b in zip(controls, new, strict=True)) / 2
        w, controls = sum(ends) / 2, new
    return w, controls


@pytest.mark.parametrize(("divisor", "length"), [("steps", 4.0), ("norm", 1 + 1.9 + 2.71 + 3.439)])
def test_the_change_is_divided_as_asked_for(divisor: str, length: float) -> None:
    for rounds in (1, 3):
        state = after(specification(divisor, rounds))
        w, controls = by_hand(length, rounds)
        assert float(state.model[0]) == pytest.approx(w, rel=1e-12)
        kept = [float(state.clients["control"][client][0]) for client in (0, 1)]
        assert kept == pytest.approx(controls, rel=1e-12)


def test_a_constant_gradient_is_its_own_control_with_the_norm_alone() -> None:
    """The sums of weights are 1, 1.9, 2.71 and 3.439: 9.049 over four steps, 2.26 a step."""
    small: dict[str, Any] = {"lr": 1e-9}  # w stays at 0, where the slopes are 0 and -10
    per_step, norm = (
        float(after(specification(divisor, 1, **small)).clients["control"][1][0])
        for divisor in ("steps", "norm")
    )
    assert per_step == pytest.approx(-10 * 9.049 / 4, rel=1e-6)
    assert norm == pytest.approx(-10, rel=1e-6)


@pytest.mark.parametrize("divisor", ["steps", "norm"])
def test_rates_that_change_in_the_round_count_each_by_itself(divisor: str) -> None:
    falling = {"name": "inverse_time", "offset": 1.0}
    by_step: dict[str, Any] = {"lr": 1e-9, "momentum": 0.0, "lr_schedule": falling}
    control = after(specification(divisor, 1, **by_step)).clients["control"][1]
    assert float(control[0]) == pytest.approx(-10, rel=1e-6)


def test_controls_that_are_gradients_lead_to_the_optimum() -> None:
    assert float(after(specification("norm", 200)).model[0]) == pytest.approx(OPTIMUM, abs=1e-9)
    long: dict[str, Any] = {"local_steps": 10, "lr": 0.01}
    assert float(after(specification("norm", 300, **long)).model[0]) == pytest.approx(OPTIMUM, abs=1e-9)
    assert abs(float(after(specification("steps", 300, **long)).model[0])) > 1e6, "it diverges"


def test_the_divisor_is_left_out_of_the_specification_and_goes_with_option_2() -> None:
    for name in ("scaffold", "scaf_adam"):
        spec = specification("steps", 1, name)
        assert "divisor" not in parse(spec).resolved()["algorithm"]
        message = r"^algorithm\.divisor: got 'norm' with option 1, expected option 2$"
        with pytest.raises(SpecError, match=message):
            parse({**spec, "algorithm": {"name": name, "option": 1, "divisor": "norm"}})
        with pytest.raises(SpecError, match=r"got 'rmsprop', divisor 'norm' expects sgd or momentum$"):
            parse(specification("norm", 1, name, optimizer="rmsprop"))


@pytest.mark.parametrize("algorithm", OTHERS, ids=lambda algorithm: algorithm["name"])
def test_other_corrections_settle_with_momentum_too(algorithm: dict[str, Any]) -> None:
    spec = specification("norm", 200, lr=0.01) | {"algorithm": algorithm}
    model = float(after(spec).model)
    assert abs(model - OPTIMUM) < 0.2, "divided by the number of steps, they leave the finite numbers"
