"""How long a run takes and how much memory it needs, guessed from its specification before it begins.

Clusters ask for both in advance. A guess counts multiplications and additions of the model, passes over the
parameters, and steps; the speeds are those of one slow core, so that most machines need less. What a guess
gets wrong costs little: a job stopped for want of time or memory goes on from its checkpoint with more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, prod
from typing import Any

OPERATIONS_A_SECOND = 2e10
PARAMETERS_A_SECOND = 5e8
STEP_SECONDS = 2e-4
START_SECONDS = 60.0
BASE_MB = 1500
MARGIN = 3.0
LONGEST_MINUTES = 24 * 60
SMALL_STEP = 1e9


@dataclass(frozen=True)
class Sizes:
    """What matters of a data set: its shape and how many rows its largest and its demo edition have."""

    inputs: tuple[int, ...]
    classes: int
    rows: int
    demo: int


UNKNOWN = Sizes((3, 32, 32), 100, 200_000, 200_000)
DATA: Mapping[str, Sizes] = {
    "mnist": Sizes((1, 28, 28), 10, 70_000, 3_000),
    "cifar10": Sizes((3, 32, 32), 10, 60_000, 900),
    "femnist": Sizes((1, 28, 28), 62, 800_000, 4_787),
    "sent140": Sizes((25, 50), 2, 1_600_000, 2_000),
    "shakespeare": Sizes((80, 1), 90, 600_000, 20_000),
    "covertype": Sizes((54,), 7, 581_012, 12_000),
    "eicu": Sizes((60,), 2, 200_000, 1_367),
    "synthetic": Sizes((60,), 10, 30_000, 30_000),
    "quadratics": Sizes((1,), 1, 1_000, 1_000),
    "a1a": Sizes((123,), 2, 32_561, 2_605),
    "svmguide1": Sizes((4,), 2, 7_089, 3_000),
    "splice": Sizes((60,), 2, 3_175, 2_000),
    "vehicle": Sizes((18,), 4, 846, 846),
    "dna": Sizes((180,), 3, 3_186, 3_186),
    "pendigits": Sizes((16,), 10, 10_992, 3_000),
    "satimage": Sizes((36,), 6, 6_435, 3_000),
    "usps": Sizes((256,), 10, 9_298, 1_500),
    "letter": Sizes((16,), 26, 20_000, 3_900),
}
TEST_SHARE = 0.2
STATEFUL = ("scaffold", "scaf_", "feddc", "mime", "moon", "vrl_sgd")


@dataclass(frozen=True)
class Cost:
    """A guess.

    Attributes:
        seconds: time on one core.
        memory_mb: peak of memory.
        step_operations: what one gradient step computes, in floating-point operations.
    """

    seconds: float
    memory_mb: int
    step_operations: float

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of both, one after the other."""
        return Cost(
            self.seconds + other.seconds,
            max(self.memory_mb, other.memory_mb),
            max(self.step_operations, other.step_operations),
        )

    def minutes(self, attempt: int = 1) -> int:
        """Return what to ask a cluster for: with a margin, twice as much at each further attempt.

        It is a day at most. A run that takes longer goes on from its checkpoint at the next attempt.
        """
        wanted = ceil((START_SECONDS + MARGIN * self.seconds) / 60 * 2 ** (attempt - 1))
        return min(wanted + 1, LONGEST_MINUTES)

    def megabytes(self, attempt: int = 1) -> int:
        """Return the memory to ask a cluster for: half as much again at each further attempt."""
        return ceil(self.memory_mb * (1 + (attempt - 1) / 2))

    @property
    def small(self) -> bool:
        """Whether its gradient steps are too small to keep a GPU busy."""
        return self.step_operations < SMALL_STEP


def estimate(spec: Mapping[str, Any]) -> Cost:
    """Guess the cost of a run.

    Args:
        spec: a resolved specification. Plug-ins that aren't known here count as large.
    """
    sizes = DATA.get(spec["data"]["name"], UNKNOWN)
    rows = sizes.demo if spec["data"].get("edition") == "demo" else sizes.rows
    rows = ceil(rows / spec["data"].get("stride", 1))
    parameters, forward = _model(spec["model"], sizes)
    training, algorithm = spec["training"], spec["algorithm"]
    clients = spec["partition"].get("clients") or 100
    cohort = max(1.0, clients * spec["participation"]["fraction"])
    passes = algorithm.get("redistributions", 1)
    if algorithm["name"] == "fedasync":
        cohort = 1.0
    share = rows * (1 - TEST_SHARE) / clients
    batch = share if training["batch_size"] == "full" else training["batch_size"]
    steps = _steps(training, share, batch)
    factor = 3.0 if _watched(spec["evaluation"]) or algorithm["name"] == "moon" else 1.5
    all_steps = training["rounds"] * passes * cohort * steps * factor
    step = batch * 3 * 2 * forward
    server = training["rounds"] * _server_steps(algorithm, rows * TEST_SHARE)
    seconds = (
        all_steps * (STEP_SECONDS + step / OPERATIONS_A_SECOND + parameters / PARAMETERS_A_SECOND)
        + server * STEP_SECONDS * 2
        + _measured_rows(spec, rows) * 2 * forward / OPERATIONS_A_SECOND
        + rows * prod(sizes.inputs) / PARAMETERS_A_SECOND
    )
    kept = clients if algorithm["name"].startswith(STATEFUL) else cohort
    numbers = 3 * rows * _row_width(spec["model"], sizes) + (2 * kept + 10) * parameters
    width = 8 if spec["dtype"] == "float64" else 4
    return Cost(seconds, ceil(BASE_MB + 1.2 * width * numbers / 2**20), step)


def _watched(evaluation: Mapping[str, Any]) -> bool:
    """Whether a run is watched beyond its accuracy, which may train a second time beside it."""
    return bool(evaluation.get("divergence") or evaluation.get("observers"))


def _steps(training: Mapping[str, Any], share: float, batch: float) -> float:
    """Return the gradient steps of one client in one round."""
    steps = training["local_steps"]
    if steps is None:
        return float(training["local_epochs"] * max(1.0, share / batch))
    return float(steps) if isinstance(steps, int) else sum(steps) / len(steps)


def _server_steps(algorithm: Mapping[str, Any], validation: float) -> float:
    """Return the steps that a server takes in one round to learn mixture weights."""
    if algorithm.get("steps_p") is not None:
        return float(algorithm["steps_p"])
    return float(algorithm.get("epochs_p") or 0) * validation / (algorithm.get("batch_p") or 16)


def _measured_rows(spec: Mapping[str, Any], rows: int) -> float:
    """Return the rows that a run passes through its model to be measured."""
    evaluation, rounds = spec["evaluation"], spec["training"]["rounds"]
    every = evaluation["train_every"]
    every = evaluation["every"] if every is None else every
    on_training = rounds / every if every else 0.0
    return rows * (rounds / evaluation["every"] * TEST_SHARE + on_training * (1 - TEST_SHARE))


def _row_width(model: Mapping[str, Any], sizes: Sizes) -> int:
    """Return how many numbers a row is kept as; fixed features are computed once."""
    fixed = 1280 if model["name"] == "mobilenetv2_head" else 0
    if model["name"] == "rff_linear" and not model["learnable"]:
        fixed = model["features"]
    return max(prod(sizes.inputs), fixed)


def _model(model: Mapping[str, Any], sizes: Sizes) -> tuple[int, int]:
    """Return a model's parameters and the multiplications of one forward pass of one row."""
    known: Mapping[str, Callable[[Mapping[str, Any], Sizes], tuple[int, int]]] = {
        "cnn": _cnn,
        "lstm": _lstm,
        "mlp": lambda model, sizes: _dense((prod(sizes.inputs), *model["hidden"], sizes.classes)),
        "rff_linear": _rff,
        "linear": lambda _, sizes: _dense((prod(sizes.inputs), sizes.classes)),
        "logistic": lambda _, sizes: _dense((prod(sizes.inputs), sizes.classes)),
        "quadratic": lambda *_: (1, 1),
        "mobilenetv2_head": lambda *_: (1_000_000, 40_000_000),
    }
    return known.get(model["name"], lambda *_: (5_000_000, 50_000_000))(model, sizes)


def _dense(widths: tuple[int, ...]) -> tuple[int, int]:
    products = sum(a * b for a, b in pairwise(widths))
    return products + sum(widths[1:]), products


def _rff(model: Mapping[str, Any], sizes: Sizes) -> tuple[int, int]:
    head = model["features"] * sizes.classes
    learned = model["features"] * (prod(sizes.inputs) + 1) if model["learnable"] else 0
    return head + learned, head + learned


def _cnn(model: Mapping[str, Any], sizes: Sizes) -> tuple[int, int]:
    depth, height, width = sizes.inputs if len(sizes.inputs) == 3 else (1, *sizes.inputs[:2], 1)[:3]
    first, second = model["channels"]
    flat = second * (height // 4) * (width // 4)
    kernels = (25 * depth * first, 25 * first * second)
    dense, products = _dense((flat, model["hidden"], sizes.classes))
    pixels = height * width
    return sum(kernels) + first + second + dense, (kernels[0] * pixels + kernels[1] * pixels // 4 + products)


def _lstm(model: Mapping[str, Any], sizes: Sizes) -> tuple[int, int]:
    hidden, length = model["hidden"], sizes.inputs[0]
    inputs = [model["embedding"], *[hidden] * (model["layers"] - 1)]
    weights = sum(4 * hidden * (width + hidden) for width in inputs)
    return weights + hidden * sizes.classes, length * weights + hidden * sizes.classes
