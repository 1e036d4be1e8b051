"""The compiled engine: gradients of the CNN and the LSTM against differentiation in double precision."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch
from engine_cases import specification
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore.base.errors import MissingPackage, SpecError
from fedcore.engines import Batch, BoundTerm, compiled, kernels
from fedcore.engines.analytic import KEPT, KEPT_ROWS, buffers_of
from fedcore.engines.autograd import Autograd
from fedcore.engines.compiled import PIECE, Compiled
from fedcore.engines.forward import features
from fedcore.engines.problem import Block, Problem
from fedcore.execution.result import Result
from fedcore.execution.runner import Settings, prepare, run
from fedcore.models import Model
from fedcore.models.cnn import Cnn
from fedcore.models.lstm import Lstm
from fedcore.spec import parse
from pipeline.catalogue import codehash

CLASSES = 3
SEQUENCES: dict[str, Any] = {
    "data": {"name": "sent140", "edition": "demo", "users": 10},
    "partition": {"name": "natural"},
    "model": {"name": "lstm", "hidden": 8},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 3, "batch_size": 10, "lr": 0.1},
}


def problem(model: Model, x: torch.Tensor, rng: np.random.Generator) -> Problem:
    """A problem of rows x with parameters, and fixed arrays, drawn at random."""
    arrays = {name: rng.normal(size=value.shape) / 3 for name, value in model.initial(rng).items()}
    w = model.trainable.flatten(arrays, torch.float32)
    fixed = {
        name: torch.as_tensor(a).float() for name, a in arrays.items() if name not in model.trainable.shapes
    }
    block = Block(x, torch.from_numpy(rng.integers(0, CLASSES, len(x))))
    return Problem(model, fixed, w, (block,), block, block, None, CLASSES)


def in_double(it: Problem) -> Problem:
    block = it.train if it.train.x.dtype == torch.int64 else replace(it.train, x=it.train.x.double())
    fixed = {name: values.double() for name, values in it.buffers.items()}
    return replace(it, buffers=fixed, start=it.start.double(), train=block)


def gradient(engine: Autograd, terms: list[BoundTerm], keep: float = 0.0, scale: float = 1.0) -> torch.Tensor:
    """keep w + scale gradient, put into w itself."""
    w, block = engine.problem.start.clone(), engine.problem.train
    with torch.no_grad():
        engine.bind(w, w, terms)(block.x, block.y, keep, scale)
    return w.double()


def agree(
    it: Problem,
    terms: list[BoundTerm] | None = None,
    keep: float = 0.0,
    scale: float = 1.0,
    least: float = 1e-3,
) -> None:
    found = gradient(Compiled(it), terms or [], keep, scale)
    expected = gradient(Autograd(in_double(it)), terms or [], keep, scale)
    for name, values in it.model.trainable.views(expected).items():
        error = (it.model.trainable.views(found)[name] - values).norm() / values.norm().clamp(min=least)
        assert error <= 1e-4, (name, float(error))


def passed_through(it: Problem, precision: str = "fp32") -> torch.Tensor:
    return features(it, it.start, it.train.x, precision)


@pytest.mark.parametrize("rows", [1, PIECE, 2 * PIECE + 3])
@pytest.mark.parametrize(
    "model",
    [Cnn((2, 9, 14), CLASSES, (3, 4), 5), Lstm(11, CLASSES, 5, 6, 2), Lstm(11, CLASSES, 5, 6, 1, None, 4)],
)
def test_rows_that_only_pass_through(model: Model, rows: int) -> None:
    rng = np.random.default_rng(0)
    tokens = torch.from_numpy(rng.integers(0, 11, (rows, 7)))
    x = torch.from_numpy(rng.normal(size=(rows, 2, 9, 14))).float() if isinstance(model, Cnn) else tokens
    it = problem(model, x, rng)
    found, expected = passed_through(compiled.make(it, "fp32").problem), passed_through(in_double(it))
    assert found.shape == expected.shape
    assert float((found - expected).norm() / expected.norm()) <= 1e-5
    assert rows < PIECE or not torch.equal(found, passed_through(it))


def test_rows_are_measured_in_bf16_by_the_model() -> None:
    rng = np.random.default_rng(0)
    it = problem(
        Cnn((2, 9, 14), CLASSES, (3, 4), 5), torch.from_numpy(rng.normal(size=(5, 2, 9, 14))).float(), rng
    )
    found = passed_through(compiled.make(it, "fp32").problem, "bf16")
    assert torch.equal(found, passed_through(it, "bf16"))


def towards_one(phi: torch.Tensor, batch: Batch) -> torch.Tensor:
    return (batch.weights @ phi - 1).pow(4).sum()


TERM = BoundTerm(feature_loss=towards_one)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(4, 21), st.integers(4, 21)),
    channels=st.tuples(st.integers(1, 6), st.integers(1, 20)),
    rows=st.integers(1, 10),
    terms=st.sampled_from([[], [TERM]]),
    keep=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 99),
)
def test_gradients_of_the_cnn(
    shape: tuple[int, int, int],
    channels: tuple[int, int],
    rows: int,
    terms: list[BoundTerm],
    keep: float,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(rows, *shape))).float()
    agree(problem(Cnn(shape, CLASSES, channels, 5), x, rng), terms, keep, -0.3)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    hidden=st.integers(1, 20),
    layers=st.integers(1, 3),
    dense=st.sampled_from([None, 4]),
    fixed=st.booleans(),
    shape=st.tuples(st.integers(1, 9), st.integers(1, 7)),
    terms=st.sampled_from([[], [TERM]]),
    keep=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 99),
)
def test_gradients_of_the_lstm(
    hidden: int,
    layers: int,
    dense: int | None,
    fixed: bool,
    shape: tuple[int, int],
    terms: list[BoundTerm],
    keep: float,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(11, 5)).astype(np.float32) if fixed else None
    model = Lstm(11, CLASSES, 5, hidden, layers, vectors, dense)
    agree(problem(model, torch.from_numpy(rng.integers(0, 11, shape)), rng), terms, keep, -0.3)


def test_gates_that_are_shut_or_open_stay_numbers() -> None:
    rng = np.random.default_rng(0)
    it = problem(Lstm(11, CLASSES, 5, 6, 2), torch.from_numpy(rng.integers(0, 11, (4, 5))), rng)
    for factor in (30.0, 3e3, 3e20):
        found = gradient(Compiled(replace(it, start=it.start * factor)), [])
        assert torch.isfinite(found).all()


@pytest.mark.parametrize("factor", [1e-2, 1e-4])
def test_small_numbers_keep_their_digits(factor: float) -> None:
    rng = np.random.default_rng(0)
    it = problem(Lstm(11, CLASSES, 5, 6, 2), torch.from_numpy(rng.integers(0, 11, (4, 5))), rng)
    agree(replace(it, start=it.start * factor), least=0.0)


def test_a_gate_that_is_no_number_spoils_what_it_reaches() -> None:
    rng = np.random.default_rng(0)
    it = problem(Lstm(11, CLASSES, 5, 6, 2), torch.from_numpy(rng.integers(0, 11, (4, 5))), rng)
    it.start[60] = float("nan")
    found, expected = gradient(Compiled(it), []), gradient(Autograd(it), [])
    assert torch.equal(torch.isnan(found), torch.isnan(expected))
    assert torch.isnan(found).any()


def test_images_of_any_layout_are_the_same() -> None:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(5, 2, 8, 8))).float()
    it = problem(Cnn((2, 8, 8), CLASSES, (3, 4), 5), x, rng)
    turned = replace(it.train, x=x.to(memory_format=torch.channels_last))
    assert torch.equal(gradient(Compiled(replace(it, train=turned)), []), gradient(Compiled(it), []))


@pytest.mark.parametrize("where", [(0, 0, 0, 0), (4, 1, 7, 6)])
def test_what_is_not_a_number_stays_none(where: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(5, 2, 8, 8))).float()
    x[where] = float("nan")
    it = problem(Cnn((2, 8, 8), CLASSES, (3, 4), 5), x, rng)
    found, expected = gradient(Compiled(it), []), gradient(Autograd(it), [])
    assert torch.isnan(found).sum() >= torch.isnan(expected).sum() > 0


def test_batches_give_the_same_bytes_whatever_came_before(images: Path) -> None:
    it = prepare(parse(wanted(images, "fedavg")), Settings(device="cpu"))[0].problem
    engine, block = Compiled(it), it.train

    def at(engine: Compiled, size: int) -> torch.Tensor:
        out = torch.empty_like(it.start)
        with torch.no_grad():
            engine.bind(it.start, out, [])(block.x[:size], block.y[:size])
        return out

    for size in [*range(1, KEPT + 4), 1, 2]:
        assert torch.equal(at(engine, size), at(Compiled(it), size))
    assert len(engine.scratch) == KEPT


def test_buffers_of_many_rows_are_not_kept_together() -> None:
    scratch: dict[int, Any] = {}
    for size in (KEPT_ROWS // 2, 7, KEPT_ROWS // 2, KEPT_ROWS - 3, KEPT_ROWS + 5):
        assert buffers_of(scratch, size, partial(int, size)) == size
        assert sum(scratch) <= KEPT_ROWS or list(scratch) == [size]


def wanted(folder: Path, algorithm: str) -> dict[str, Any]:
    values = specification(folder, algorithm, "cnn", dtype="float32", engine="compiled")
    return {**values, "training": {**values["training"], "rounds": 4}}


def distance(found: Result, expected: Result) -> float:
    pairs = [(found.parameters[name], values) for name, values in expected.parameters.items()]
    return float(max(np.abs(a - b).max() for a, b in pairs) / max(np.abs(b).max() for _, b in pairs))


@pytest.mark.parametrize("algorithm", ["scaffold", "moon", "rfedavg", "mime", "fedprox"])
def test_runs_of_the_cnn_agree(images: Path, algorithm: str) -> None:
    spec = wanted(images, algorithm)
    result = run(spec)
    assert result.timing["engine"] == "compiled"
    assert result.timing["numba"] == numba.__version__
    for engine, passes in (("compiled", True), ("autograd", False)):
        found = prepare(parse({**spec, "engine": engine}), Settings(device="cpu"))[0].problem.features
        assert (found is not None) == passes
    assert distance(result, run({**spec, "engine": "autograd"})) <= 1e-3


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "rfedavg", "moon"])
@pytest.mark.parametrize("model", [{}, {"layers": 1, "dense": 5}])
def test_runs_of_the_lstm_agree(algorithm: str, model: dict[str, Any]) -> None:
    spec = {**SEQUENCES, "algorithm": {"name": algorithm}, "model": {**SEQUENCES["model"], **model}}
    result, again = (run({**spec, "engine": "compiled"}) for _ in range(2))
    assert distance(result, run({**spec, "engine": "autograd"})) <= 1e-3
    assert distance(result, again) == 0


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"dtype": "float64"}, "dtype float64 with the model 'lstm'; autograd can"),
        ({"precision": "bf16"}, "precision bf16; autograd can"),
    ],
)
def test_what_it_cannot_train_is_refused(others: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        prepare(parse({**SEQUENCES, "engine": "compiled", **others}), Settings(device="cpu"))


def test_the_cnn_in_double_precision_is_refused(images: Path) -> None:
    reason = "engine: 'compiled' does not support dtype float64 with the model 'cnn'; autograd, analytic"
    with pytest.raises(SpecError, match=reason):
        prepare(parse({**wanted(images, "fedavg"), "dtype": "float64"}), Settings(device="cpu"))


def test_other_devices_are_refused(images: Path) -> None:
    spec = parse(wanted(images, "fedavg"))
    it = prepare(spec, Settings(device="cpu"))[0].problem
    assert compiled.unsupported(spec, replace(it, start=it.start.to("meta"))) == "the device 'meta'"


def test_the_code_of_a_run_includes_what_is_compiled() -> None:
    reached = codehash.reached(codehash.RUN)
    assert {("fedcore.engines.kernels", name) for name in ("images_forward", "cells_back")} <= reached


def test_without_numba_one_line_says_what_to_install(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(
        MissingPackage, match=r"^engine 'compiled': needs the package numba; install fedrepro"
    ):
        prepare(parse(wanted(images, "fedavg")), Settings(device="cpu"))
    spec = specification(images, "fedavg", "relu", engine="compiled")
    timing = run(spec).timing
    assert timing["engine"] == "compiled"
    assert "numba" not in timing


def test_what_cannot_be_kept_is_compiled_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    compile = numba.njit

    def njit(**options: Any) -> Any:
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return compile(**options)

    monkeypatch.setattr(numba, "njit", njit)

    def double(x: float) -> float:
        return 2 * x

    assert kernels.jit(double)(21.0) == 42.0


def test_where_nothing_can_be_kept_no_process_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder" / ".lock").mkdir(parents=True)
    for name in ("file", "folder", "new"):
        monkeypatch.setattr(kernels, "FOLDER", tmp_path / name)
        with kernels.alone():
            assert (tmp_path / "new" / ".lock").is_file() == (name == "new")


def test_the_product_is_scipys_where_pytorch_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise OSError(name)

    own = kernels.sgemm_address()
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    other = kernels.sgemm_address()
    monkeypatch.undo()
    rng = np.random.default_rng(0)
    a, b = (np.asfortranarray(rng.normal(size=(3, 3)), dtype=np.float32) for _ in range(2))
    n, one, zero = ctypes.byref(ctypes.c_int(3)), *(ctypes.byref(ctypes.c_float(v)) for v in (1, 0))
    for address in {own, other}:
        c = np.zeros((3, 3), np.float32, order="F")
        x, y, z = (ctypes.c_void_p(values.ctypes.data) for values in (a, b, c))
        ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(address)(
            b"N", b"N", n, n, n, one, x, n, y, n, zero, z, n
        )
        np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_products_of_tiles_are_convolutions() -> None:
    a, g, b = compiled.winograd()
    x, w = torch.randn(8, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    expected = torch.stack([(x[i : i + 5] * w).sum() for i in range(4)])
    torch.testing.assert_close(a.T @ ((g @ w) * (b @ x)), expected)
