"""Bytes a round, by what travels: the communication costs that the papers state fall out of a run."""

from __future__ import annotations

from typing import Any

import pytest

from fedcore.execution.runner import run

CLIENTS, ROUNDS, FEATURES = 5, 3, 16
VECTORS = {
    "fedavg": (1, 1),
    "fedprox": (1, 1),
    "moon": (1, 1),
    "fednova": (1, 1),
    "qfedavg": (1, 1),
    "fedavgm": (1, 1),
    "slowmo": (1, 1),
    "fedyogi": (1, 1),
    "prox_adam": (1, 1),
    "nova_adagrad": (1, 1),
    "scaffold": (2, 2),
    "scaf_yogi": (2, 2),
    "feddc": (2, 2),
    "fedadc": (2, 1),
    "mime": (3, 2),
}


def ran(
    spec: dict[str, Any],
    algorithm: dict[str, Any],
    dtype: str = "float32",
    clients: int = CLIENTS,
    fraction: float = 1.0,
) -> Any:
    spec = {**spec, "algorithm": algorithm, "dtype": dtype, "partition": {"name": "iid", "clients": clients}}
    spec["training"] = {**spec["training"], "rounds": ROUNDS}
    spec["participation"] = {"fraction": fraction}
    return run(spec)


def per_round(result: Any, key: str) -> list[float]:
    return [row[key] for row in result.rows]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", VECTORS)
def test_vectors_as_large_as_the_model(name: str, dtype: str, spec: dict[str, Any]) -> None:
    result = ran(spec, {"name": name}, dtype)
    model = result.summary["parameters"] * (4 if dtype == "float32" else 8)
    down, up = VECTORS[name]
    assert per_round(result, "bytes_down") == [0] + [CLIENTS * down * model] * ROUNDS
    assert per_round(result, "bytes_up") == [0] + [CLIENTS * up * model] * ROUNDS
    assert result.summary["bytes_down"] == ROUNDS * CLIENTS * down * model


@pytest.mark.parametrize(
    ("algorithm", "vectors"),
    [
        ({"name": "mime", "lite": True}, (2, 2)),
        ({"name": "fedyogi", "momentum_in_local": 0.5}, (2, 1)),
        ({"name": "scaf_yogi", "momentum_in_local": 0.5}, (3, 2)),
    ],
)
def test_options_that_send_more_or_less(
    algorithm: dict[str, Any], vectors: tuple[int, int], spec: dict[str, Any]
) -> None:
    result = ran(spec, algorithm)
    model = result.summary["parameters"] * 4
    assert per_round(result, "bytes_down")[1:] == [CLIENTS * vectors[0] * model] * ROUNDS
    assert per_round(result, "bytes_up")[1:] == [CLIENTS * vectors[1] * model] * ROUNDS


def test_vrl_sgd_sends_the_mean_at_once_and_never_twice(spec: dict[str, Any]) -> None:
    """One model a round each way, as in local SGD, and the start besides."""
    result = ran(spec, {"name": "vrl_sgd"})
    model = result.summary["parameters"] * 4
    assert per_round(result, "bytes_down") == [0, 2 * CLIENTS * model] + [CLIENTS * model] * (ROUNDS - 1)
    assert per_round(result, "bytes_up") == [0] + [CLIENTS * model] * ROUNDS


def test_only_the_cohort_sends_and_receives(spec: dict[str, Any]) -> None:
    spec |= {"algorithm": {"name": "scaffold"}, "participation": {"cohorts": [[0, 1], [2], [0, 3, 4]]}}
    spec["training"]["rounds"] = ROUNDS
    result = run(spec)
    model = result.summary["parameters"] * 4
    assert per_round(result, "bytes_up") == [0, 4 * model, 2 * model, 6 * model]


@pytest.mark.parametrize("clients", [4, 8])
def test_deltas_cost_n_squared_in_rfedavg_and_n_in_its_plus(clients: int, spec: dict[str, Any]) -> None:
    """rFedAvg, Table III and Section IV-C: a client gets N deltas, or (+) the mean of the others'."""
    delta = FEATURES * 4
    result = ran(spec, {"name": "rfedavg"}, clients=clients)
    model = result.summary["parameters"] * 4
    beyond = [bytes_ - clients * model for bytes_ in per_round(result, "bytes_down")[2:]]
    assert beyond == [clients**2 * delta] * (ROUNDS - 1)
    assert per_round(result, "bytes_up")[1:] == [clients * (model + delta)] * ROUNDS

    plus = ran(spec, {"name": "rfedavg_plus"}, clients=clients)
    beyond = [bytes_ - clients * model for bytes_ in per_round(plus, "bytes_down")[2:]]
    assert beyond == [clients * delta] * (ROUNDS - 1)
    assert per_round(plus, "bytes_up")[1:] == [clients * (model + delta)] * ROUNDS


@pytest.mark.parametrize(("variant", "algorithm"), [("paper", {"deltas_of": "cohort"}), ("released", {})])
def test_deltas_of_the_rounds_clients_cost_the_cohort_squared(
    spec: dict[str, Any], variant: str, algorithm: dict[str, str]
) -> None:
    """rFedAvg, Table III, cross-device: 100 vectors a client where 100 of 500 clients take part."""
    with_variant = {**spec, "variant": variant}
    result = ran(with_variant, {"name": "rfedavg", **algorithm}, clients=8, fraction=0.5)
    model, delta = result.summary["parameters"] * 4, FEATURES * 4
    assert per_round(result, "bytes_down")[2:] == [4 * (model + 4 * delta)] * (ROUNDS - 1)


def test_deltas_that_start_at_zero_cost_nothing_beforehand(spec: dict[str, Any]) -> None:
    default = ran(spec, {"name": "rfedavg"})
    zero = ran(spec, {"name": "rfedavg", "delta_start": "zero"})
    model, delta = default.summary["parameters"] * 4, FEATURES * 4
    assert default.rows[0]["bytes_up"] == CLIENTS * delta
    assert default.rows[0]["bytes_down"] == CLIENTS * model
    assert zero.rows[0]["bytes_up"] == zero.rows[0]["bytes_down"] == 0
    assert zero.rows[1]["bytes_down"] == CLIENTS * (model + CLIENTS * delta)


def test_scores_of_the_first_model_are_sent_before_the_first_round(spec: dict[str, Any]) -> None:
    for variant, scored, clients in (
        ("paper", None, 0),
        ("paper", True, CLIENTS),
        ("released", None, CLIENTS),
    ):
        algorithm = {"name": "radfed_i", "redistributions": 2, "scored_start": scored}
        result = ran({**spec, "variant": variant}, algorithm)
        assert result.rows[0]["bytes_up"] == clients * 4
        assert result.rows[0]["bytes_down"] == clients * result.summary["parameters"] * 4


@pytest.mark.parametrize(
    ("density", "rows", "down"), [("gaussian", 2, CLIENTS * 2 * FEATURES + CLIENTS), ("mean", 1, FEATURES)]
)
def test_densities_are_sent_before_the_first_round_and_in_each(
    density: str, rows: int, down: int, spec: dict[str, Any]
) -> None:
    """A Gaussian is a mean and a variance of each feature; the mixture is all of them with their weights."""
    result = ran(spec, {"name": "fedavgr", "density": density})
    model = result.summary["parameters"] * 4
    up = rows * FEATURES * 4
    assert per_round(result, "bytes_up") == [CLIENTS * up] + [CLIENTS * (model + up)] * ROUNDS
    first, *others = per_round(result, "bytes_down")
    assert first == CLIENTS * model
    assert others == [CLIENTS * 4 * down] + [CLIENTS * (model + 4 * down)] * (ROUNDS - 1), (
        "all clients hold the first model already"
    )
