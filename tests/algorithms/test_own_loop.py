"""Local training in plain PyTorch: the algorithms that fedcore has, written so, are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import fedcore
from fedcore.algorithms import AlgorithmOptions, recipe
from fedcore.base import registry
from fedcore.base.errors import BrokenContract, SpecError
from fedcore.base.registry import Plugin, plugins
from fedcore.engines import Batches, Upload
from fedcore.execution.result import Result
from fedcore.execution.runner import Settings
from fedcore.parts import Message, Plan, Run, State
from fedcore.parts.aggregate import averaging
from fedcore.parts.loop import Client, LocalTraining
from fedcore.parts.objective import Proximal
from fedcore.parts.schedule import Redistribution
from fedcore.parts.select import Assignments

Values = dict[str, Any]
CPU = Settings(device="cpu")


class Stop(Exception):
    """Ends a run before its time."""


@dataclass(frozen=True)
class PlainSgd(LocalTraining):
    """PyTorch's own loss and optimizer; ``noise`` is added to the inputs."""

    momentum: float = 0.0
    decay: float = 0.0
    noise: float = 0.0

    def train(self, client: Client, model: torch.nn.Module, batches: Batches) -> torch.nn.Module:
        optimizer = torch.optim.SGD(
            model.parameters(), client.rates[0], momentum=self.momentum, weight_decay=self.decay
        )
        for x, y in batches:
            optimizer.zero_grad()
            functional.cross_entropy(model(x + self.noise * torch.randn_like(x)), y).backward()
            optimizer.step()
        return model


@dataclass(frozen=True)
class PlainScaffold(LocalTraining):
    """SCAFFOLD's option 2: controls in the client's memory, on the way up and on the server."""

    def start(self, run: Run, state: State) -> None:
        state.server["c"] = torch.zeros_like(state.model)

    def train(self, client: Client, model: torch.nn.Module, batches: Batches) -> torch.nn.Module:
        parameters, c = list(model.parameters()), client.state.server["c"]
        control = client.memory.get("own", torch.zeros_like(c))
        received = torch.nn.utils.parameters_to_vector(parameters).detach()
        for lr, (x, y) in zip(client.rates, batches, strict=True):
            gradients = torch.autograd.grad(functional.cross_entropy(model(x), y), parameters)
            step = torch.nn.utils.parameters_to_vector(gradients) + c - control
            now = torch.nn.utils.parameters_to_vector(parameters) - lr * step
            torch.nn.utils.vector_to_parameters(now.detach(), parameters)
        client.memory["own"] = control - c + (received - now) / (len(client.rates) * client.rates[0])
        client.sent["change"] = client.memory["own"] - control
        return model

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        total = torch.stack([upload.extras["change"] for upload in uploads]).sum(0)
        state.server["c"] = state.server["c"] + total / len(run.problem.clients)

    def messages(self) -> tuple[Message, ...]:
        return Message("down", "c"), Message("up", "change of c_k")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(registry, "_REGISTERED", {kind: {} for kind in registry.PACKAGES})
    yield
    plugins.cache_clear()


def own(spec: Values, part: LocalTraining, **more: Any) -> Values:
    """Return a specification whose clients train by a part's loop."""
    loop_recipe = recipe(update=part, **more)
    plugin = Plugin("own", AlgorithmOptions, lambda options, spec: loop_recipe, "a loop", "this test")
    fedcore.register("algorithm", plugin)
    return {**spec, "algorithm": {"name": "own"}}


def close(one: Result, other: Result, tolerance: float) -> None:
    for name, array in one.parameters.items():
        np.testing.assert_allclose(other.parameters[name], array, rtol=0, atol=tolerance, err_msg=name)
    for key in ("bytes_up", "bytes_down"):
        assert [row[key] for row in one.rows] == [row[key] for row in other.rows]


@pytest.mark.parametrize("engine", ["autograd", "analytic", "stacked"])
def test_a_plain_loop_is_fedavg_whatever_the_engine(spec: Values, engine: str) -> None:
    spec |= {"dtype": "float64", "engine": engine}
    close(fedcore.run(spec, None, CPU, False), fedcore.run(own(spec, PlainSgd()), None, CPU, False), 1e-13)


def test_in_single_precision_it_gives_fedavg_s_bytes(spec: Values) -> None:
    spec |= {"engine": "autograd"}
    plain, ours = (fedcore.run(values, None, CPU, False) for values in (spec, own(spec, PlainSgd())))
    assert plain.rows == ours.rows
    for name, array in plain.parameters.items():
        np.testing.assert_array_equal(ours.parameters[name], array)


def test_pytorch_s_momentum_and_decay_are_the_specification_s(spec: Values) -> None:
    spec |= {"dtype": "float64"}
    spec["training"] = {**spec["training"], "momentum": 0.8, "weight_decay": 0.01}
    loop = PlainSgd(momentum=0.8, decay=0.01)
    close(fedcore.run(spec, None, CPU, False), fedcore.run(own(spec, loop), None, CPU, False), 1e-12)


def test_scaffold_s_memory_traffic_and_server_are_those_of_the_recipe(spec: Values) -> None:
    spec |= {"dtype": "float64"}
    theirs = {**spec, "algorithm": {"name": "scaffold", "option": 2}}
    ours = own(spec, PlainScaffold(), aggregate=averaging("uniform"))
    close(fedcore.run(theirs, None, CPU, False), fedcore.run(ours, None, CPU, False), 1e-12)


@pytest.mark.parametrize("part", [PlainScaffold(), PlainSgd(noise=0.5)], ids=["memory", "noise"])
def test_an_interrupted_run_goes_on_to_the_same_bytes(
    spec: Values, tmp_path: Path, part: LocalTraining
) -> None:
    spec = own(spec, part)
    fedcore.run(spec, tmp_path / "whole", CPU, False)

    def cut(done: int, total: int, row: Mapping[str, float]) -> None:
        if done == 3:
            raise Stop

    with pytest.raises(Stop):
        fedcore.run(spec, tmp_path / "cut", replace(CPU, checkpoint_seconds=0.0), cut)
    torch.manual_seed(123)
    before = torch.get_rng_state()
    rounds: list[int] = []
    fedcore.run(spec, tmp_path / "cut", CPU, lambda done, *_: rounds.append(done))
    assert rounds[0] == 3
    assert torch.equal(before, torch.get_rng_state())
    for name in ("history.csv", "summary.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_noise_follows_from_the_seed(spec: Values) -> None:
    spec = own(spec, PlainSgd(noise=0.5))
    first, again = (fedcore.run(spec, None, CPU, False).rows for _ in range(2))
    plain = fedcore.run(own(spec, PlainSgd()), None, CPU, False).rows
    assert first == again != plain


@dataclass(frozen=True)
class Noting(LocalTraining):
    """Trains nothing, and notes what PyTorch draws and the type that a model computes in."""

    drawn: list[float]
    types: set[torch.dtype]

    def train(self, client: Client, model: torch.nn.Module, batches: Batches) -> torch.nn.Module:
        self.drawn.append(float(torch.rand(())))
        self.types.update(model(x).dtype for x, _ in batches)
        return model


@dataclass(frozen=True)
class Twice(LocalTraining):
    """Two gradients a step, and a look at the batch without one."""

    def train(self, client: Client, model: torch.nn.Module, batches: Batches) -> torch.nn.Module:
        for x, y in batches:
            for _ in range(2):
                functional.cross_entropy(model(x), y).backward()
            with torch.no_grad():
                model(x)
        return model


def test_a_loop_s_rows_are_those_that_pass_its_model(spec: Values) -> None:
    spec |= {"evaluation": {"count_rows": True}}
    plain = fedcore.run(spec, None, CPU, False).summary
    once, twice = (fedcore.run(own(spec, part), None, CPU, False).summary for part in (PlainSgd(), Twice()))
    assert (
        plain["rows_gradient"] == once["rows_gradient"] > plain["rows_forward"] == once["rows_forward"] == 0
    )
    assert twice["rows_gradient"] == 2 * plain["rows_gradient"]
    assert twice["rows_forward"] == plain["rows_gradient"]


def test_each_visit_of_a_client_draws_anew(spec: Values) -> None:
    """A model may come to the same client twice in a round."""
    part = Noting([], set())
    select = Assignments(redistributions=2)
    spec = own(spec, part, schedule=Redistribution(select), select=select)
    spec |= {"participation": {"assignments": [[0], [0]]}}
    fedcore.run(spec, None, CPU, False)
    assert len(set(part.drawn)) == 2 * spec["training"]["rounds"]


def test_each_client_of_a_round_draws_its_own(spec: Values) -> None:
    part = Noting([], set())
    fedcore.run(own(spec, part) | {"participation": {}}, None, CPU, False)
    assert len({*part.drawn}) == len(part.drawn) == 5 * spec["training"]["rounds"]


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_a_loop_computes_in_the_precision_asked_for(spec: Values, precision: str, dtype: torch.dtype) -> None:
    part = Noting([], set())
    fedcore.run(own(spec, part) | {"precision": precision}, None, CPU, False)
    assert part.types == {dtype}


def test_a_module_of_the_user_s_trains_by_the_user_s_loop(spec: Values) -> None:
    def make(options: Any, shape: Any) -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Flatten(),
            torch.nn.Linear(64, 8),
            torch.nn.GroupNorm(2, 8),
            torch.nn.Linear(8, shape.classes),
        )

    fedcore.register("model", fedcore.from_module("net", make))
    spec |= {"model": {"name": "net"}, "dtype": "float64"}
    close(fedcore.run(spec, None, CPU, False), fedcore.run(own(spec, PlainSgd()), None, CPU, False), 1e-12)


def test_terms_beside_a_loop_are_refused() -> None:
    with pytest.raises(SpecError, match="its loop has its own objective, found the term 'proximal'"):
        recipe(update=PlainSgd(), objective=(Proximal(1.0),))


class Overwrites(PlainSgd):
    """Sets the rows that it has got to zero."""

    def train(self, client: Client, model: torch.nn.Module, batches: Batches) -> torch.nn.Module:
        for x, y in batches:
            x.zero_(), y.zero_()
        return model


def test_a_loop_that_writes_to_its_batches_leaves_the_data_as_they_are(spec: Values) -> None:
    spec["training"] = {**spec["training"], "batch_size": "full", "rounds": 1}
    first, last = fedcore.run(own(spec, Overwrites()), None, CPU, False).rows
    assert last["train_loss"] == first["train_loss"]


@dataclass(frozen=True)
class Averages(PlainSgd):
    """Keeps and sends a mean of its rows in the type that its model computes in."""

    types: list[torch.dtype] = field(default_factory=list)

    def train(self, client: Client, model: torch.nn.Module, batches: Batches) -> torch.nn.Module:
        self.types.extend(value.dtype for value in client.memory.values())
        client.memory["mean"] = client.sent["mean"] = sum(model(x).mean() for x, _ in batches)
        return model

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        self.types.extend(upload.extras["mean"].dtype for upload in uploads)


def test_what_a_loop_keeps_in_bfloat16_is_float32_as_a_checkpoint_has_it(
    spec: Values, tmp_path: Path
) -> None:
    part = Averages()
    fedcore.run(own(spec, part) | {"precision": "bf16"}, tmp_path, replace(CPU, checkpoint_seconds=0), False)
    assert {*part.types} == {torch.float32}


class AwkwardNames(torch.nn.Module):
    """Has parameters of the names of a loop's own methods, and two that differ in their punctuation."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.features, self.named = (torch.nn.Parameter(torch.ones(64)) for _ in range(2))
        self.a_b = torch.nn.Parameter(torch.zeros(64))
        self.a = torch.nn.ParameterDict({"b": torch.zeros(64)})
        self.last = torch.nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.last(x * self.features * self.named + self.a_b + self.a["b"])
        return scores


def test_a_model_s_parameters_may_have_any_names(spec: Values) -> None:
    make = lambda options, shape: AwkwardNames(shape.classes)  # noqa: E731
    fedcore.register("model", fedcore.from_module("awkward", make))
    spec |= {"model": {"name": "awkward"}, "dtype": "float64"}
    close(fedcore.run(spec, None, CPU, False), fedcore.run(own(spec, PlainSgd()), None, CPU, False), 1e-12)


@dataclass(frozen=True)
class Forgets(PlainSgd):
    """Leaves what ``left`` says in the first round, and takes it out in the second."""

    left: Any = None
    extra: Any = None

    def train(self, client: Client, model: torch.nn.Module, batches: Batches) -> torch.nn.Module:
        seen = client.memory.pop("seen", None)
        assert (seen is not None) == (client.state.round == 1)
        if client.state.round == 0:
            client.memory["seen"] = self.left
        if self.extra is not None:
            client.sent["extra"] = self.extra
        return super().train(client, model, batches)


def test_what_a_client_deletes_from_its_memory_is_gone(spec: Values) -> None:
    spec |= {"participation": {}, "training": {**spec["training"], "rounds": 4}}
    fedcore.run(own(spec, Forgets(left=torch.tensor(1.0))), None, CPU, False)


@dataclass(frozen=True)
class Returns(PlainSgd):
    """Returns something else than the model."""

    other: Any = None

    def train(self, client: Client, model: torch.nn.Module, batches: Batches) -> Any:
        return self.other


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Forgets(left=1), r"client\.memory\['seen'\] is of type int, expected a tensor"),
        (Forgets(left=torch.tensor(1.0), extra=0.5), r"client\.sent\['extra'\] is of type float, expected a"),
        (Returns(), "train returned NoneType, expected the model"),
        (
            Returns(other=torch.nn.Linear(2, 3)),
            r"train returned a module of 9 parameters, expected the model of 1210",
        ),
    ],
)
def test_what_a_loop_must_not_leave_or_return_is_named(spec: Values, part: PlainSgd, message: str) -> None:
    with pytest.raises(BrokenContract, match=f"^algorithm 'own': {message}"):
        fedcore.run(own(spec, part), None, CPU, False)
