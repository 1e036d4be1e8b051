"""The strongly convex problem of rFedAvg's theorems: objectives, minima, slopes, and what was declared."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pretended import catalogue

from fedcore.execution.runner import Settings
from fedcore.execution.runner import run as train
from pipeline.catalogue.targets import PlannedRun
from pipeline.papers.rfedavg.theory import clients_of, condition, objectives, of_method, path_of, time_of
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
        assert clients_of(run)[0].shape[1] == 100


def test_derivatives_and_the_minimum() -> None:
    run = declared("rfedavg")[0]
    objective, w, step = objectives(run)["own"], weights(run), 1e-5
    direction = RNG.normal(size=w.shape)
    rise = objective.value(w + step * direction) - objective.value(w - step * direction)
    assert np.sum(objective.gradient(w) * direction) == pytest.approx(rise / (2 * step), rel=1e-7)
    assert np.abs(objective.gradient(objective.minimum())).max() < 1e-7
    least = objective.value(objective.minimum())
    assert all(least < objective.value(weights(run) * size) for size in (0, 0.01, 1))


@pytest.mark.parametrize("algorithm", ["rfedavg", "rfedavg_plus", "fedavg"])
def test_a_step_of_all_clients_descends_the_objective(algorithm: str, tmp_path: Path) -> None:
    """With all rows in a batch the first step's mean feature has no variance and its deltas are of w_0."""
    run = changed(declared(algorithm)[0], rounds=1, local_steps=1, batch_size=100, lr=0.1)
    train(dict(run.spec), tmp_path / run.folder, Settings(device="cpu"))
    path = path_of(RunFacts(run, tmp_path))
    assert path is not None
    first, second = path[1]
    objective, eq3 = objectives(run).values()
    np.testing.assert_allclose(second, first - 0.1 * objective.gradient(first), atol=1e-12)
    if algorithm == "fedavg":
        np.testing.assert_array_equal(objective.quadratic, eq3.quadratic)
    else:
        assert np.abs(objective.gradient(first) - eq3.gradient(first)).max() > 1e-3


def test_the_variance_of_a_batchs_mean_feature_is_that_over_all_batches() -> None:
    small = {**declared("rfedavg")[0].spec["data"], "smallest": 6, "largest": 6}
    run = replace(declared("rfedavg")[0], spec={**declared("rfedavg")[0].spec, "data": small})
    w = weights(run)
    apart = [
        np.square(w @ (x[list(batch)].mean(axis=0) - x.mean(axis=0))).sum()
        for x in clients_of(run)[0]
        for batch in combinations(range(len(x)), 2)
    ]
    full_batch = changed(run, batch_size=clients_of(run)[0].shape[1])
    noise = objectives(run)["own"].quadratic - objectives(full_batch)["own"].quadratic
    assert np.sum((w @ noise) * w) == pytest.approx(0.1 * np.mean(apart))


def test_errors_end_at_the_loss_above_the_least_one(tmp_path: Path) -> None:
    runs = [changed(run, rounds=40) for run in declared("fedavg")]
    for run in runs:
        run.spec["evaluation"]["train_every"] = 1
    results = [train(dict(run.spec), tmp_path / run.folder, Settings(device="cpu")) for run in runs]
    measured = of_method("fedavg", read({("fedavg", "convex"): runs}, tmp_path)["fedavg", "convex"], "FedAvg")
    assert measured
    lines, sizes, _ = measured
    frame = pd.DataFrame(lines)
    errors = frame[(frame["row"] == "error, own objective") & frame["round"].notna()]
    time = time_of(runs[0], np.array([10, 20, 30, 40]))
    assert errors["round"].tolist() == time.tolist()
    assert errors["left"].is_monotonic_decreasing
    np.testing.assert_allclose(errors["right"], 1 / time)
    objective = objectives(runs[0])["own"]
    losses = [result.rows[-1]["train_loss"] for result in results]
    norms = [sum(np.square(array).sum() for array in result.parameters.values()) for result in results]
    ends = [loss + norm / 2 for loss, norm in zip(losses, norms, strict=True)]
    least = objective.value(objective.minimum())
    assert errors["left"].iloc[-1] == pytest.approx(np.mean(ends) - least, rel=1e-8)
    assert (sizes.steps, sizes.m, sizes.weight) == (5, 5, 0)
    assert sizes.g == sizes.delayed


def test_time_is_that_of_the_theorems() -> None:
    assert time_of(declared("fedavg")[0], np.array([0, 10])).tolist() == [155, 205]
