"""Parts of local training against what they are defined as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore.engines import Batch, Job
from fedcore.execution.runner import Settings, prepare, run
from fedcore.execution.simulation import advance
from fedcore.parts import Run, State
from fedcore.parts.steps import coefficient_sum, coefficients, learning_rates, make_task, number_of_steps
from fedcore.parts.update import BlendedMomentum
from fedcore.spec import parse

ORACLE = json.loads((Path(__file__).parents[1] / "oracle" / "expected.json").read_text())


def prepared(spec: dict[str, Any], algorithm: dict[str, Any], **training: Any) -> tuple[Run, State]:
    spec = {**spec, "algorithm": algorithm, "training": {**spec["training"], **training}, "dtype": "float64"}
    run, _, _ = prepare(parse(spec), Settings(device="cpu"))
    state = State(round=0, models=run.problem.start.clone().unsqueeze(0))
    for part in run.recipe.parts():
        part.start(run, state)
    return run, state


@pytest.mark.parametrize(("name", "value"), ORACLE["misc"]["nova_norm"].items())
def test_norms_of_momentum(name: str, value: float) -> None:
    steps, rho = (float(text.partition("=")[2]) for text in name.split(","))
    assert sum(coefficients([0.1] * int(steps), rho)) == pytest.approx(value, rel=1e-12)


def test_norm_of_forty_steps() -> None:
    assert sum(coefficients([0.02] * 40, 0.9)) == pytest.approx(311.3303, abs=5e-5)


def test_coefficients_of_the_proximal_term() -> None:
    assert coefficients([0.1] * 4, mu=2.0) == pytest.approx([0.8**3, 0.8**2, 0.8, 1.0])
    run, state = prepared(FLAT, {"name": "fednova"})  # three steps of 0.05: 0.25, -0.5 and 1
    assert coefficient_sum(run, state, 0, mu=30.0) == pytest.approx(1.75)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(0.01, 0.5), min_size=1, max_size=8),
    st.floats(0, 0.95),
    st.floats(0, 3),
)
def test_coefficients_are_the_response_to_single_gradients(rates: list[float], rho: float, mu: float) -> None:
    """a_j is how far the recursion moves if only the j-th gradient is one, in units of the first rate."""
    for j, coefficient in enumerate(coefficients(rates, rho, mu)):
        w = v = 0.0
        for step, rate in enumerate(rates):
            v = rho * v + (step == j) + mu * w
            w -= rate * v
        assert coefficient == pytest.approx(-w / rates[0], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_contrastive_gradient_is_the_derivative(seed: int, spec: dict[str, Any]) -> None:
    run, state = prepared(spec, {"name": "moon", "mu": 2.0, "temperature": 0.5})
    torch.manual_seed(seed)
    state.clients["previous"][1] = torch.randn_like(state.model)
    bound = run.recipe.objective[0].bind(run, state, Job(1, 0, 0, state.model))
    assert bound.feature_loss is not None
    assert bound.feature_gradient is not None
    x = run.problem.clients[1].x[:6]
    batch = Batch(x, torch.full((6,), 1 / 6, dtype=torch.float64))
    phi = torch.randn(6, 16, dtype=torch.float64)
    phi[2] = 0
    phi.requires_grad_()
    (expected,) = torch.autograd.grad(bound.loss(phi, batch), phi)
    gradient = bound.feature_gradient(phi.detach(), batch)
    rows = [0, 1, 3, 4, 5]
    torch.testing.assert_close(gradient[rows], expected[rows], rtol=1e-10, atol=1e-12)
    assert torch.isfinite(gradient).all()


def test_contrastive_loss_by_hand(spec: dict[str, Any]) -> None:
    """Cross-entropy of two cosine similarities over the temperature; the received model's is the right."""
    run, state = prepared(spec, {"name": "moon", "mu": 3.0, "temperature": 0.25})
    received, previous = state.model * 0.9 - 0.05, state.model * -0.5 + 0.1
    state.clients["previous"][0] = previous
    bound = run.recipe.objective[0].bind(run, state, Job(0, 0, 0, received))
    x = run.problem.clients[0].x[:4]
    phi = torch.linspace(-1, 1, 64, dtype=torch.float64).reshape(4, 16)
    batch = Batch(x, torch.full((4,), 0.25, dtype=torch.float64))
    views = run.problem.model.trainable.views
    near, far = (run.problem.model.features(views(w), x) for w in (received, previous))
    similarity = [torch.nn.functional.cosine_similarity(phi, other) / 0.25 for other in (near, far)]
    by_hand = 3.0 * torch.nn.functional.cross_entropy(torch.stack(similarity, 1), torch.zeros(4).long())
    assert bound.feature_loss is not None
    assert float(bound.loss(phi, batch)) == pytest.approx(float(by_hand), rel=1e-12)


def test_moon_s_previous_model_is_the_one_that_the_client_sent(spec: dict[str, Any]) -> None:
    """A client's first round has no previous model, so it trains as in FedAvg."""
    run, state = prepared(spec, {"name": "moon"})
    cohort = run.recipe.select.cohort(run, state)
    tasks = [make_task(run, state, Job(k, slot, 0, state.model)) for slot, k in enumerate(cohort)]
    uploads = run.engine.train(tasks)
    advance(run, state)
    assert tuple(state.clients["previous"]) == cohort
    for upload in uploads:
        assert torch.equal(state.clients["previous"][upload.client], upload.model)


@pytest.mark.parametrize("averaging", ["nk", "uniform"])
def test_mime_weighs_the_clients_gradients_as_their_models(averaging: str, spec: dict[str, Any]) -> None:
    """From zero, the momentum after a round is (1 - beta) c."""
    run, state = prepared(spec, {"name": "mime", "beta": 0.75, "averaging": averaging})
    cohort = run.recipe.select.cohort(run, state)
    assert len({run.problem.sizes[k] for k in cohort}) > 1
    gradients = [run.engine.full_gradient(state.model, run.problem.clients[k]).numpy() for k in cohort]
    weights = [run.problem.sizes[k] for k in cohort] if averaging == "nk" else None
    advance(run, state)
    expected = 0.25 * np.average(gradients, axis=0, weights=weights)
    np.testing.assert_allclose(state.server["momentum"].numpy(), expected, rtol=0, atol=1e-14)


FLAT = {
    "data": {"name": "quadratics", "curvatures": [1e-13, 1e-13], "centres": [0.0, 0.0]},
    "model": {"name": "scalar_quadratic"},
    "training": {"rounds": 1, "local_steps": [3, 8], "batch_size": "full", "lr": 0.05},
}


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("client", [0, 1])
def test_blended_momentum_alone_moves_a_client_by_its_share(momentum: float, client: int) -> None:
    """Without gradients a client moves by weight * m, whatever its steps, rate and own momentum."""
    run, state = prepared(FLAT, {"name": "fedadam", "momentum_in_local": 0.3}, momentum=momentum)
    state.optimizer_state[0] = {"m": torch.tensor([0.7], dtype=torch.float64)}
    (upload,) = run.engine.train([make_task(run, state, Job(client, 0, 0, state.model))])
    np.testing.assert_allclose(upload.change.numpy(), 0.3 * 0.7, rtol=1e-9)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("client", [0, 1])
def test_embedded_momentum_alone_moves_a_client_by_its_share(momentum: float, client: int) -> None:
    """FedADC spreads beta_local m over a client's steps: it moves by -eta beta_local m."""
    run, state = prepared(FLAT, {"name": "fedadc", "beta": 0.8, "beta_local": 0.6}, momentum=momentum)
    state.optimizer_state[0] = {"m": torch.tensor([0.7], dtype=torch.float64)}
    assert number_of_steps(run, client) == (3, 8)[client]
    (upload,) = run.engine.train([make_task(run, state, Job(client, 0, 0, state.model))])
    np.testing.assert_allclose(upload.change.numpy(), -0.05 * 0.6 * 0.7, rtol=1e-9)


def test_blended_momentum_is_shared_by_the_clients_that_train_a_model_in_turn() -> None:
    algorithm = {"name": "radfed_a", "redistributions": 5, "momentum_in_local": 0.3}
    run, state = prepared(FLAT, algorithm)
    state.optimizer_state[0] = {"m": torch.tensor([0.7], dtype=torch.float64)}
    (upload,) = run.engine.train([make_task(run, state, Job(0, 0, 0, state.model))])
    np.testing.assert_allclose(5 * upload.change.numpy(), 0.3 * 0.7, rtol=1e-9)


def test_a_blend_of_a_blend_has_the_product_of_their_shares_of_the_gradient() -> None:
    run, state = prepared(FLAT, {"name": "fedavg"})
    rule = BlendedMomentum(BlendedMomentum(run.recipe.update, 0.5), 0.5)
    assert rule.direction(run, state, Job(0, 0, 0, state.model)).scale == 0.25


def test_rates_change_at_the_round_named_and_decay_over_all_steps_of_a_run() -> None:
    """Client 0 takes three steps a round, client 1 eight."""
    milestones = {"name": "milestones", "milestones": {3: 0.01}}
    run, state = prepared(FLAT, {"name": "fedavg"}, lr_schedule=milestones)
    rates = []
    for state.round in range(4):
        rates.append(learning_rates(run, state, 0))
    assert rates == [[0.05] * 3, [0.05] * 3, [0.01] * 3, [0.01] * 3]
    run, state = prepared(FLAT, {"name": "fedavg"}, lr_schedule={"name": "inverse_time", "offset": 4.0})
    for state.round in range(2):
        for client, steps in enumerate((3, 8)):
            before = steps * state.round
            expected = [0.05 / (1 + (before + step) / 4) for step in range(steps)]
            assert learning_rates(run, state, client) == pytest.approx(expected)
    (upload,) = run.engine.train([make_task(run, state, Job(0, 0, 0, state.model))])
    assert upload.lr == learning_rates(run, state, 0)[0]


def test_slow_momentum_is_in_units_of_the_rate_of_the_first_client_with_rows() -> None:
    """Client 0 has no rows; client 1 does two steps a round, so round 2 begins at lr / (1 + 2 / 4)."""
    spec = FLAT | {"partition": {"name": "file", "rows": [[], [0, 1]]}}
    rates = {"lr": 0.3, "lr_schedule": {"name": "inverse_time", "offset": 4.0}}
    lengths = {"local_steps": None, "local_epochs": 1, "batch_size": 1}
    run, state = prepared(spec, {"name": "slowmo", "beta": 0.5}, **rates, **lengths)
    assert number_of_steps(run, 1) == 2
    state.round, change = 1, torch.tensor([0.6], dtype=torch.float64)
    model, past = run.recipe.server.step(run, state, state.model, change, {"m": torch.ones_like(change)})
    assert past["m"].tolist() == pytest.approx([0.5 - 0.6 / 0.2])
    assert (model - state.model).tolist() == pytest.approx([0.2 * 2.5])


@pytest.mark.parametrize(("keys", "kept"), [({}, 0.0), ({"beta_local": 0.3}, 0.5), ({"beta_local": 0}, 0.8)])
def test_the_server_s_momentum_leaves_out_what_clients_followed(keys: dict[str, Any], kept: float) -> None:
    """FedADC: m <- (beta - beta_local) m - D / gamma; clients follow all of it unless told otherwise."""
    run, state = prepared(FLAT, {"name": "fedadc", "beta": 0.8, **keys})
    change = torch.tensor([0.1], dtype=torch.float64)
    _, past = run.recipe.server.step(run, state, state.model, change, {"m": torch.ones_like(change)})
    assert past["m"].tolist() == pytest.approx([kept - 0.1 / 0.05])


def by_hand_feddc(alpha: float, rounds: int) -> float:
    """FedDC on two quadratics in plain numbers: drift h, controls c, three local steps at rate .05."""
    h, centre, rate, steps = (1.0, 10.0), (0.0, 1.0), 0.05, 3
    w, c = 0.0, 0.0
    drift, control = [0.0, 0.0], [0.0, 0.0]
    for _ in range(rounds):
        models, renewed = [], []
        for k in range(2):
            x = w
            for _ in range(steps):
                gradient = h[k] * (x - centre[k]) + alpha * (drift[k] + x - w)
                x -= rate * (gradient - control[k] + c)
            renewed.append(control[k] - c + (w - x) / (steps * rate))
            drift[k] += x - w
            models.append(x + drift[k])
        c += sum(new - old for new, old in zip(renewed, control, strict=True)) / 2
        control = renewed
        w = sum(models) / 2
    return w


@pytest.mark.parametrize("alpha", [0.0, 0.1, 2.0])
def test_feddc_by_hand(alpha: float) -> None:
    training = {"rounds": 5, "local_steps": 3, "batch_size": "full", "lr": 0.05}
    spec = {
        "data": {"name": "quadratics"},
        "model": {"name": "scalar_quadratic"},
        "algorithm": {"name": "feddc", "alpha": alpha},
        "training": training,
        "dtype": "float64",
    }
    np.testing.assert_allclose(run(spec).parameters["w"], by_hand_feddc(alpha, 5), rtol=1e-12)
