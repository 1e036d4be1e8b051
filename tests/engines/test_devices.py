"""A GPU computes the same run as a CPU, for every algorithm and model, within a tolerance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_cases import ALGORITHMS, MODELS, specification

from fedcore.runner import Result, Settings, run

TOLERANCE = {"float64": 1e-8, "float32": 1e-3}
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no usable GPU on this machine")


def on(device: str, spec: dict[str, Any]) -> Result:
    return run(spec, settings=Settings(device=device))


def agree(spec: dict[str, Any]) -> None:
    """Compare final models, relative to the largest parameter, and what was measured of them."""
    expected, found = on("cpu", spec), on("cuda", spec)
    tolerance = TOLERANCE[spec["dtype"]]
    assert found.timing["device"] == "cuda"
    assert found.summary["status"] == expected.summary["status"] == "completed"
    scale = max(np.abs(array).max() for array in expected.parameters.values())
    for name, array in expected.parameters.items():
        assert np.abs(found.parameters[name] - array).max() <= tolerance * scale, name
    assert found.history[-1]["test_loss"] == pytest.approx(expected.history[-1]["test_loss"], rel=tolerance)
    exact = ("bytes_down", "bytes_up", "partition_sha256", "data_sha256", "spec_sha256")
    assert {key: found.summary[key] for key in exact} == {key: expected.summary[key] for key in exact}


@needs_gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_agrees_on_a_gpu(images: Path, algorithm: str, dtype: str) -> None:
    agree(specification(images, algorithm, "tanh", dtype=dtype))


@needs_gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("engine", ["autograd", "analytic", "stacked"])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_and_engine_agrees_on_a_gpu(images: Path, model: str, engine: str, dtype: str) -> None:
    agree(specification(images, "scaffold", model, dtype=dtype, engine=engine))


def test_auto_is_a_gpu_where_there_is_one(images: Path) -> None:
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    spec = specification(images, "fedavg", "linear")
    spec["training"] = {**spec["training"], "rounds": 1}
    assert on("auto", spec).timing["device"] == expected
