"""A GPU computes the same run as a CPU, for every algorithm and model, within a tolerance.

Where there is no GPU, a pretended one shows at least that nothing is computed across devices.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_cases import ALGORITHMS, MODELS, specification
from pretended_gpu import DEVICE, pretended

from fedcore.execution.result import Result
from fedcore.execution.runner import Settings, run

TOLERANCE = {"float64": 1e-8, "float32": 1e-3}
LONG = {"centralised", "dl_opt", "radfed", "radfed_a", "radfed_i"}
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no usable GPU on this machine")


def on(device: str, spec: dict[str, Any]) -> Result:
    return run(spec, settings=Settings(device=device))


def agree(spec: dict[str, Any]) -> None:
    """Compare final models, relative to the largest parameter, and what was measured of them."""
    expected, result = on("cpu", spec), on("cuda", spec)
    tolerance = TOLERANCE[spec["dtype"]]
    assert result.timing["device"] == "cuda"
    assert result.summary["status"] == expected.summary["status"] == "completed"
    scale = max(np.abs(array).max() for array in expected.parameters.values())
    for name, array in expected.parameters.items():
        assert np.abs(result.parameters[name] - array).max() <= tolerance * scale, name
    assert result.rows[-1]["test_loss"] == pytest.approx(expected.rows[-1]["test_loss"], rel=tolerance)
    exact = ("bytes_down", "bytes_up", "partition_sha256", "data_sha256", "spec_sha256")
    assert {key: result.summary[key] for key in exact} == {key: expected.summary[key] for key in exact}


@needs_gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_agrees_on_a_gpu(images: Path, algorithm: str, dtype: str) -> None:
    agree(specification(images, algorithm, "tanh", dtype=dtype))


@needs_gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("engine", ["autograd", "analytic", "stacked", "fused"])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_and_engine_agrees_on_a_gpu(images: Path, model: str, engine: str, dtype: str) -> None:
    agree(specification(images, "scaffold", model, dtype=dtype, engine=engine))


@needs_gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("engine", ["autograd", "stacked"])
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "rfedavg"])
def test_a_gpu_gives_the_same_bytes_twice(images: Path, algorithm: str, engine: str, precision: str) -> None:
    spec = specification(images, algorithm, "cnn", dtype="float32", engine=engine, precision=precision)
    first, second = on("cuda", spec), on("cuda", spec)
    assert first.summary == second.summary
    for name, array in first.parameters.items():
        assert np.array_equal(second.parameters[name], array), name


def test_auto_is_a_gpu_where_there_is_one(images: Path) -> None:
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    spec = specification(images, "fedavg", "linear")
    spec["training"] = {**spec["training"], "rounds": 1}
    assert on("auto", spec).timing["device"] == expected


def agree_to_the_bit(spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    spec["training"]["rounds"] = min(2, spec["training"]["rounds"])
    with pretended(monkeypatch):
        result = on("cuda", spec)
    expected = on("cpu", spec)
    assert result.timing["device"] == DEVICE.type
    assert result.summary == expected.summary
    for name, array in expected.parameters.items():
        assert np.array_equal(result.parameters[name], array), name


@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in ALGORITHMS],
)
def test_no_algorithm_computes_across_devices(
    images: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agree_to_the_bit(specification(images, algorithm, "tanh", engine="stacked"), monkeypatch)


@pytest.mark.parametrize("engine", ["autograd", "analytic", "stacked", "fused"])
@pytest.mark.parametrize("model", MODELS)
def test_no_engine_computes_across_devices(
    images: Path, model: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agree_to_the_bit(specification(images, "scaffold", model, engine=engine), monkeypatch)


def test_the_pretended_gpu_refuses_what_a_gpu_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    near = torch.arange(3.0)
    with pretended(monkeypatch):
        far = near.to(DEVICE)
        with pytest.raises(RuntimeError, match="same device"):
            far + near
        with pytest.raises(RuntimeError, match="same device"):
            torch.stack([near, far])
        with pytest.raises((RuntimeError, TypeError)):
            far.numpy()
        assert far[torch.tensor([2, 0])].cpu().tolist() == [2.0, 0.0]
        assert (far * torch.tensor(2.0)).device == DEVICE
        assert float(far.sum()) == 3.0
