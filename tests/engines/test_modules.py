"""Any torch.nn.Module is a model: the same numbers as ours, refusals in one line, torchvision by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torchvision

import fedcore
from fedcore.base import registry
from fedcore.base.errors import SpecError
from fedcore.base.options import validate
from fedcore.base.registry import Plugin, find, plugins
from fedcore.conformance import check_results, models
from fedcore.models import Shape, initialise
from fedcore.models.module import ModuleOptions, from_module

SHAPE = Shape((6,), 3)


class Net(torch.nn.Module):
    """What ``mlp`` with one hidden layer is, in PyTorch."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(inputs, 5)
        self.fc = torch.nn.Linear(5, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        scores: torch.Tensor = self.fc(torch.relu(self.hidden(x)))
        return scores


@pytest.fixture
def known() -> Iterator[Callable[..., None]]:
    """Register models for one test."""
    names: list[str] = []

    def register(name: str, make: Callable[[Any, Shape], torch.nn.Module], head: str = "") -> None:
        names.append(name)
        fedcore.register("model", from_module(name, make, head=head))

    yield register
    for name in names:
        registry._REGISTERED["model"].pop(name, None)
    plugins.cache_clear()


def specification(model: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A short run on generated data."""
    return {
        "data": {"name": "synthetic", "clients": 4, "dimension": 6, "classes": 3, "largest": 60},
        "partition": {"name": "natural"},
        "model": model,
        "algorithm": {"name": "rfedavg_plus"},
        "training": {"rounds": 3, "local_epochs": 1, "batch_size": 8, "lr": 0.1},
        "dtype": "float64",
        **more,
    }


@pytest.mark.parametrize("engine", ["autograd", "stacked"])
def test_a_module_computes_what_our_own_model_does(
    engine: str, known: Callable[..., None], tmp_path: Any
) -> None:
    known("net", lambda options, shape: Net(shape.inputs[0], shape.classes))
    rng = np.random.default_rng(0)
    values = {"hidden": (5, 6), "fc": (3, 5)}
    arrays = {f"{name}.weight": rng.standard_normal(shape) / 3 for name, shape in values.items()}
    arrays |= {f"{name}.bias": np.zeros(shape[0]) for name, shape in values.items()}
    ours = {name.replace("hidden", "layers.0").replace("fc", "layers.1"): a for name, a in arrays.items()}
    np.savez(tmp_path / "own.npz", allow_pickle=False, **arrays)
    np.savez(tmp_path / "ours.npz", allow_pickle=False, **ours)
    result = fedcore.run(specification({"name": "net", "init": str(tmp_path / "own.npz")}, engine=engine))
    expected = fedcore.run(
        specification({"name": "mlp", "hidden": [5], "init": str(tmp_path / "ours.npz")}, engine=engine)
    )
    assert result.rows[-1]["test_loss"] == pytest.approx(expected.rows[-1]["test_loss"], rel=1e-12)
    np.testing.assert_allclose(
        result.parameters["hidden.weight"], expected.parameters["layers.0.weight"], rtol=1e-10, atol=1e-14
    )


def test_its_start_is_torch_s_own_and_follows_the_seed(known: Callable[..., None]) -> None:
    known("net", lambda options, shape: Net(shape.inputs[0], shape.classes))
    model = find("model", "net").build(ModuleOptions(), SHAPE)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other = (model.initial(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["fc.weight"], other["fc.weight"])
    torch.manual_seed(int(np.random.default_rng(1).integers(2**63)))
    assert np.array_equal(first["fc.weight"], Net(6, 3).fc.weight.detach().numpy())


def test_frozen_parameters_and_buffers_stay_as_they_are(known: Callable[..., None]) -> None:
    def make(options: Any, shape: Shape) -> torch.nn.Module:
        net = Net(shape.inputs[0], shape.classes)
        net.hidden.requires_grad_(False)
        net.register_buffer("table", torch.arange(3))
        return net

    known("net", make)
    model = find("model", "net").build(ModuleOptions(), SHAPE)
    assert list(model.trainable.shapes) == ["fc.weight", "fc.bias"]
    flat, buffers = initialise(model, "default", np.random.default_rng(0), torch.float64)
    assert len(flat) == 18
    assert set(buffers) == {"hidden.weight", "hidden.bias"}
    x = torch.ones(2, 6, dtype=torch.float64)
    p = {**model.trainable.views(flat), **buffers}
    by_hand = torch.relu(x @ buffers["hidden.weight"].T + buffers["hidden.bias"])
    assert torch.allclose(model.features(p, x), by_hand)
    assert torch.allclose(model.scores(p, by_hand), by_hand @ p["fc.weight"].T + p["fc.bias"])


def test_a_frozen_head_has_a_trace_norm_without_a_gradient(known: Callable[..., None]) -> None:
    def make(options: Any, shape: Shape) -> torch.nn.Module:
        net = Net(shape.inputs[0], shape.classes)
        net.fc.requires_grad_(False)
        return net

    known("net", make)
    with_norm, without = (
        fedcore.run(
            specification(
                {"name": "net"},
                algorithm={"name": "fedavgr", "alpha": alpha},
                evaluation={"observe": {"risk": None}},
            )
        )
        for alpha in (0.1, 0)
    )
    assert with_norm.rows == without.rows
    assert with_norm.tables["risk"][-1]["approximation"] > 0


def _sequence(*layers: torch.nn.Module) -> Callable[[Any, Shape], torch.nn.Module]:
    return lambda options, shape: torch.nn.Sequential(*layers)


LINEAR = torch.nn.Linear


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (
            _sequence(LINEAR(6, 4), torch.nn.BatchNorm1d(4), LINEAR(4, 3)),
            {},
            "model.norm: 'net' holds BatchNorm1d '1', expected norm: group or frozen",
        ),
        (
            _sequence(LINEAR(6, 5), torch.nn.BatchNorm1d(5), LINEAR(5, 3)),
            {"norm": "group"},
            "model.groups: got 2, expected a divisor of the 5 channels of '1'",
        ),
        (
            _sequence(LINEAR(6, 4), torch.nn.Dropout(0.5), LINEAR(4, 3)),
            {},
            "model.dropout: 'net' holds Dropout '1', expected dropout: off",
        ),
        (
            _sequence(LINEAR(7, 3)),
            {},
            "model 'net' can't take inputs [6]: mat1 and mat2 shapes cannot be multiplied (4x6 and 7x3)",
        ),
        (
            lambda options, shape: LINEAR(shape.inputs[2], shape.classes),
            {},
            "model 'net' can't be made for inputs [6]: tuple index out of range",
        ),
        (_sequence(LINEAR(6, 4)), {}, "model 'net' returns [4, 4], expected scores [4, 3] of 4 rows"),
        (
            _sequence(torch.nn.Tanh()),
            {},
            "model 'net': found no linear layer at its end, expected one that gives the scores",
        ),
        (
            _sequence(LINEAR(6, 3), torch.nn.Tanh()),
            {},
            "model 'net': its output is not that of layer 0.weight, expected head=...",
        ),
        (
            _sequence(LINEAR(6, 6), torch.nn.AvgPool1d(2)),
            {},
            "model 'net': its output is not that of layer 0.weight, expected head=...",
        ),
        (
            _sequence(LINEAR(6, 4), torch.nn.utils.parametrizations.weight_norm(LINEAR(4, 3))),
            {},
            "model 'net': its output is not that of layer 1.weight, expected head=...",
        ),
        (
            _sequence(torch.nn.ReLU(inplace=True), LINEAR(6, 3)),
            {},
            "model 'net' changes its inputs in place, expected one that leaves them alone",
        ),
        (
            _sequence(LINEAR(6, 4), torch.nn.RReLU(), LINEAR(4, 3)),
            {},
            "model 'net' computes in another way in training mode, expected the same in both",
        ),
        (
            _sequence(torch.nn.LazyLinear(4), LINEAR(4, 3)),
            {},
            "model 'net': parameter '0.weight' is of no shape yet, expected float32 of a shape",
        ),
        (
            _sequence(LINEAR(6, 3, dtype=torch.float64)),
            {},
            "model 'net': parameter '0.weight' is torch.float64, expected float32 of a shape",
        ),
        (
            lambda options, shape: LINEAR(6, 3).requires_grad_(False),
            {},
            "model 'net': no parameter requires a gradient, expected some to train",
        ),
    ],
)
def test_what_can_not_be_averaged_is_refused_in_one_line(
    make: Callable[[Any, Shape], torch.nn.Module], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError) as refusal:
        from_module("net", make).build(ModuleOptions(**options), SHAPE)
    assert str(refusal.value).replace("addmm: ", "") == message


class Scaled(Net):
    """A network whose inputs are multiplied by a parameter that is one number."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__(inputs, classes)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        return super().forward(self.scale * x)


@pytest.mark.parametrize("engine", ["autograd", "stacked"])
def test_a_parameter_may_be_one_number(engine: str, known: Callable[..., None]) -> None:
    known("scaled", lambda options, shape: Scaled(shape.inputs[0], shape.classes))
    result = fedcore.run(specification({"name": "scaled"}, engine=engine))
    assert result.parameters["scale"].shape == ()
    assert result.parameters["scale"] != 2


def test_groups_without_group_norm_are_refused() -> None:
    with pytest.raises(SpecError, match="groups: got 4 with norm 'frozen', expected norm: group"):
        validate(ModuleOptions, {"norm": "frozen", "groups": 4}, "model")


def test_group_norm_takes_the_place_of_batch_norm_and_frozen_keeps_its_statistics() -> None:
    def make(options: Any, shape: Shape) -> torch.nn.Module:
        return torch.nn.Sequential(LINEAR(6, 4), torch.nn.BatchNorm1d(4), LINEAR(4, 3))

    plugin = from_module("net", make)
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    for norm in ("group", "frozen"):
        model = plugin.build(ModuleOptions(norm=norm), SHAPE)
        flat, buffers = initialise(model, "default", np.random.default_rng(0), torch.float32)
        p = {**model.trainable.views(flat), **buffers}
        inner = x @ p["0.weight"].T + p["0.bias"]
        by_hand = torch.nn.functional.group_norm(inner, 2) if norm == "group" else inner / (1 + 1e-5) ** 0.5
        assert torch.allclose(model.features(p, x), by_hand, atol=1e-6)
        assert set(buffers) == ({"1.running_mean", "1.running_var"} if norm == "frozen" else set())


def test_a_network_of_torchvision_is_that_network() -> None:
    name = "shufflenet_v2_x0_5"
    model = find("model", "torchvision").build(
        validate(find("model", "torchvision").options, {"arch": name, "norm": "frozen"}, "model"),
        Shape((3, 32, 32), 10),
    )
    flat, buffers = initialise(model, "default", np.random.default_rng(3), torch.float32)
    network = torchvision.models.get_model(name, num_classes=10).eval()
    state = {**model.trainable.views(flat), **buffers}
    network.load_state_dict(state, strict=False)
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(model.scores(state, model.features(state, x)), network(x), atol=1e-5)


@pytest.mark.parametrize(
    ("arch", "shape", "message"),
    [
        (
            "resnet81",
            (3, 32, 32),
            r"got 'resnet81', expected a network of torchvision.models \(did you mean 'resnet",
        ),
        ("resnet18", (1, 28, 28), r"nets take images \[3, height, width\], got \(1, 28, 28\)"),
        ("vit_b_16", (3, 32, 32), r"can't take inputs \[3, 32, 32\]: Wrong image height"),
    ],
)
def test_torchvision_s_networks_are_refused_in_one_line(
    arch: str, shape: tuple[int, ...], message: str
) -> None:
    plugin = find("model", "torchvision")
    with pytest.raises(SpecError, match=message):
        plugin.build(validate(plugin.options, {"arch": arch}, "model"), Shape(shape, 10))


def failures(plugin: Plugin) -> dict[str, str]:
    """Return what a model does wrong, by what is demanded."""
    return {check.demand: check.wrong for check in check_results(models.checks(plugin, {})) if check.wrong}


@pytest.mark.parametrize("name", ["cnn", "linear", "linear_outputs", "logistic", "lstm", "mlp", "rff_linear"])
def test_our_models_do_what_every_model_must(name: str) -> None:
    assert not failures(find("model", name))


class Mixed(torch.nn.Module):
    """A row's scores depend on the other rows."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = LINEAR(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.fc(x - x.mean(0, keepdim=True))
        return scores


class Stopped(torch.nn.Module):
    """No gradient reaches the inner layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.fc = LINEAR(12, 5), LINEAR(5, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.fc(torch.tanh(self.inner(x)).detach())
        return scores


@pytest.mark.parametrize(
    ("wrong", "demand"),
    [
        (Mixed, "the loss of a row depends on no other row"),
        (Stopped, "gradients are those of finite differences"),
    ],
)
def test_conformance_finds_what_a_model_does_wrong(wrong: type[torch.nn.Module], demand: str) -> None:
    assert list(failures(from_module("net", lambda options, shape: wrong()))) == [demand]


def test_a_registered_name_is_free_and_of_a_known_kind(known: Callable[..., None]) -> None:
    plugin = from_module("mlp", lambda options, shape: Net(shape.inputs[0], shape.classes))
    with pytest.raises(SpecError, match="model 'mlp': a file declares this name, expected another"):
        fedcore.register("model", plugin)
    with pytest.raises(SpecError, match="kind: got 'models', expected one of algorithm, data"):
        find("models", "cnn")
    with pytest.raises(SpecError, match="kind: got 'network', expected one of algorithm, data"):
        fedcore.register("network", plugin)
    for hidden in (5, 6):
        known("net", lambda options, shape, width=hidden: torch.nn.Linear(6, width))
        assert find("model", "net").build(ModuleOptions(), Shape((6,), hidden)).trainable.size == 7 * hidden
