"""Models compute what PyTorch's own modules of the same weights compute."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedcore.base.errors import SpecError
from fedcore.base.lazy import functional
from fedcore.base.registry import chosen
from fedcore.execution.runner import run
from fedcore.models import Shape, initialise
from fedcore.models.cnn import Cnn
from fedcore.models.lstm import Lstm, LstmOptions, build
from fedcore.models.rff import RffOptions
from fedcore.models.rff import build as build_rff

RNG = np.random.default_rng(0)


def parameters(model: Cnn | Lstm) -> dict[str, torch.Tensor]:
    drawn = model.initial(np.random.default_rng(1))
    return {name: torch.as_tensor(array, dtype=torch.float64) for name, array in drawn.items()}


def test_cnn() -> None:
    model = Cnn((3, 12, 8), 5, (4, 6), 7)
    p = parameters(model)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(3, 4, 5, padding=2), nn.Conv2d(4, 6, 5, padding=2)
            self.fc1, self.fc2 = nn.Linear(6 * 3 * 2, 7), nn.Linear(7, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for conv in (self.conv1, self.conv2):
                x = torch.max_pool2d(torch.relu(conv(x)), 2)
            scores: torch.Tensor = self.fc2(torch.relu(self.fc1(x.flatten(1))))
            return scores

    net = Net().double()
    net.load_state_dict(p)
    x = torch.as_tensor(RNG.normal(size=(9, 3, 12, 8)))
    torch.testing.assert_close(model.scores(p, model.features(p, x)), net(x))


@pytest.mark.parametrize("given", [True, False], ids=["fixed vectors", "trained embedding"])
def test_lstm(given: bool) -> None:
    vectors = RNG.normal(size=(30, 7)).astype(np.float32)
    shape = Shape((11,), 3, vocabulary=30, embeddings=vectors if given else None)
    model = build(LstmOptions(hidden=16, embedding=5), shape)
    p = parameters(model)
    assert ("embedding.weight" in model.trainable.shapes) is not given
    width = 7 if given else 5
    lstm = nn.LSTM(width, 16, num_layers=2, batch_first=True).double()
    lstm.load_state_dict({name[5:]: value for name, value in p.items() if name.startswith("lstm.")})
    tokens = torch.as_tensor(RNG.integers(0, 30, (6, 11)))
    outputs, _ = lstm(p["embedding.weight"][tokens])
    torch.testing.assert_close(model.features(p, tokens), outputs[:, -1])
    head = outputs[:, -1] @ p["fc.weight"].T + p["fc.bias"]
    torch.testing.assert_close(model.scores(p, model.features(p, tokens)), head)


def test_lstm_refuses_numbers() -> None:
    with pytest.raises(SpecError, match="'lstm' takes sequences of tokens"):
        build(LstmOptions(), Shape((5,), 2))


@pytest.mark.parametrize("name", ["linear", "logistic", "linear_outputs", "mlp", "rff_linear"])
def test_models_of_numbers_refuse_tokens(name: str) -> None:
    with pytest.raises(SpecError, match=r"model\.name: the data are tokens, expected a model of tokens"):
        chosen("model", {"name": name}).build(Shape((11,), 3, vocabulary=30))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "lacks 'weight', expected parameters omega, phase, weight"),
        (
            {"weight": np.zeros((3, 4)), "phase": np.zeros(1)},
            r"'phase' in .* has shape \(1,\), expected \(4,\)",
        ),
        ({"weight": np.zeros((4, 3))}, r"'weight' in .* has shape \(4, 3\), expected \(3, 4\)"),
        ({"weight": np.zeros((3, 4)), "phase": np.ones(4)}, None),
    ],
)
def test_a_file_of_start_weights_holds_what_is_trained_in_its_shape(
    arrays: dict[str, np.ndarray], message: str | None, tmp_path: Path
) -> None:
    np.savez(tmp_path / "w.npz", allow_pickle=False, **arrays)
    model = chosen("model", {"name": "rff_linear", "features": 4}).build(Shape((5,), 3))
    with nullcontext() if message is None else pytest.raises(SpecError, match=f"model.init: .*{message}"):
        _, buffers = initialise(model, str(tmp_path / "w.npz"), np.random.default_rng(0), torch.float32)
        assert buffers["phase"].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("algorithm", ["fedavg", "radfed_i"])
def test_linear_with_outputs_as_features_learns_what_linear_learns(
    spec: dict[str, Any], algorithm: str
) -> None:
    spec = {**spec, "algorithm": {"name": algorithm}, "dtype": "float64", "engine": "autograd"}
    plain = run({**spec, "model": {"name": "linear"}})
    other = run({**spec, "model": {"name": "linear_outputs"}})
    for name in ("weight", "bias"):
        np.testing.assert_allclose(other.parameters[f"phi.{name}"], plain.parameters[name], atol=1e-12)
    assert other.rows[-1]["test_loss"] == pytest.approx(plain.rows[-1]["test_loss"], abs=1e-12)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_pooled_channels_last(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = []

    def max_pool2d(x: torch.Tensor, size: int) -> torch.Tensor:
        layouts.append(x.is_contiguous(memory_format=torch.channels_last))
        return pooled(x, size)

    pooled = torch.nn.functional.max_pool2d
    monkeypatch.setattr(functional, "max_pool2d", max_pool2d)
    model = Cnn((channels, 28, 28), 10)
    p = parameters(model)
    model.features(p, torch.zeros(2, channels, 28, 28, dtype=torch.float64))
    assert layouts == [True, True]


def random_features(width: int, scale: Any, sigma: float, x: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the features of rows x [n, 3] of one draw."""
    model = build_rff(RffOptions(features=width, scale=scale, sigma=sigma), Shape((3,), 2))
    drawn = model.initial(np.random.default_rng(seed))
    p = {name: torch.as_tensor(array, dtype=torch.float64) for name, array in drawn.items()}
    return model.features(p, torch.as_tensor(x)).numpy()


def test_random_features_scaled_by_the_root_have_at_most_norm_1() -> None:
    features = random_features(50, "inv_sqrt_d", 3.0, RNG.normal(0, 10, (1000, 3)))
    assert 0.5 < np.linalg.norm(features, axis=1).max() <= 1


def test_random_features_approximate_the_gaussian_kernel() -> None:
    """The mean product of two rows' features is exp(-sigma^2 d^2 / 2): 100 times as many, 10 times nearer."""
    x, sigma = RNG.normal(size=(20, 3)), 0.7
    kernel = np.exp(-(sigma**2) * np.sum((x[:, None] - x) ** 2, axis=2) / 2)
    error = {}
    for width in (100, 10_000):
        drawn = (random_features(width, "sqrt2", sigma, x, seed) for seed in range(20))
        error[width] = np.sqrt(np.mean([(phi @ phi.T / width - kernel) ** 2 for phi in drawn]))
    assert error[100] / error[10_000] == pytest.approx(10, rel=0.2)
