"""Learned mixture weights: what they start from, how they move, and what the recipes reduce to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedcore.base.errors import SpecError
from fedcore.engines import Job, Upload
from fedcore.execution.result import Result
from fedcore.execution.runner import Settings, prepare, run
from fedcore.execution.simulation import simulate
from fedcore.parts import Run, State
from fedcore.parts.aggregate import LearnedMixture, client_scores
from fedcore.parts.steps import make_task
from fedcore.spec import parse

Values = dict[str, Any]


@pytest.fixture
def full(spec: Values) -> Values:
    """All five clients, float64, a linear model."""
    sections = {"model": {"name": "linear"}, "participation": {}, "dtype": "float64"}
    return {**spec, **sections, "training": {**spec["training"], "rounds": 3}}


def using(spec: Values, rounds: int = 3, **algorithm: Any) -> Values:
    return {**spec, "algorithm": algorithm, "training": {**spec["training"], "rounds": rounds}}


def shared(result: Result) -> list[list[float]]:
    return [[row[key] for key in ("train_loss", "test_loss", "bytes_up")] for row in result.rows]


def uploads_of(setup: Run, state: State) -> list[Upload]:
    plan = setup.recipe.schedule.plan(setup, state)
    (stage,) = plan.stages

    jobs = [Job(client, slot, 0, plan.starts[slot]) for slot, client in stage]
    return setup.engine.train(make_task(setup, state, job) for job in jobs)


def prepared(spec: Values) -> tuple[Run, State, LearnedMixture]:
    setup, _, _ = prepare(parse(spec), Settings())
    state = State(round=0, models=setup.problem.start.clone()[None])
    for part in setup.recipe.parts():
        part.start(setup, state)
    assert isinstance(setup.recipe.aggregate, LearnedMixture)
    return setup, state, setup.recipe.aggregate


def test_frozen_mixture_is_dl_u(full: Values) -> None:
    frozen = run(using(full, 1, name="dl_opt", gamma=0, steps_p=0))
    assert shared(frozen) == shared(run(using(full, 1, name="dl_u")))


def test_frozen_fedomw_is_fedavg_with_some_clients_too(full: Values) -> None:
    full = {**full, "participation": {"fraction": 0.6}}
    frozen, fedavg = (
        run(using(full, **algorithm)) for algorithm in ({"name": "fedomw", "gamma": 0, "steps_p": 0}, FEDAVG)
    )
    for name, array in frozen.parameters.items():
        np.testing.assert_allclose(array, fedavg.parameters[name], atol=1e-12)


FEDAVG = {"name": "fedavg"}


def test_one_long_round_of_fedomw_is_dl_opt(full: Values) -> None:
    keys = {"gamma": 0.01, "lr_p": 0.01, "steps_p": 20}
    fedomw, dl_opt = (run(using(full, 1, name=name, **keys)) for name in ("fedomw", "dl_opt"))
    assert shared(fedomw) == shared(dl_opt)


def test_released_code_chains_baselines_too(full: Values) -> None:
    released = {**full, "variant": "released"}
    frozen = run(using(released, name="fedomw", gamma=0, steps_p=0))
    fedavg = run(using(full, name="fedavg", chained=True))
    fedprox = run(using(full, name="fedprox", chained=True, norm="plain", mu=0.0))
    for name, array in frozen.parameters.items():
        np.testing.assert_allclose(array, fedavg.parameters[name], atol=1e-12)
        np.testing.assert_array_equal(fedprox.parameters[name], fedavg.parameters[name])


def reference(
    scores: Tensor, y: Tensor, p: Tensor, batches: list[Tensor], lr: float, momentum: float
) -> Tensor:
    """The same steps by PyTorch's own differentiation and SGD."""
    leaf = p.clone().requires_grad_()
    optimizer = torch.optim.SGD([leaf], lr, momentum)
    for rows in batches:
        optimizer.zero_grad()
        cross_entropy(scores[rows] @ leaf, y[rows]).backward()
        optimizer.step()
    return leaf.detach()


def test_steps_on_all_rows_follow_the_validation_loss(full: Values) -> None:
    setup, state, part = prepared(using(full, name="fedomw", lr_p=0.05, steps_p=15, momentum_p=0.8))
    uploads = uploads_of(setup, state)
    validation = setup.problem.validation
    assert validation is not None
    scores = client_scores(setup.problem, [upload.model for upload in uploads], validation.x)
    start = state.server["mixture"].clone()
    assert start.tolist() == [size / 400 for size in (40, 60, 80, 100, 120)]
    batches = [torch.arange(len(validation))] * 15
    change = part.change(setup, state, state.model, uploads)
    p = state.server["mixture"]
    torch.testing.assert_close(
        p, reference(scores, validation.y, start, batches, 0.05, 0.8), rtol=0, atol=1e-12
    )
    mixed = sum(weight * upload.model for weight, upload in zip(p, uploads, strict=True))
    torch.testing.assert_close(state.model + change, mixed, rtol=0, atol=1e-12)


def test_weights_that_hardly_move_keep_their_shares_of_all_data_where_some_take_part(full: Values) -> None:
    values = using(full, name="fedomw", lr_p=1e-12, steps_p=3) | {"participation": {"fraction": 0.6}}
    setup, state, part = prepared(values)
    shares = state.server["mixture"].clone()
    part.change(setup, state, state.model, uploads_of(setup, state))
    for p in (state.server["mixture"], *state.server["mixture_path"]):
        torch.testing.assert_close(p, shares)


def test_a_pass_uses_every_row_once(full: Values) -> None:
    """With one batch as large as the set, a pass is one step on all rows, in any order."""
    states = []
    for keys in ({"epochs_p": 4, "batch_p": 100}, {"steps_p": 4}):
        setup, state, part = prepared(using(full, name="fedomw", lr_p=0.05, **keys))
        part.change(setup, state, state.model, uploads_of(setup, state))
        states.append(state.server["mixture"])
    torch.testing.assert_close(*states, rtol=0, atol=1e-12)


def test_batches_are_shuffled_passes(full: Values) -> None:
    setup, state, part = prepared(using(full, name="fedomw", lr_p=0.05, epochs_p=2, batch_p=32))
    uploads, validation = uploads_of(setup, state), setup.problem.validation
    assert validation is not None
    rng = setup.streams.get("mixture batches", 0)
    orders = [torch.from_numpy(rng.permutation(len(validation))) for _ in range(2)]
    batches = [rows for order in orders for rows in order.split(32)]
    scores = client_scores(setup.problem, [upload.model for upload in uploads], validation.x)
    expected = reference(scores, validation.y, state.server["mixture"], batches, 0.05, 0.0)
    part.change(setup, state, state.model, uploads)
    torch.testing.assert_close(state.server["mixture"], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("keep", [True, False])
def test_velocity_of_p_persists_only_where_asked(full: Values, keep: bool) -> None:
    setup, state, part = prepared(using(full, name="fedomw", lr_p=0.02, steps_p=6, momentum_p=0.9))
    uploads = uploads_of(setup, state)
    half = replace(part, steps=3, keep_velocity=keep)
    for _ in range(2):
        half.change(setup, state, state.model, uploads)
    twice = state.server["mixture"]
    setup, state, part = prepared(using(full, name="fedomw", lr_p=0.02, steps_p=6, momentum_p=0.9))
    part.change(setup, state, state.model, uploads)
    assert torch.allclose(twice, state.server["mixture"], rtol=0, atol=1e-12) == keep


def test_released_defaults(full: Values) -> None:
    for name, momentum in (("dl_opt", 0.0), ("fedomw", 0.9)):
        _, _, part = prepared({**using(full, 1, name=name), "variant": "released"})
        assert (part.epochs, part.steps, part.batch) == (100, None, 16)
        assert (part.momentum, part.keep_velocity) == (momentum, True)
        _, _, part = prepared(using(full, 1, name=name))
        assert (part.epochs, part.steps, part.batch, part.momentum) == (None, 100, "full", 0.0)


@pytest.mark.parametrize("name", ["fedomw", "dl_opt"])
def test_mixture_weights_need_not_be_positive_nor_sum_to_one(full: Values, name: str) -> None:
    setup, state, part = prepared(using(full, 1, name=name, gamma=0.0, lr_p=5.0, steps_p=10))
    part.change(setup, state, state.model, uploads_of(setup, state))
    p = state.server["mixture"]
    assert p.min() < 0
    assert abs(float(p.sum()) - 1) > 0.01
    assert torch.isfinite(p).all()


def test_simplex_keeps_a_probability_vector(full: Values) -> None:
    setup, state, part = prepared(using(full, name="fedomw", lr_p=5.0, steps_p=10, simplex=True))
    part.change(setup, state, state.model, uploads_of(setup, state))
    p = state.server["mixture"]
    assert p.min() >= 0
    assert float(p.sum()) == pytest.approx(1)


@pytest.mark.parametrize("model", [{"name": "mlp", "hidden": [6]}, {"name": "rff_linear", "features": 9}])
def test_scores_of_all_clients(full: Values, model: Values) -> None:
    """Fixed features are shared between clients without changing any score."""
    setup, state, _ = prepared({**using(full, name="fedomw"), "model": model})
    models = [upload.model for upload in uploads_of(setup, state)]
    x = setup.problem.test.x[:7]
    scores = client_scores(setup.problem, models, x)
    assert scores.shape == (7, 10, 5)
    for k, w in enumerate(models):
        p = {**setup.problem.model.trainable.views(w), **setup.problem.buffers}
        alone = setup.problem.model.scores(p, setup.problem.model.features(p, x))
        torch.testing.assert_close(scores[:, :, k], alone, rtol=0, atol=1e-12)


def test_history_reports_the_mixture(full: Values) -> None:
    rows = run(using(full, name="fedomw", lr_p=0.05)).rows
    assert rows[0]["mixture_sum"] == pytest.approx(1)
    assert all(row["mixture_min"] <= row["mixture_max"] for row in rows)
    assert len({row["mixture_sum"] for row in rows}) == len(rows)


def test_validation_rows_are_required_only_to_learn(full: Values) -> None:
    pooled = {"data": {"name": "quadratics"}, "model": {"name": "scalar_quadratic"}}
    bare = {key: value for key, value in full.items() if key != "partition"} | pooled
    bare["training"] = {**full["training"], "batch_size": "full"}
    with pytest.raises(SpecError, match=r"partition.validation: 'fedomw' learns its mixture"):
        run(using(bare, name="fedomw"))
    assert run(using(bare, name="fedomw", steps_p=0)).summary["status"] == "completed"


def test_validation_rows_may_come_from_the_partition(full: Values) -> None:
    split = {"name": "iid", "clients": 4, "validation": 0.2}
    setup, state, part = prepared({**using(full, name="fedomw"), "partition": split})
    assert setup.problem.validation is not None
    assert len(setup.problem.validation) == 180, "beside the server's own 100"
    part.change(setup, state, state.model, uploads_of(setup, state))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"steps_p": 1, "epochs_p": 1}, "both given"),
        ({"lr_p": 0}, "algorithm.lr_p"),
        ({"gamma": -1}, "algorithm.gamma"),
        ({"momentum_p": 1.0}, "algorithm.momentum_p"),
        ({"gama": 1}, "did you mean 'gamma'"),
    ],
)
def test_refused(keys: Values, message: str, full: Values) -> None:
    with pytest.raises(SpecError, match=message):
        run(using(full, name="fedomw", **keys))


def test_a_run_is_the_rounds_of_its_parts(full: Values) -> None:
    """p continues from round to round: two rounds differ from two first rounds."""
    setup, _, _ = prepare(parse(using(full, 2, name="fedomw", lr_p=0.05)), Settings())
    state = State(round=0, models=setup.problem.start.clone()[None])
    seen = []
    for _ in simulate(setup, state):
        seen.append(state.server["mixture"].clone())
    reset = run(using(full, 2, name="fedomw", lr_p=0.05, p_reset=True)).rows
    kept = run(using(full, 2, name="fedomw", lr_p=0.05)).rows
    assert reset[1] == kept[1]
    assert reset[2] != kept[2]
    assert not torch.equal(seen[1], seen[2])
