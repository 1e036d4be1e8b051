"""All engines compute the same run, for every registered algorithm."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_cases import ALGORITHMS, MODELS, specification

from fedcore.algorithms import AlgorithmOptions, recipe
from fedcore.base import registry
from fedcore.base.registry import Plugin
from fedcore.engines import stacked
from fedcore.execution.result import Result
from fedcore.execution.runner import run
from fedcore.parts.exchange import FeatureMeans
from fedcore.parts.objective import MmdToOthers
from fedcore.parts.update import Mimicry

TOLERANCE = {"float64": 1e-9, "float32": 1e-4}
ENGINES = ("analytic", "stacked", "fused")
ADD_TO_THE_GRADIENT = {"dl_opt", "fedavgr", "fedomw"}


@cache
def reference(folder: Path, algorithm: str, model: str, dtype: str) -> Result:
    return run(specification(folder, algorithm, model, dtype=dtype, engine="autograd"))


def distance(found: Result, expected: Result, names: set[str]) -> float:
    """Relative distance of the final models in the largest parameter."""
    pairs = [(found.parameters[name], expected.parameters[name]) for name in names]
    scale = max(np.abs(b).max() for _, b in pairs)
    return float(max(np.abs(a - b).max() for a, b in pairs) / scale)


def trained(result: Result) -> set[str]:
    return set(result.parameters) - ({"omega", "phase"} if result.summary["parameters"] == 60 else set())


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[stacked.Step]:
    """Keep stacked steps from round to round, as a GPU does: they must need nothing but their memory."""
    steps: list[stacked.Step] = []

    def record(step: stacked.Step) -> stacked.Step:
        step(())
        steps.append(step)
        return step

    monkeypatch.setitem(stacked.RECORDERS, "cpu", record)
    return steps


@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm(
    images: Path, algorithm: str, engine: str, dtype: str, recorded: list[stacked.Step]
) -> None:
    expected = reference(images, algorithm, "tanh", dtype)
    result = run(specification(images, algorithm, "tanh", dtype=dtype, engine=engine))
    assert result.timing["engine"] == engine
    assert distance(result, expected, trained(expected)) <= TOLERANCE[dtype]
    assert expected.summary["status"] == result.summary["status"] == "completed"
    assert bool(recorded) == (engine == "stacked" and algorithm not in ADD_TO_THE_GRADIENT)
    assert len(recorded) <= stacked.MOST_RECORDINGS or algorithm == "centralised"  # which pools its rows anew


@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("algorithm", ["scaffold", "rfedavg_plus", "moon"])
@pytest.mark.parametrize("model", [name for name in MODELS if name != "tanh"])
def test_every_model(images: Path, model: str, algorithm: str, engine: str, dtype: str) -> None:
    expected = reference(images, algorithm, model, dtype)
    result = run(specification(images, algorithm, model, dtype=dtype, engine=engine))
    assert result.timing["engine"] == engine
    assert distance(result, expected, trained(expected)) <= TOLERANCE[dtype]


TRAINING: dict[str, dict[str, Any]] = {
    "heavy ball with weight decay": {"momentum": 0.9, "weight_decay": 0.01},
    "RMSProp": {"optimizer": "rmsprop", "lr": 0.01},
    "RMSProp with momentum": {"optimizer": "rmsprop", "lr": 0.01, "momentum": 0.5},
    "weight decay": {"weight_decay": 0.1},
    "a number of steps a client": {"local_epochs": None, "local_steps": [1, 6, 3, 2]},
    "all rows at once": {"batch_size": "full", "local_epochs": 2},
    "whole batches only": {"drop_last": True},
    "milestones": {"lr_schedule": {"name": "milestones", "milestones": {3: 0.02}}},
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("training", TRAINING.values(), ids=TRAINING)
def test_every_way_of_training(images: Path, training: dict[str, Any], engine: str) -> None:
    def with_engine(name: str) -> Result:
        spec = specification(images, "scaffold", "relu", engine=name)
        return run({**spec, "training": {**spec["training"], "rounds": 8, **training}})

    expected, result = with_engine("autograd"), with_engine(engine)
    assert distance(result, expected, trained(expected)) <= TOLERANCE["float64"]


def test_a_rate_that_decays_by_steps(images: Path) -> None:
    spec = specification(images, "fedavg", "relu", engine="autograd")
    spec["training"]["lr_schedule"] = {"name": "inverse_time", "offset": 5.0}
    expected, result = run(spec), run({**spec, "engine": "analytic"})
    assert distance(result, expected, trained(expected)) <= TOLERANCE["float64"]
    constant = run(specification(images, "fedavg", "relu"))
    assert distance(constant, expected, trained(expected)) > 1e-3


def test_stacks_of_any_size_agree(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = specification(images, "rfedavg", "tanh", engine="stacked")
    together = run(spec)
    monkeypatch.setattr(stacked, "GROUP_BYTES", 1)
    alone = run(spec)
    assert distance(alone, together, trained(together)) <= TOLERANCE["float64"]


def test_a_term_on_features_beside_an_anchored_gradient(
    images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective, exchange = (MmdToOthers(0.1, pairwise=False),), (FeatureMeans("global", 0.0),)
    both = recipe(objective=objective, update=Mimicry(0.5), exchange=exchange)
    plugin = Plugin("both", AlgorithmOptions, lambda options, spec: both, "both", "this test")
    monkeypatch.setitem(registry._REGISTERED["algorithm"], "both", plugin)
    registry.plugins.cache_clear()
    expected, result = (
        run(specification(images, "both", "tanh", engine=engine)) for engine in ("autograd", "stacked")
    )
    registry.plugins.cache_clear()
    assert distance(result, expected, trained(expected)) <= TOLERANCE["float64"]


@pytest.mark.parametrize("algorithm", ["fedavg", "rfedavg"])
def test_stacked_clients_round_to_bfloat16_as_single_ones_do(images: Path, algorithm: str) -> None:
    spec = specification(images, algorithm, "cnn", dtype="float32")
    spec["training"]["rounds"] = 2
    exact, single, together = (
        run({**spec, "precision": precision, "engine": engine})
        for precision, engine in (("fp32", "autograd"), ("bf16", "autograd"), ("bf16", "stacked"))
    )
    assert 1e-6 < distance(exact, single, trained(single)) < 1e-2
    assert distance(together, single, trained(single)) < 1e-2
