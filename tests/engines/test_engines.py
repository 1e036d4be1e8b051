"""What each engine promises: its choice, its contract for writing gradients, and rows mapped once."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_cases import MODELS, specification
from wording import one_line

from fedcore.base.errors import SpecError
from fedcore.engines import Batch, BoundTerm, problem
from fedcore.engines import forward as engines
from fedcore.engines.analytic import KEPT, Analytic
from fedcore.engines.autograd import Autograd
from fedcore.engines.train import Size, batches_of
from fedcore.execution.metrics import measure
from fedcore.execution.runner import Settings, prepare, run
from fedcore.parts import Run, State
from fedcore.spec import parse


def made(folder: Path, model: str, **others: Any) -> Run:
    spec = specification(folder, "fedavg", model, **others)
    return prepare(parse(spec), Settings(device="cpu"))[0]


def towards_one(phi: torch.Tensor, batch: Batch) -> torch.Tensor:
    """A term that has no closed-form gradient."""
    return (batch.weights @ phi - 1).pow(4).sum()


def test_buffers_of_few_batch_sizes_stay_and_give_the_same_bytes(images: Path) -> None:
    run = made(images, "tanh")
    engine, w, block = Analytic(run.problem), run.problem.start, run.problem.train

    def gradient(engine: Analytic, size: int) -> torch.Tensor:
        out = torch.zeros_like(w)
        with torch.no_grad():
            engine.bind(w, out, [])(block.x[:size], block.y[:size])
        return out

    for size in [*range(1, KEPT + 4), 1, 2]:
        assert torch.equal(gradient(engine, size), gradient(Analytic(run.problem), size))
    assert len(engine.scratch) == KEPT


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [2, "full"])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_batches_of_several_clients_are_those_of_each(n: int, size: Size, drop_last: bool) -> None:
    columns = [torch.arange(k * n, (k + 1) * n) for k in range(3)]
    streams = [[np.random.default_rng(seed) for seed in range(3)] for _ in range(2)]
    together = batches_of([torch.cat(columns)], size, drop_last, streams[0])
    apart = (
        batches_of([column], size, drop_last, [rng]) for column, rng in zip(columns, streams[1], strict=True)
    )
    for (rows, values), *alone in islice(zip(together, *apart, strict=True), 4):
        assert torch.equal(rows, values)
        assert torch.equal(values, torch.cat([own for _, own in alone]))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("size", [5, 20])
@pytest.mark.parametrize("model", MODELS)
def test_gradients_join_what_is_there(images: Path, model: str, size: int, dtype: str) -> None:
    run = made(images, model, dtype=dtype)
    w, block = run.problem.start, run.problem.train
    x, y = block.x[:size], block.y[:size]
    terms = [BoundTerm(feature_loss=towards_one)]
    held = torch.linspace(-1, 1, len(w), dtype=w.dtype)
    expected = held.clone()
    Autograd(run.problem).bind(w, expected, terms)(x, y, 0.7, -0.3)

    joined = held.clone()
    with torch.no_grad():
        Analytic(run.problem).bind(w, joined, terms)(x, y, 0.7, -0.3)
    torch.testing.assert_close(joined, expected)

    garbage = torch.full_like(w, float("nan"))
    with torch.no_grad():
        Analytic(run.problem).bind(w, garbage, terms)(x, y)
    torch.testing.assert_close(-0.3 * garbage + 0.7 * held, expected)

    stepped = w.clone()
    with torch.no_grad():
        Analytic(run.problem).bind(stepped, stepped, terms)(x, y, 1.0, -0.3)
    torch.testing.assert_close(stepped, w - 0.3 * garbage)


@pytest.mark.parametrize("model", MODELS)
def test_auto_takes_hand_derived_gradients_on_a_cpu(images: Path, model: str) -> None:
    assert made(images, model).engine.name == "analytic"
    assert made(images, model, dtype="float32", precision="bf16").engine.name == "autograd"


def test_auto_falls_back_to_the_reference() -> None:
    spec = {
        "data": {"name": "quadratics"},
        "model": {"name": "scalar_quadratic"},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 1, "batch_size": "full", "lr": 0.1},
    }
    assert prepare(parse(spec), Settings(device="cpu"))[0].engine.name == "autograd"
    with pytest.raises(SpecError, match="'analytic' does not support the model 'scalar_quadratic'; autograd"):
        prepare(parse({**spec, "engine": "analytic"}), Settings(device="cpu"))


SEQUENCES = {
    "data": {"name": "sent140", "edition": "demo", "users": 10},
    "partition": {"name": "natural"},
    "model": {"name": "lstm", "hidden": 8},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 1, "batch_size": 10, "lr": 0.1},
}


@pytest.mark.parametrize("engine", ["analytic", "stacked", "fused"])
def test_an_engine_that_cannot_says_who_can(engine: str) -> None:
    expected = f"engine: '{engine}' does not support the model 'lstm'; autograd, compiled can"
    with pytest.raises(SpecError, match=expected) as caught:
        prepare(parse({**SEQUENCES, "engine": engine}), Settings(device="cpu"))
    one_line(caught.value)
    assert prepare(parse(SEQUENCES), Settings(device="cpu"))[0].engine.name == "autograd"


def test_reduced_precision_has_no_gradients_by_hand(images: Path) -> None:
    with pytest.raises(SpecError, match="precision bf16; autograd, stacked can"):
        made(images, "cnn", engine="analytic", dtype="float32", precision="bf16")


def test_rates_by_step_are_not_stacked(images: Path) -> None:
    training = {"rounds": 1, "batch_size": 7, "lr": 0.1, "lr_schedule": {"name": "inverse_time"}}
    with pytest.raises(
        SpecError, match="a learning rate that decays by steps; autograd, analytic, fused, compiled can"
    ):
        made(images, "tanh", engine="stacked", training=training)


def test_fixed_features_are_computed_once(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = made(images, "rff")
    assert once.problem.train.x.shape == (len(once.problem.train), 20)
    monkeypatch.setattr(problem, "LARGEST_BYTES", 1)
    always = made(images, "rff")
    assert always.problem.train.x.shape[1:] == (2, 8, 8)
    w = torch.randn(60, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for client in once.problem.active:
        torch.testing.assert_close(
            *(one.engine.full_gradient(w, one.problem.clients[client]) for one in (once, always))
        )
    for name in ("train", "test", "validation"):
        a, b = getattr(once.problem, name), getattr(always.problem, name)
        torch.testing.assert_close(
            engines.forward(once.problem, w, a.x, a.y), engines.forward(always.problem, w, b.x, b.y)
        )


@pytest.mark.parametrize("algorithm", ["fedavg", "qfedavg"])
def test_bf16_trains_close_to_fp32(images: Path, algorithm: str) -> None:
    def test_loss(**others: Any) -> tuple[float, float]:
        result = run(specification(images, algorithm, "cnn", dtype="float32", **others))
        return result.rows[0]["test_loss"], result.rows[-1]["test_loss"]

    start, exact = test_loss()
    _, rough = test_loss(precision="bf16")
    assert rough != exact
    assert abs(rough - exact) < 0.1 * (start - exact)


def test_measuring_in_bf16_leaves_training_as_it_is(images: Path) -> None:
    def result(**evaluation: Any) -> tuple[float, float, list[bytes]]:
        outcome = run(specification(images, "fedavg", "cnn", dtype="float32", evaluation=evaluation))
        model = [array.tobytes() for array in outcome.parameters.values()]
        return outcome.rows[0]["test_loss"], outcome.rows[-1]["test_loss"], model

    start, exact, model = result()
    _, rough, same = result(precision="bf16")
    assert rough != exact
    assert abs(rough - exact) < 0.1 * (start - exact)
    assert same == model


def test_all_measurements_are_in_the_arithmetic_asked_for(
    images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"precision": "bf16", "metrics": ["f1"]}
    setup = made(images, "cnn", dtype="float32", evaluation=asked)
    used: list[str] = []
    arithmetic = engines.arithmetic

    def noted(w: torch.Tensor, precision: str) -> Any:
        used.append(precision)
        return arithmetic(w, precision)

    monkeypatch.setattr(engines, "arithmetic", noted)
    measure(setup, State(0, setup.problem.start.unsqueeze(0)), final=True)
    assert {*used} == {"bf16"}


def test_what_is_not_measured_in_bf16_has_the_specification_it_had(images: Path) -> None:
    plain = parse(specification(images, "fedavg", "cnn", dtype="float32"))
    assert "precision" not in plain.resolved()["evaluation"]
    reduced = {"evaluation": {"precision": "bf16"}}
    in_bf16 = parse(specification(images, "fedavg", "cnn", dtype="float32", **reduced))
    assert in_bf16.resolved()["evaluation"]["precision"] == "bf16"
    assert parse(in_bf16.resolved()) == in_bf16


@pytest.mark.parametrize("algorithm", ["rfedavg", "rfedavg_plus"])
def test_deltas_in_bf16_are_close_and_leave_the_rest_as_it_is(images: Path, algorithm: str) -> None:
    """With lambda 0 the deltas are looked at alone: models stay the same bytes."""

    def result(**options: Any) -> tuple[float, list[bytes]]:
        spec = specification(images, algorithm, "cnn", dtype="float32")
        outcome = run(spec | {"algorithm": {"name": algorithm, "lambda": 0.0, **options}})
        return outcome.rows[-1]["delta_spread"], [array.tobytes() for array in outcome.parameters.values()]

    exact, model = result()
    rough, same = result(delta_precision="bf16")
    assert rough != exact
    assert rough == pytest.approx(exact, rel=0.02)
    assert same == model
    setup = made(images, "cnn", dtype="float32")
    phi = engines.features(setup.problem, setup.problem.start, setup.problem.test.x[:2], "bf16")
    assert phi.dtype == torch.float32, "means are taken in the model's own type"


def test_deltas_in_bf16_are_written_where_they_are_asked_for(images: Path) -> None:
    values = specification(images, "rfedavg", "cnn", dtype="float32")
    assert "delta_precision" not in parse(values).resolved()["algorithm"]
    in_bf16 = parse(values | {"algorithm": {"name": "rfedavg", "delta_precision": "bf16"}})
    assert in_bf16.resolved()["algorithm"]["delta_precision"] == "bf16"
    assert parse(in_bf16.resolved()) == in_bf16
