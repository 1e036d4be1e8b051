"""Two scalar clients, f1 = w^2 / 2 and f2 = 5 (w - 1)^2: fixed points that are known in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import expected

from fedcore.execution.runner import run

Q = expected()["Q"]
SERVERS = {
    "avgm": {"name": "fedavgm", "beta": 0.7, "server_lr": 0.5},
    "adagrad": {"name": "fedadagrad", "server_lr": 0.2},
    "adam": {"name": "fedadam", "server_lr": 0.05},
    "yogi": {"name": "fedyogi", "server_lr": 0.05},
}


def final(algorithm: dict[str, Any], rounds: int, steps: Any = 10) -> float:
    """Return the scalar model after some rounds of full gradients at rate .02, from 0."""
    result = run(
        {
            "data": {"name": "quadratics"},
            "model": {"name": "scalar_quadratic"},
            "algorithm": algorithm,
            "training": {"rounds": rounds, "local_steps": steps, "batch_size": "full", "lr": 0.02},
            "evaluation": {"every": rounds},
            "dtype": "float64",
        }
    )
    return float(result.parameters["w"][0])


@pytest.mark.parametrize(
    ("case", "algorithm", "steps", "rounds"),
    [
        ("FedAvg", {"name": "fedavg"}, 10, 60),
        ("FedProx mu=1", {"name": "fedprox", "mu": 1}, 10, 60),
        ("FedProx mu=10", {"name": "fedprox", "mu": 10}, 10, 60),
        ("FedAvg steps (40,5)", {"name": "fedavg"}, [40, 5], 60),
        ("FedNova steps (40,5)", {"name": "fednova"}, [40, 5], 60),
        ("FedNova steps (10,10)", {"name": "fednova"}, 10, 60),
        ("SCAFFOLD-I", {"name": "scaffold", "option": 1}, 10, 120),
        ("SCAFFOLD-II", {"name": "scaffold", "option": 2}, 10, 120),
        ("q-FedAvg q=0", {"name": "qfedavg", "q": 0}, 10, 60),
        ("q-FedAvg q=1", {"name": "qfedavg", "q": 1}, 10, 250),
        pytest.param("q-FedAvg q=5", {"name": "qfedavg", "q": 5}, 10, 500, marks=pytest.mark.slow),
        ("optimum", {"name": "vrl_sgd"}, 10, 120),
        ("optimum", {"name": "feddc", "alpha": 0.1}, 10, 120),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_fixed_points(case: str, algorithm: dict[str, Any], steps: Any, rounds: int) -> None:
    value = Q[case] if isinstance(Q[case], float) else Q[case]["iterated_T"]
    assert final(algorithm, rounds, steps) == pytest.approx(value, rel=0, abs=1e-8)


@pytest.mark.parametrize("option", [1, 2])
def test_scaffold_with_unequal_steps_after_exactly_200_rounds(option: int) -> None:
    """The first option truly diverges: its controls are one round old."""
    value = Q[f"SCAFFOLD-{'I' * option} steps (40,5)"]["iterated_T"]
    model = final({"name": "scaffold", "option": option}, 200, [40, 5])
    assert model == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    "server", [name if name == "adam" else pytest.param(name, marks=pytest.mark.slow) for name in SERVERS]
)
def test_server_optimizers_share_fedavgs_fixed_point(server: str) -> None:
    assert final(SERVERS[server], 400) == pytest.approx(Q["FedAvg"]["closed_form"], rel=0, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_server_optimizers_after_5000_rounds(server: str) -> None:
    value = Q[f"server {server} T=5000"]["iterated_T"]
    assert final(SERVERS[server], 5000) == pytest.approx(value, rel=0, abs=1e-9)


def test_quickly_falling_weights_of_fairness() -> None:
    """q = .1 lies between FedAvg's fixed point and that of q = 1."""
    assert final({"name": "qfedavg", "q": 0.1}, 200) == pytest.approx(0.81947, abs=5e-6)


def test_momentum_in_local_steps_moves_the_fixed_point_like_a_smaller_rate() -> None:
    """At rest the server's momentum is zero, which leaves local steps along (1 - w) g: less drift."""

    def fixed(rate: float) -> float:
        kept = np.array([(1 - rate) ** 10, (1 - 10 * rate) ** 10])
        return float((1 - kept[1]) / (2 - kept.sum()))

    model = final({**SERVERS["adam"], "momentum_in_local": 0.5}, 600)
    assert model == pytest.approx(fixed(0.01), rel=0, abs=1e-8)
    assert final({"name": "fedavg"}, 60) == pytest.approx(fixed(0.02), rel=0, abs=1e-8)
