"""rFedAvg, rFedAvg+ and q-FedAvg as rFedAvg's authors' code runs them, and deltas of a round's clients alone.

Clients hold one row each, so a batch is a client's data. phi = W x + b with two outputs, whose second is the
first's negative throughout; from W = b = 0 the first round's regulariser is 0, its loss ln 2.
"""

from __future__ import annotations

from math import exp, isnan, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedcore import models
from fedcore.engines.forward import features
from fedcore.execution.runner import Settings, prepare, run
from fedcore.execution.simulation import simulate
from fedcore.parts import State
from fedcore.spec import parse

Values = dict[str, Any]
ROWS = ((1.0, 0), (2.0, 1), (-3.0, 0))


def made(folder: Path, algorithm: Values, rounds: int, rows: Any = ROWS[:2], **more: Any) -> Values:
    """Return a run on clients with one row (x, y) each, a step of length 1 a round, from zero."""
    (folder / "clients").mkdir(parents=True, exist_ok=True)
    for client, (x, y) in enumerate(rows):
        np.savez(folder / f"clients/{client}.npz", x=np.array([[x]]), y=np.array([y]))
    np.savez(folder / "test.npz", x=np.array([[1.0], [-1.0]]), y=np.array([0, 1]))
    return {
        "data": {"name": "npz", "path": str(folder)},
        "model": {"name": "linear_outputs", "init": "zeros"},
        "algorithm": algorithm,
        "training": {"rounds": rounds, "local_steps": 1, "batch_size": "full", "lr": 1.0},
        "dtype": "float64",
        "variant": "released",
        **more,
    }


def first_output(spec: Values) -> tuple[float, float]:
    """Return the final W and b of the first output."""
    parameters = run(spec).parameters
    assert np.allclose(parameters["phi.weight"][0], -parameters["phi.weight"][1], atol=1e-14)
    return float(parameters["phi.weight"][0, 0]), float(parameters["phi.bias"][0])


def test_deltas_come_from_each_clients_own_trained_model(tmp_path: Path) -> None:
    """Round 1 leaves client 0 at W = b = .5 and client 1 at W = -1, b = -.5, the mean at W = -.25, b = 0.

    So delta_0 = 1 and delta_1 = -2.5, and both clients start round 2 with phi = -.25 and -.5.
    """
    lam = 0.25
    slope_0 = 1 / (1 + exp(0.5)) - 1 + 2 * lam * (-0.25 - (-2.5))  # client 0's slope in phi: x = 1, label 0
    slope_1 = 1 / (1 + exp(1.0)) + 2 * lam * (-0.5 - 1)  # client 1's: x = 2, label 1
    expected = -0.25 - (slope_0 * 1 + slope_1 * 2) / 2, -(slope_0 + slope_1) / 2
    assert expected == pytest.approx((-0.0202117558, -0.0107410451), abs=1e-10)
    output = first_output(made(tmp_path, {"name": "rfedavg", "lambda": lam}, 2))
    assert output == pytest.approx(expected, abs=1e-12)


def test_deltas_of_the_plus_come_from_the_current_global_model(tmp_path: Path) -> None:
    """Round 2 starts at W = -.25, b = 0: deltas are -.25 and -.5, the target of both their mean, -.375."""
    lam = 0.25
    slope_0 = 1 / (1 + exp(0.5)) - 1 + 2 * lam * (-0.25 + 0.375)
    slope_1 = 1 / (1 + exp(1.0)) + 2 * lam * (-0.5 + 0.375)
    expected = -0.25 - (slope_0 * 1 + slope_1 * 2) / 2, -(slope_0 + slope_1) / 2
    assert expected == pytest.approx((-0.1764617558, 0.1767589549), abs=1e-10)
    output = first_output(made(tmp_path, {"name": "rfedavg_plus", "lambda": lam}, 2))
    assert output == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("variant", "power"), [("released", 2), ("paper", 0)])
def test_the_norm_is_squared_and_of_the_scaled_change(tmp_path: Path, variant: str, power: int) -> None:
    """w - w_k has W, b = -.5, -.5 and 1, .5: squared norms over outputs 1 and 2.5. F = ln 2, q = 1, L = 3."""
    F, L = log(2), 3.0
    h = [F**power * L**2 * square + L * F for square in (1.0, 2.5)]
    expected = -F * L * (-0.5 + 1) / sum(h), -F * L * (-0.5 + 0.5) / sum(h)
    spec = made(tmp_path, {"name": "qfedavg", "q": 1.0, "lipschitz": L}, 1)
    assert first_output({**spec, "variant": variant}) == pytest.approx(expected, abs=1e-12)
    assert "lipschitz" not in parse({**spec, "algorithm": {"name": "qfedavg"}}).resolved()["algorithm"]


def states(spec: Values) -> Any:
    """Yield a run with its state, before the first round and after each."""
    prepared, _, _ = prepare(parse(spec), Settings())
    state = State(round=0, models=prepared.problem.start.clone()[None])
    for _ in simulate(prepared, state):
        yield prepared, state


def test_a_client_computes_delta_under_its_last_own_model_or_its_own_random_start(tmp_path: Path) -> None:
    cohorts = {"cohorts": [[0, 1], [1, 2], [0, 2]]}
    spec = made(tmp_path, {"name": "rfedavg", "lambda": 0.5}, 3, ROWS, participation=cohorts)
    kept: dict[int, Any] = {}
    for prepared, state in states({**spec, "model": {"name": "linear_outputs"}}):
        problem = prepared.problem
        if state.round == 0:
            assert not state.bytes_up, "nothing is sent before the first round"
            for client in range(3):
                rng = prepared.streams.get("own start", client=client)
                kept[client], _ = models.initialise(problem.model, "default", rng, torch.float64)
            assert not torch.equal(kept[0], kept[1])
            continue
        cohort = cohorts["cohorts"][state.round - 1]
        for client in range(3):
            expected = features(problem, kept[client], problem.clients[client].x)[0]
            absent = torch.zeros_like(expected)
            torch.testing.assert_close(
                state.server["delta"][client], expected if client in cohort else absent, rtol=0, atol=0
            )
        kept |= {client: state.clients["own_model"][client].clone() for client in cohort}


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("name", ["rfedavg", "rfedavg_plus"])
def test_clients_that_do_not_take_part_may_be_left_out(tmp_path: Path, name: str, variant: str) -> None:
    def result(deltas_of: str, third: float) -> tuple[float, ...]:
        algorithm = {"name": name, "lambda": 0.5, "deltas_of": deltas_of}
        rows, cohorts = (*ROWS[:2], (third, 0)), {"cohorts": [[0, 1]]}
        spec = made(tmp_path, algorithm, 3, rows, participation=cohorts, variant=variant)
        models = {"name": "mlp", "hidden": [3]}
        return tuple(float(array.sum()) for array in run({**spec, "model": models}).parameters.values())

    assert result("cohort", 1.0) == result("cohort", -5.0)
    assert (result("all", 1.0) == result("all", -5.0)) == (variant == "released")


def test_all_clients_deltas_are_left_out_of_the_specification(tmp_path: Path) -> None:
    spec = parse(made(tmp_path, {"name": "rfedavg"}, 1))
    assert "deltas_of" not in spec.resolved()["algorithm"]
    of_cohort = parse(made(tmp_path, {"name": "rfedavg", "deltas_of": "cohort"}, 1))
    assert parse(of_cohort.resolved()).sha256() == of_cohort.sha256() != spec.sha256()


def test_released_scaffold_is_fedavg_with_a_server_rate(tmp_path: Path) -> None:
    whole = first_output(made(tmp_path, {"name": "fedavg", "averaging": "uniform"}, 1))
    half = first_output(made(tmp_path, {"name": "scaffold", "server_lr": 0.5}, 1))
    assert half == pytest.approx((whole[0] / 2, whole[1] / 2)), "from zero, half of FedAvg's step"


def test_a_lone_client_has_no_others(tmp_path: Path) -> None:
    alone = {"participation": {"cohorts": [[0]]}}
    for name in ("rfedavg", "rfedavg_plus"):
        spec = made(tmp_path, {"name": name, "lambda": 5.0}, 2, **alone)
        plain = made(tmp_path, {"name": "fedavg"}, 2, **alone)
        assert first_output(spec) == first_output(plain)


def test_a_delta_is_the_mean_of_one_shuffled_batch_and_history_has_their_spread(tmp_path: Path) -> None:
    (tmp_path / "clients").mkdir()
    rng = np.random.default_rng(0)
    for client in range(3):
        np.savez(tmp_path / f"clients/{client}.npz", x=rng.normal(size=(5, 2)), y=np.arange(5) % 2)
    np.savez(tmp_path / "test.npz", x=rng.normal(size=(2, 2)), y=np.array([0, 1]))
    spec = {
        "data": {"name": "npz", "path": str(tmp_path)},
        "model": {"name": "linear_outputs"},
        "algorithm": {"name": "rfedavg_plus", "lambda": 0.5},
        "training": {"rounds": 2, "local_steps": 1, "batch_size": 2, "lr": 0.1},
        "participation": {"cohorts": [[0, 1], [1, 2]]},
        "dtype": "float64",
        "variant": "released",
    }
    before: Any = None
    for prepared, state in states(spec):
        problem = prepared.problem
        if state.round == 0:
            assert isnan(state.history[0]["delta_spread"])
        else:
            cohort = spec["participation"]["cohorts"][state.round - 1]  # type: ignore[index]
            expected = []
            for client in cohort:
                order = prepared.streams.get("delta batch", state.round - 1, client).permutation(5)
                rows = problem.clients[client].x[torch.from_numpy(order[:2])]
                expected.append(features(problem, before, rows).mean(dim=0))
                assert torch.equal(state.server["delta"][client], expected[-1])
            spread = float((expected[0] - expected[1]).norm()) / 2
            assert state.history[-1]["delta_spread"] == pytest.approx(spread, rel=1e-12)
        before = state.model.clone()


@pytest.mark.parametrize(("batch", "rows"), [(2, 2), ("full", 5), (9, 5)])
def test_noise_on_a_delta_is_divided_by_the_rows_of_a_batch(tmp_path: Path, batch: Any, rows: int) -> None:
    """rFedAvg, Section VI-B8: deviation sigma C_0 / L, drawn anew for each client and round."""
    (tmp_path / "clients").mkdir()
    rng = np.random.default_rng(1)
    for client in range(2):
        np.savez(tmp_path / f"clients/{client}.npz", x=rng.normal(size=(5, 2)), y=np.arange(5) % 2)
    np.savez(tmp_path / "test.npz", x=rng.normal(size=(2, 2)), y=np.array([0, 1]))
    deltas = []
    for sigma in (0.0, 3.0):
        spec = {
            "data": {"name": "npz", "path": str(tmp_path)},
            "model": {"name": "linear_outputs"},
            "algorithm": {"name": "rfedavg_plus", "lambda": 0.0, "noise_sigma": sigma},
            "training": {"rounds": 1, "local_steps": 1, "batch_size": batch, "lr": 0.1},
            "dtype": "float64",
        }
        deltas.append([state.server["delta"].clone() for _, state in states(spec)])
        streams = next(prepared.streams for prepared, _ in states(spec))
    for place, (plain, noisy) in enumerate(zip(*deltas, strict=True)):
        drawn = [streams.get("delta noise", place - 1, client).standard_normal(2) for client in range(2)]
        np.testing.assert_allclose(noisy - plain, np.array(drawn) * 3.0 / rows, rtol=0, atol=1e-12)
