"""FedAvgR's and DL-opt's regularisers, the densities that clients exchange, and per-sample gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from rounds import started
from torch import Tensor

from fedcore.engines import Batch, BoundTerm, Job, sample_gradients
from fedcore.engines.problem import Block, Problem
from fedcore.execution.runner import run
from fedcore.execution.simulation import advance, simulate
from fedcore.models.cnn import Cnn
from fedcore.models.dense import linear, perceptron
from fedcore.models.lstm import Lstm
from fedcore.models.quadratic import ScalarQuadratic
from fedcore.models.rff import RffLinear
from fedcore.parts import Run, State, Term
from fedcore.parts.discrepancy import mmd
from fedcore.parts.exchange import draw, draw_mixture
from fedcore.parts.objective import (
    FeatureNorm,
    MmdToMixture,
    MmdToOthers,
    Proximal,
    TraceNorm,
    WeightNorm,
    _unit,
)
from fedcore.parts.observers.risk import discrepancies

Values = dict[str, Any]


@pytest.fixture
def rff(spec: Values) -> Values:
    """Five clients under trained random features, in float64."""
    model = {"name": "rff_linear", "features": 12, "scale": "sqrt2", "sigma": 0.3, "learnable": True}
    return {**spec, "model": model, "dtype": "float64", "participation": {}}


def bound(spec: Values, term: Term, **algorithm: Any) -> tuple[BoundTerm, Run, State]:
    setup, state = started({**spec, "algorithm": {"name": "fedavgr", **algorithm}})
    return term.bind(setup, state, Job(1, 0, 0, state.model)), setup, state


def slope(value: Any, w: Tensor) -> Tensor:
    """Return the gradient of a function of a vector by differentiation."""
    leaf = w.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(leaf), leaf)
    return gradient


def added(term: BoundTerm, w: Tensor) -> Tensor:
    assert term.add_gradient is not None
    out = torch.zeros_like(w)
    term.add_gradient(out, w)
    return out


def test_weight_norms(rff: Values) -> None:
    for squared, bias in ((False, False), (False, True), (True, False)):
        term, setup, state = bound(rff, WeightNorm(0.3, squared, bias))
        layout = setup.problem.model.trainable

        def value(w: Tensor, squared: bool = squared, bias: bool = bias, layout: Any = layout) -> Tensor:
            views = layout.views(w)
            parts = [view for name, view in views.items() if bias or name != "phase"]
            square = torch.stack([part.square().sum() for part in parts]).sum()
            return 0.3 * (square / 2 if squared else square.sqrt())

        torch.testing.assert_close(added(term, state.model), slope(value, state.model), rtol=0, atol=1e-12)
        assert not added(term, torch.zeros_like(state.model)).any()


def test_the_weight_norm_of_a_model_without_matrices_is_of_all_parameters() -> None:
    spec = {
        "data": {"name": "quadratics"},
        "model": {"name": "scalar_quadratic"},
        "training": {"rounds": 1, "batch_size": "full", "lr": 0.1},
        "dtype": "float64",
    }
    term, _, state = bound(spec, WeightNorm(0.3), gamma=0)
    assert added(term, torch.full_like(state.model, -2.0)).tolist() == pytest.approx([-0.3])


def test_the_trace_norm_has_no_gradient_along_singular_values_of_nothing(rff: Values) -> None:
    """A head of rank one, which rounding gives other singular values too: the gradient is u v^T."""
    term, setup, state = bound(rff, TraceNorm(0.3))
    layout = setup.problem.model.trainable
    u, v = (torch.randn(n, dtype=torch.float64) for n in layout.shapes["weight"])
    w = state.model.clone()
    layout.views(w)["weight"].copy_(torch.outer(u, v))
    expected = 0.3 * torch.outer(u / u.norm(), v / v.norm())
    torch.testing.assert_close(layout.views(added(term, w))["weight"], expected, rtol=0, atol=1e-12)


def test_the_trace_norm_has_a_gradient_along_small_singular_values(rff: Values) -> None:
    term, setup, state = bound(rff, TraceNorm(1.0))
    layout, w = setup.problem.model.trainable, torch.zeros_like(state.model)
    layout.views(w)["weight"][0, 0], layout.views(w)["weight"][1, 1] = 1.0, 1e-8
    assert layout.views(added(term, w))["weight"][1, 1] == pytest.approx(1.0)


def test_trace_norm(rff: Values) -> None:
    term, setup, state = bound(rff, TraceNorm(0.3))
    layout = setup.problem.model.trainable
    nuclear = slope(lambda w: 0.3 * torch.linalg.matrix_norm(layout.views(w)["weight"], "nuc"), state.model)
    torch.testing.assert_close(added(term, state.model), nuclear, rtol=0, atol=1e-10)
    assert not added(term, torch.zeros_like(state.model)).any()


def test_plain_proximal_norm(rff: Values) -> None:
    term, _, state = bound(rff, Proximal(0.3, squared=False))
    assert not added(term, state.model).any()
    moved = state.model + torch.randn(len(state.model), dtype=torch.float64)
    away = slope(lambda w: 0.3 * (w - state.model).norm(), moved)
    torch.testing.assert_close(added(term, moved), away, rtol=0, atol=1e-12)


TERMS: list[tuple[Term, Values]] = [
    (FeatureNorm(0.4), {}),
    (MmdToMixture(0.4, 20, "kernel"), {"density": "gaussian"}),
    (MmdToMixture(0.4, 20, "kernel", squared=True), {"density": "gaussian"}),
    (MmdToMixture(0.4, 20, "mean"), {"density": "gaussian"}),
    (MmdToMixture(0.4, 20, "mean", squared=True), {"density": "mean"}),
    (MmdToMixture(0.4, 20, "kernel"), {"density": "mean"}),
]


@pytest.mark.parametrize(("term", "algorithm"), TERMS, ids=str)
def test_feature_terms_in_closed_form(term: Term, algorithm: Values, rff: Values) -> None:
    """Closed gradients agree with differentiation; rows of weight zero (padding) take no part."""
    bound_term, _, _ = bound(rff, term, **algorithm)
    loss, gradient = bound_term.loss, bound_term.feature_gradient
    assert gradient is not None
    phi = torch.randn(7, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    even = Batch(phi, torch.full((7,), 1 / 7, dtype=torch.float64))
    torch.testing.assert_close(gradient(phi, even), slope(lambda x: loss(x, even), phi), rtol=0, atol=1e-12)

    padded = Batch(phi, torch.tensor([0.2] * 5 + [0.0] * 2, dtype=torch.float64))
    alone = Batch(phi[:5], torch.full((5,), 0.2, dtype=torch.float64))
    torch.testing.assert_close(gradient(phi, padded)[:5], gradient(phi[:5], alone), rtol=0, atol=1e-12)
    assert not gradient(phi, padded)[5:].any()
    torch.testing.assert_close(loss(phi, padded), loss(phi[:5], alone), rtol=0, atol=1e-12)


def test_points_of_the_mixture_are_drawn_for_each_client_and_round(rff: Values) -> None:
    term = MmdToMixture(0.4, 20, "kernel")
    _, setup, state = bound(rff, term)
    phi = torch.randn(7, 12, dtype=torch.float64)
    batch = Batch(phi, torch.full((7,), 1 / 7, dtype=torch.float64))
    for state.round, client in ((0, 1), (0, 2), (4, 1)):
        points = draw_mixture(state, 20, setup.streams.get("mixture", state.round, client))
        loss = term.bind(setup, state, Job(client, 0, 0, state.model)).loss(phi, batch)
        assert float(loss) == pytest.approx(0.4 * mmd("kernel", phi, points), rel=1e-12)


@pytest.mark.parametrize(("include_self", "others"), [(False, 2), (True, 3)])
def test_a_sum_over_the_others_is_their_number_times_the_mean(
    include_self: bool, others: int, rff: Values
) -> None:
    """Client 1 shares with clients 0 and 4 in this round."""
    setup, state = started({**rff, "algorithm": {"name": "rfedavg"}})
    state.values["sharing"] = [0, 1, 4]
    state.server["delta"] = torch.randn_like(state.server["delta"])
    phi, weights = torch.randn(3, 12, dtype=torch.float64), torch.full((3,), 1 / 3, dtype=torch.float64)
    mean, total = (
        MmdToOthers(0.7, True, include_self, summed)
        .bind(setup, state, Job(1, 0, 0, state.model))
        .gradient(phi, Batch(phi, weights))
        for summed in (False, True)
    )
    target = state.server["delta"][[0, 1, 4] if include_self else [0, 4]].mean(dim=0)
    torch.testing.assert_close(mean, ((phi.mean(dim=0) - target) * 1.4 / 3).expand(3, -1))
    torch.testing.assert_close(total, others * mean)


def test_the_substitute_is_the_regulariser_less_the_variance_of_the_others(rff: Values) -> None:
    """So it has the same gradient, and is the regulariser itself where all others are alike."""
    setup, state = started({**rff, "algorithm": {"name": "rfedavg"}})
    state.values["sharing"] = [0, 1, 2, 4]
    phi, weights = torch.randn(3, 12, dtype=torch.float64), torch.full((3,), 1 / 3, dtype=torch.float64)
    batch, delta = Batch(phi, weights), torch.randn_like(state.server["delta"])
    for deltas, variance in (
        (delta, delta[[0, 2, 4]].var(dim=0, correction=0).sum()),
        (delta[:1].expand_as(delta), torch.zeros((), dtype=torch.float64)),
    ):
        state.server["delta"] = deltas
        regulariser, substitute = (
            MmdToOthers(0.7, pairwise).bind(setup, state, Job(1, 0, 0, state.model))
            for pairwise in (True, False)
        )
        torch.testing.assert_close(regulariser.gradient(phi, batch), substitute.gradient(phi, batch))
        torch.testing.assert_close(regulariser.loss(phi, batch) - substitute.loss(phi, batch), 0.7 * variance)
        distances = (phi.mean(dim=0) - deltas[[0, 2, 4]]).square().sum(dim=1)
        torch.testing.assert_close(regulariser.loss(phi, batch), 0.7 * distances.mean())


def test_kernel_mmd_of_points_is_as_by_hand() -> None:
    """Pooled points 0, 1 and 3 have the distances 1, 2 and 3: a kernel of width 2, exp(-d^2 / 8)."""
    x, z = torch.tensor([[0.0], [1.0]], dtype=torch.float64), torch.tensor([[3.0]], dtype=torch.float64)
    expected = (2 + 2 * np.exp(-1 / 8)) / 4 + 1 - np.exp(-9 / 8) - np.exp(-4 / 8)
    assert mmd("kernel", x, z) == pytest.approx(np.sqrt(expected), rel=1e-12)
    assert mmd("kernel", x, x) == pytest.approx(0, abs=1e-7)


def test_the_kernel_has_width_one_where_most_points_are_equal() -> None:
    """All of x and four of five z lie at 0, one at 2: of different pooled points the median distance is 0."""
    x, z = torch.zeros(5, 1), torch.tensor([[0.0]] * 4 + [[2.0]])
    assert mmd("kernel", x, z) == pytest.approx(np.sqrt(2 - 2 * np.exp(-2)) / 5)


def test_short_features_have_a_direction_and_none_has_none() -> None:
    rows = torch.tensor([[3e-5, 4e-5], [0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(_unit(rows), torch.tensor([[0.6, 0.8], [0.0, 0.0]], dtype=torch.float64))


def test_no_regulariser_is_fedavg(spec: Values) -> None:
    plain = {"name": "fedavgr", "alpha": 0, "beta": 0, "gamma": 0}
    assert run({**spec, "algorithm": plain}).rows == run(spec).rows


def test_densities_come_from_local_features(rff: Values) -> None:
    """First those of w_0, then of the local model after training; who stays out keeps the old one."""
    spec = {**rff, "algorithm": {"name": "fedavgr"}, "participation": {"cohorts": [[2]]}}
    spec["training"] = {**spec["training"], "rounds": 1}
    setup, state = started(spec)
    first = state.server["density"].clone()

    def phi(w: Tensor, client: int) -> Tensor:
        p = {**setup.problem.model.trainable.views(w), **setup.problem.buffers}
        return setup.problem.model.features(p, setup.problem.clients[client].x)

    for client in range(5):
        at_start = phi(setup.problem.start, client)
        expected = torch.stack([at_start.mean(dim=0), at_start.var(dim=0, correction=0)])
        torch.testing.assert_close(first[client], expected, rtol=0, atol=1e-12)

    final = State(round=0, models=setup.problem.start.clone()[None])
    for _ in simulate(setup, final):
        pass
    changed = [not torch.equal(final.server["density"][k], first[k]) for k in range(5)]
    assert changed == [False, False, True, False, False]
    torch.testing.assert_close(final.server["density"][2][0], phi(final.model, 2).mean(dim=0))


def test_draws_follow_the_mixture() -> None:
    state = State(round=0, models=torch.zeros(1, 1, dtype=torch.float64))
    means, variances = torch.tensor([[0.0, 1.0], [10.0, -5.0]]), torch.tensor([[1.0, 4.0], [0.25, 0.0]])
    state.server["density"] = torch.stack([means, variances], dim=1).double()
    state.server["density_weights"] = torch.tensor([0.25, 0.75], dtype=torch.float64)
    z = draw_mixture(state, 20000, np.random.default_rng(0))
    low = z[:, 0] < 5
    assert float(low.double().mean()) == pytest.approx(0.25, abs=0.02)
    torch.testing.assert_close(z[low].var(dim=0), state.server["density"][0, 1], rtol=0.1, atol=0)
    torch.testing.assert_close(z[~low].mean(dim=0), state.server["density"][1, 0], rtol=0, atol=0.02)
    state.server["density"] = state.server["density"][:, :1]
    mean = draw_mixture(state, 7, np.random.default_rng(0))
    torch.testing.assert_close(mean, torch.tensor([[7.5, -3.5]], dtype=torch.float64))
    drawn = draw(torch.stack([means, variances], dim=1).double(), np.random.default_rng(0))
    assert float(drawn[1, 1]) == -5.0


MODELS = {
    "linear": linear(9, 4),
    "linear without bias": linear(9, 4, bias=False),
    "fixed random features": RffLinear(9, 4, 6, 1.4, 0.5, False),
    "trained random features": RffLinear(9, 4, 6, 1.4, 0.5, True),
    "perceptron": perceptron((9, 6, 5, 4), "relu"),
    "tanh perceptron": perceptron((9, 6, 4), "tanh"),
    "convolutions": Cnn((1, 8, 8), 4, (2, 3), 5),
    "lstm": Lstm(11, 4, 3, 5, 2),
    "lstm with a dense layer": Lstm(11, 4, 3, 5, 2, dense=6),
    "lstm on given vectors": Lstm(11, 4, 3, 5, 1, np.ones((11, 3), np.float32)),
    "quadratic": ScalarQuadratic(),
}


@pytest.mark.parametrize("name", MODELS)
def test_squared_norms_of_per_sample_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every route gives what differentiating row by row gives, in chunks too."""
    model: Any = MODELS[name]
    monkeypatch.setattr(sample_gradients, "CHUNK", 4)
    monkeypatch.setattr(sample_gradients, "SEQUENCES", 4)
    rng = np.random.default_rng(3)
    arrays = model.initial(rng)
    w = model.trainable.flatten(arrays, torch.float64)
    fixed = {k: torch.as_tensor(v, dtype=torch.float64) for k, v in arrays.items()}
    buffers = {k: v for k, v in fixed.items() if k not in model.trainable.shapes}
    if isinstance(model, Lstm):
        x = torch.from_numpy(rng.integers(0, 11, size=(6, 7)))
    elif isinstance(model, ScalarQuadratic):
        x = torch.from_numpy(rng.uniform(1, 2, size=(6, 2)))
    else:
        x = torch.from_numpy(rng.normal(size=(6, 1, 8, 8) if isinstance(model, Cnn) else (6, 9)))
    block = Block(x, torch.from_numpy(rng.integers(0, 4, size=6)))
    problem = Problem(model, buffers, w, (block,), block, block, None, 4)

    def loss(flat: Tensor, row: int) -> Tensor:
        p = {**model.trainable.views(flat), **buffers}
        scores = model.scores(p, model.features(p, x[row : row + 1]))
        value: Tensor = model.losses(scores, block.y[row : row + 1]).sum()
        return value

    expected = torch.stack([slope(lambda v, row=row: loss(v, row), w).square().sum() for row in range(6)])
    norms = sample_gradients.squared_norms(problem, w, block)
    torch.testing.assert_close(norms, expected, rtol=1e-10, atol=1e-12)


def test_squared_norms_of_batch_gradients(spec: Values) -> None:
    """Over one batch of all rows it is the squared norm of the client's full gradient."""
    spec = {**spec, "training": {**spec["training"], "batch_size": "full"}, "dtype": "float64"}
    setup, state = started(spec)
    block = setup.problem.clients[1]
    norms = sample_gradients.batch_norms(setup.engine, state.model, block, "full", np.random.default_rng(0))
    torch.testing.assert_close(norms, setup.engine.full_gradient(state.model, block).square().sum()[None])
    assert (
        len(sample_gradients.batch_norms(setup.engine, state.model, block, 16, np.random.default_rng(0))) == 4
    )


def test_history_reports_the_distance_to_the_mixture(rff: Values) -> None:
    """Under means it is the n_k-weighted distance of the clients' means to the mixture's."""
    _, state = started({**rff, "algorithm": {"name": "fedavgr", "density": "mean", "mmd": "mean"}})
    means = state.server["density"][:, 0]
    weights = torch.tensor([40, 60, 80, 100, 120], dtype=torch.float64) / 400
    expected = float(weights @ (means - weights @ means).norm(dim=1))
    assert state.values["mmd"] == pytest.approx(expected, abs=1e-12)
    rows = run({**rff, "algorithm": {"name": "fedavgr"}, "evaluation": {"every": 4}}).rows
    assert [row["round"] for row in rows] == [0, 4, 6]
    assert all(0 < row["mmd"] < 1.5 for row in rows)
    every = run({**rff, "algorithm": {"name": "fedavgr"}}).rows
    assert [row["mmd"] for row in rows] == [every[round]["mmd"] for round in (0, 4, 6)]
    assert len({row["mmd"] for row in rows}) == 3


def test_a_diverged_run_has_no_distance_of_an_earlier_round(spec: Values) -> None:
    endless = {"rounds": 6, "local_epochs": 5, "batch_size": 8, "lr": 1e30}
    values = {**spec, "algorithm": {"name": "fedavgr"}, "training": endless, "evaluation": {"every": 4}}
    last = run(values).rows[-1]
    assert last["round"] < 4
    assert np.isnan(last["mmd"])


def test_distances_in_history_are_drawn_for_each_client_and_round(rff: Values) -> None:
    setup, state = started({**rff, "algorithm": {"name": "fedavgr", "samples": 30}})
    for round in (0, 1):
        weights, total = state.server["density_weights"].tolist(), 0.0
        for client, weight in enumerate(weights):
            rng = setup.streams.get("density distance", round, client)
            points = draw(state.server["density"][client].expand(30, -1, -1), rng)
            total += weight * mmd("kernel", points, draw_mixture(state, 30, rng))
        assert state.values["mmd"] == pytest.approx(total, rel=1e-12)
        advance(setup, state)


def test_discrepancy_is_the_largest_gap_of_losses() -> None:
    losses = np.array([[1.0, 3.0], [2.0, 2.5]])
    gaps = discrepancies(losses, np.array([0.5, 0.5]))
    np.testing.assert_allclose(gaps, [1.0, 1.0])
    np.testing.assert_allclose(discrepancies(losses, np.array([1.0, 0.0])), [0.0, 2.0])
