"""The strongly convex problem of rFedAvg's theorems: objectives, minima, slopes, and what was declared."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pretended import catalogue

from fedcore.execution.runner import Settings
from fedcore.execution.runner import run as train
from pipeline.catalogue.targets import PlannedRun
from pipeline.papers.rfedavg.theory import (
    OBJECTIVES,
    clients_of,
    condition,
    numbers,
    objectives,
    path_of,
    slope,
    time_of,
)
from pipeline.reports.drawings import Inputs
from pipeline.reports.results import RunFacts, read

RNG = np.random.default_rng(0)


def declared(algorithm: str, scale: str = "demo") -> list[PlannedRun]:
    return list(catalogue("rfedavg", scale).cells("rfedavg", "theory")[algorithm, "convex"])


def changed(run: PlannedRun, **training: Any) -> PlannedRun:
    return replace(run, spec={**run.spec, "training": {**run.spec["training"], **training}})


def weights(run: PlannedRun) -> np.ndarray:
    return RNG.normal(size=(run.spec["data"]["classes"], run.spec["data"]["dimension"] + 1))


@pytest.mark.parametrize("scale", ["demo", "quick", "paper"])
def test_rates_are_those_of_the_theorems(scale: str) -> None:
    for algorithm in ("fedavg", "rfedavg", "rfedavg_plus"):
        run = declared(algorithm, scale)[0]
        training = run.spec["training"]
        gamma, mu = training["lr_schedule"]["offset"], training["weight_decay"]
        assert gamma >= max(8 * condition(run), training["local_steps"])
        assert training["lr"] == pytest.approx(2 / (mu * gamma))
        assert run.spec["algorithm"].get("lambda", 0.1) == 0.1
        assert {len(x) for x, _ in clients_of(run)} == {100}


def test_derivatives_and_the_minimum() -> None:
    run = declared("rfedavg")[0]
    objective, w, step = objectives(run)["error"], weights(run), 1e-5
    direction = RNG.normal(size=w.shape)
    rise = objective.value(w + step * direction) - objective.value(w - step * direction)
    assert np.sum(objective.gradient(w) * direction) == pytest.approx(rise / (2 * step), rel=1e-7)
    turn = objective.gradient(w + step * direction) - objective.gradient(w - step * direction)
    curved = objective.hessian(w) @ direction.ravel()
    np.testing.assert_allclose(curved, turn.ravel() / (2 * step), rtol=1e-6, atol=1e-8)
    assert all(objective.least() < objective.value(weights(run) * size) for size in (0, 0.01, 1))


@pytest.mark.parametrize("algorithm", ["rfedavg", "rfedavg_plus", "fedavg"])
def test_a_step_of_all_clients_descends_the_objective(algorithm: str, tmp_path: Path) -> None:
    """With all rows in a batch the first step's mean feature has no variance and its deltas are of w_0."""
    run = changed(declared(algorithm)[0], rounds=1, local_steps=1, batch_size=100, lr=0.1)
    train(dict(run.spec), tmp_path / run.folder, Settings(device="cpu"))
    found = path_of(RunFacts(run, tmp_path))
    assert found is not None
    first, second = found[1]
    own, eq3 = objectives(run).values()
    np.testing.assert_allclose(second, first - 0.1 * own.gradient(first), atol=1e-12)
    if algorithm == "fedavg":
        assert own.least() == eq3.least()
    else:
        assert np.abs(own.gradient(first) - eq3.gradient(first)).max() > 1e-3


def test_the_variance_of_a_batchs_mean_feature_is_that_over_all_batches() -> None:
    small = {**declared("rfedavg")[0].spec["data"], "smallest": 6, "largest": 6}
    run = replace(declared("rfedavg")[0], spec={**declared("rfedavg")[0].spec, "data": small})
    w = weights(run)
    apart = [
        np.square(w @ (x[list(batch)].mean(axis=0) - x.mean(axis=0))).sum()
        for x, _ in clients_of(run)
        for batch in combinations(range(len(x)), 2)
    ]
    whole = changed(run, batch_size=len(clients_of(run)[0][0]))
    noise = objectives(run)["error"].quadratic - objectives(whole)["error"].quadratic
    assert np.sum((w @ noise) * w) == pytest.approx(0.1 * np.mean(apart))


def test_errors_start_at_the_initial_loss_and_fall(tmp_path: Path) -> None:
    rounds = 40
    runs = [changed(run, rounds=rounds) for run in declared("fedavg")]
    for run in runs:
        run.spec["evaluation"]["train_every"] = 1
    results = [train(dict(run.spec), tmp_path / run.folder, Settings(device="cpu")) for run in runs]
    params = catalogue("rfedavg").params.papers["rfedavg"]
    frame = numbers(Inputs(params, read({("fedavg", "convex"): runs}, tmp_path)))
    errors = frame[frame["column"] == "error"].set_index("round")
    assert list(errors.index) == [0, 10, 20, 30, 40]
    assert errors["mean"].is_monotonic_decreasing
    assert (errors["mean"] > 0).all()
    assert ((errors["low"] <= errors["mean"]) & (errors["mean"] <= errors["high"])).all()
    least = objectives(runs[0])["error"].least()
    losses = [result.rows[-1]["train_loss"] for result in results]
    norms = [sum(np.square(array).sum() for array in result.parameters.values()) for result in results]
    ends = [loss + norm / 2 - least for loss, norm in zip(losses, norms, strict=True)]
    assert errors.loc[rounds, "mean"] == pytest.approx(np.mean(ends), rel=1e-9)
    assert set(frame["column"]) == {*OBJECTIVES, "slope", "slope_eq3"}


def test_a_law_of_one_over_t_has_slope_minus_one() -> None:
    run = declared("fedavg")[0]
    rounds = np.arange(0, 1001, 10)
    time = time_of(run, rounds)
    assert time[0] == 160 - 5
    assert slope(time, rounds, list(7 / time)) == pytest.approx(-1)
    assert slope(time, rounds, list(np.where(rounds < 200, 1e3, 7 / time**2))) == pytest.approx(-2)
