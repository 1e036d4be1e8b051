"""The MobileNetV2 head: the architecture, what is trained, and the trunk computed once."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.models import mobilenet_v2

from fedcore.base.errors import SpecError
from fedcore.engines.forward import forward
from fedcore.engines.problem import Block, Problem
from fedcore.execution.runner import Settings, prepare, run
from fedcore.models import Shape, initialise
from fedcore.models.mobilenetv2_head import MobileNetOptions, MobileNetV2, build
from fedcore.spec import parse

SHAPE = Shape((3, 32, 32), 10)


def untrained(resize: int = 0) -> MobileNetV2:
    return build(MobileNetOptions(weights="random", resize=resize), SHAPE)


def arrays(seed: int = 0) -> dict[str, Any]:
    return untrained().initial(np.random.default_rng(seed))


@pytest.mark.slow
def test_architecture_and_names_are_torchvision_s() -> None:
    rng = np.random.default_rng(1)
    drawn = arrays()
    for name, array in drawn.items():
        if name.endswith(("running_mean", "bias")):
            array += rng.normal(0, 0.1, array.shape)
    reference = mobilenet_v2(num_classes=10).double().eval()
    stored = {name: torch.as_tensor(array, dtype=torch.float64) for name, array in drawn.items()}
    missing, unexpected = reference.load_state_dict(stored, strict=False)
    assert not unexpected
    assert all(name.endswith("num_batches_tracked") for name in missing)
    x = torch.as_tensor(rng.normal(size=(2, 3, 64, 64)))
    model = untrained()
    scores = model.scores(stored, model.features(stored, x))
    torch.testing.assert_close(scores, reference(x).detach())


def test_trains_the_last_block_the_last_convolution_and_the_classifier() -> None:
    names = set(untrained().trainable.shapes)
    assert {name.split(".")[1] for name in names if name.startswith("features")} == {"17", "18"}
    assert not any("running" in name for name in names)
    assert sum(
        map(prod, untrained().trainable.shapes.values())
    ) == 153_600 + 8_640 + 307_200 + 409_600 + 12_810 + 2 * (960 + 960 + 320 + 1280)


def test_the_trunk_is_computed_once(tmp_path: Path) -> None:
    spec = {
        "data": {"name": "cifar10", "edition": "demo", "scaling": "symmetric"},
        "partition": {"name": "iid", "clients": 3},
        "model": {"name": "mobilenetv2_head", "weights": "random", "resize": 0},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 1, "batch_size": 16, "lr": 0.01},
    }
    prepared, _, notes = prepare(parse(spec), Settings(device="cpu"))
    assert notes["model_note"] == "MobileNetV2 with an untrained trunk"
    assert prepared.problem.test.x.shape[1:] == (160, 1, 1)
    model = untrained()
    flat, buffers = initialise(model, "default", prepared.streams.get("model"), torch.float32)
    assert torch.equal(flat, prepared.problem.start)
    images, _, _ = prepare(parse({**spec, "model": {"name": "linear"}}), Settings(device="cpu"))
    test = Block(images.problem.test.x[:20], images.problem.test.y[:20])
    directly = Problem(model, buffers, flat, (test,), test, test, None, 10)
    torch.testing.assert_close(
        forward(prepared.problem, flat, prepared.problem.test.x[:20], test.y)[0],
        forward(directly, flat, test.x, test.y)[0],
        rtol=1e-4,
        atol=1e-5,
    )
    result = run(spec)
    assert result.rows[1]["train_loss"] < result.rows[0]["train_loss"]


def test_images_are_enlarged() -> None:
    x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    p = {name: torch.as_tensor(array, dtype=torch.float32) for name, array in arrays().items()}
    enlarged = torch.nn.functional.interpolate(x, (64, 64), mode="bilinear")
    output = untrained(resize=64).trunk(p, x)
    assert output.shape == (1, 160, 2, 2)
    torch.testing.assert_close(output, untrained().trunk(p, enlarged))


def test_stored_weights_by_path(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    stored = {name: array.astype(np.float32) for name, array in arrays(seed=5).items()}
    np.savez(path, **stored)
    model = build(MobileNetOptions(weights=str(path)), SHAPE)
    initial = model.initial(np.random.default_rng(0))
    for name in ("features.3.conv.0.0.weight", "features.18.1.running_var"):
        assert np.array_equal(initial[name], stored[name])
    assert not np.array_equal(initial["classifier.1.weight"], stored["classifier.1.weight"])
    np.savez(path, **{**stored, "features.18.1.running_var": np.full(1280, np.nan)})
    with pytest.raises(SpecError, match=r"model\.weights: 'features\.18\.1\.running_var' in .* not finite"):
        build(MobileNetOptions(weights=str(path)), SHAPE)
    np.savez(path, **{**stored, "features.0.0.weight": np.zeros((3, 3, 3, 3), np.float32)})
    with pytest.raises(
        SpecError, match=r"'features\.0\.0\.weight': found \(3, 3, 3, 3\), expected \(32, 3, 3, 3\)"
    ):
        build(MobileNetOptions(weights=str(path)), SHAPE).initial(np.random.default_rng(0))


def test_wrong_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"takes images \[3, height, width\]"):
        build(MobileNetOptions(weights="random"), Shape((1, 28, 28), 10))
    with pytest.raises(SpecError, match=r"model\.weights: no file nowhere\.npz, expected full, tflite"):
        build(MobileNetOptions(weights="nowhere.npz"), SHAPE)
