"""Models that expect inputs of a kind: weights trained on scaled pixels, an LSTM with a dense layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from fedcore.base.errors import SpecError
from fedcore.data import Source
from fedcore.data.datasets import mobilenetv2
from fedcore.execution.runner import load_data
from fedcore.models import Shape
from fedcore.models.lstm import Lstm, LstmOptions, build
from fedcore.models.mobilenetv2_head import MobileNetOptions
from fedcore.models.mobilenetv2_head import build as mobilenet
from fedcore.spec import parse
from pipeline.papers import catalogue_of

HOME = Path(__file__).parents[2]
SOURCE = Source(HOME / "data", offline=True)


def images(scaling: str) -> np.ndarray:
    dataset, _ = load_data(f'{{"edition":"demo","name":"cifar10","scaling":"{scaling}"}}', SOURCE)
    return np.asarray(dataset.train.x[:4], np.float64)


def test_pixels_are_scaled_as_weights_expect_them() -> None:
    bytes_ = images("raw")
    np.testing.assert_allclose(images("symmetric"), bytes_ / 127.5 - 1, atol=1e-6)
    mean, std = (np.array(rgb)[:, None, None] for rgb in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    np.testing.assert_allclose(images("imagenet"), (bytes_ / 255 - mean) / std, atol=1e-6)


@pytest.mark.parametrize(("weights", "expected"), mobilenetv2.SCALINGS.items())
def test_another_scaling_than_the_weights_is_refused_before_they_are_fetched(
    weights: str, expected: str
) -> None:
    shape = Shape((3, 32, 32), 10, scaling="standard")
    with pytest.raises(SpecError) as caught:
        mobilenet(MobileNetOptions(weights=weights), shape)
    assert str(caught.value) == (
        f"data.scaling: got 'standard', expected '{expected}', with which the weights '{weights}' of "
        "model.weights were trained"
    )
    mobilenet(MobileNetOptions(weights="random"), shape)


@pytest.mark.parametrize(("overlay", "weights"), [(None, "full"), ("data/editions.yaml", "tflite")])
def test_radfed_scales_cifar10_as_its_weights_expect(overlay: str | None, weights: str) -> None:
    catalogue = catalogue_of(HOME / "params.yaml", "paper", HOME / overlay if overlay else None)
    specs = [
        run.spec
        for run in catalogue.planned("radfed").runs.values()
        if run.spec["model"]["name"] == "mobilenetv2_head"
    ]
    assert {spec["model"]["weights"] for spec in specs} == {weights}
    assert {spec["data"]["scaling"] for spec in specs} == {mobilenetv2.SCALINGS[weights]}


def test_a_dense_layer_of_the_lstm_is_its_feature() -> None:
    """relu(W h + b) of the LSTM's last output h, which is the feature without that layer."""
    rng = np.random.default_rng(0)
    with_dense, without = Lstm(11, 4, 3, 5, 2, dense=6), Lstm(11, 4, 3, 5, 2)
    p = {name: torch.as_tensor(array) for name, array in with_dense.initial(rng).items()}
    x = torch.as_tensor(rng.integers(0, 11, (7, 9)))
    h = without.features(p, x)
    phi = with_dense.features(p, x)
    expected = np.maximum(h.numpy() @ p["dense.weight"].numpy().T + p["dense.bias"].numpy(), 0)
    np.testing.assert_allclose(phi.numpy(), expected, rtol=1e-12)
    assert with_dense.trainable.shapes["fc.weight"] == (4, 6)
    assert set(p) == set(with_dense.trainable.shapes)


def test_without_it_the_lstm_and_its_specification_are_what_they_were() -> None:
    assert "dense" not in LstmOptions().model_dump()
    assert "dense.weight" not in build(LstmOptions(hidden=5), Shape((9,), 4, 11)).trainable.shapes


def test_rfedavgs_sent140_has_500_users_and_a_dense_layer() -> None:
    catalogue = catalogue_of(HOME / "params.yaml", "paper")
    for target, clients in (("table1", 20), ("table2", 500)):
        for split in ("noniid", "iid"):
            run = catalogue.cells("rfedavg", target)["rfedavg", f"sent140-{split}"][0]
            assert run.spec["model"]["dense"] == 256
            assert run.spec["partition"]["clients"] == clients
            assert run.spec["partition"].get("users", clients) == 500
            parse(yaml.safe_load(yaml.safe_dump(dict(run.spec))))
