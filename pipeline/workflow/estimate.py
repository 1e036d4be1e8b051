"""How long a run takes and how much memory it needs, guessed from its specification before it begins.

Data sets say how large they are and models how many parameters they have; a guess counts gradient steps,
multiplications, rows that are measured and parameters that are averaged. What each of them takes was fitted
to the seconds of the runs in reports/reference: on one core, nine of ten lie within a factor of three. What a
guess gets wrong costs little: a job stopped for want of time or memory goes on from its checkpoint with more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil, prod
from typing import Any

import numpy as np

from fedcore.base.errors import FedcoreError
from fedcore.base.files import canonical_json
from fedcore.base.registry import chosen
from fedcore.data import Size
from fedcore.models import Shape

SECONDS = {
    "step": 1.2e-4,
    "dense": 6.3e-12,
    "shared": 2.1e-12,
    "sent": 4.5e-8,
    "density": 9.4e-4,
    "server": 4.6e-5,
    "measured": 3.1e-12,
    "measurement": 1.5e-3,
    "round": 7.2e-5,
}
START_SECONDS = 60.0
BASE_MB = 1500
MARGIN = 3.0
LONGEST_MINUTES = 24 * 60
SMALL_STEP = 1e9
UNKNOWN = Size(10_000, (100,), 10)
SHRUNK = 32**2  # how many times fewer pixels a trunk's output has than its input
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
        wanted = ceil((START_SECONDS + MARGIN * self.seconds) / 60 * 2.0 ** (attempt - 1))
        return min(wanted + 1, LONGEST_MINUTES)

    def megabytes(self, attempt: int = 1) -> int:
        """Return the memory to ask a cluster for: half as much again at each further attempt."""
        return ceil(self.memory_mb * (1 + (attempt - 1) / 2))

    @property
    def small(self) -> bool:
        """Whether its gradient steps are too small to keep a GPU busy."""
        return self.step_operations < SMALL_STEP


@dataclass(frozen=True)
class Network:
    """What counts of a model: its parameters, multiplications a row, and numbers that a row is kept as.

    Attributes:
        dense: multiplications with weights that are used once.
        shared: multiplications with weights that are used at many pixels or for many tokens.
    """

    parameters: int
    dense: float
    shared: float
    width: int


def estimate(spec: Mapping[str, Any]) -> Cost:
    """Guess the cost of a run.

    Args:
        spec: a resolved specification.
    """
    size = size_of(canonical_json(spec["data"]))
    network = network_of(canonical_json(spec["model"]), size)
    training, algorithm, evaluation = spec["training"], spec["algorithm"], spec["evaluation"]
    clients = spec["partition"].get("clients") or size.clients
    cohort = max(1.0, clients * spec["participation"]["fraction"])
    if algorithm["name"] in {"fedasync", "centralised"}:
        cohort = 1.0
    share = size.rows * (1 - TEST_SHARE) / (1 if algorithm["name"] == "centralised" else clients)
    batch = share if training["batch_size"] == "full" else min(training["batch_size"], max(share, 1.0))
    rounds = training["rounds"] * (algorithm.get("redistributions") or 1)
    jobs = rounds * cohort * (2 if evaluation.get("divergence") else 1)
    steps = jobs * _steps(training, share, batch) * (3 if algorithm["name"] == "moon" else 1)
    every, train_every = evaluation["every"], evaluation["train_every"]
    train_every = every if train_every is None else train_every
    on_test = training["rounds"] / every
    on_training = training["rounds"] / train_every if train_every else 0.0
    observers = (evaluation.get("observe") or {}).values()
    observed = sum(training["rounds"] / (options.get("every") or every) for options in observers)
    rows = size.rows * (on_test * TEST_SHARE + on_training * (1 - TEST_SHARE) + observed)
    work = {
        "step": steps,
        "dense": 6 * batch * steps * network.dense,
        "shared": 6 * batch * steps * network.shared,
        "sent": jobs * network.parameters,
        "density": steps if "density" in algorithm and (algorithm["beta"] or algorithm["gamma"]) else 0,
        "server": training["rounds"] * _server_steps(algorithm, size.rows * TEST_SHARE),
        "measured": 2 * rows * (network.dense + network.shared),
        "measurement": on_test + on_training + observed,
        "round": rounds,
    }
    kept = clients if algorithm["name"].startswith(STATEFUL) else cohort
    numbers = 3 * size.rows * network.width + (2 * kept + 10) * network.parameters
    bytes_each = 8 if spec["dtype"] == "float64" else 4
    return Cost(
        sum(SECONDS[name] * amount for name, amount in work.items()),
        ceil(BASE_MB + 1.2 * bytes_each * numbers / 2**20),
        6 * batch * (network.dense + network.shared),
    )


@cache
def size_of(data: str) -> Size:
    """Return how large a data set is, given the section of a specification as JSON.

    A plug-in that doesn't say, or a folder without rows, counts as 10,000 rows of 100 numbers.
    """
    try:
        asked = chosen("data", json.loads(data))
        found: Size = asked.plugin.size(asked.options) if asked.plugin.size else UNKNOWN
    except (FedcoreError, OSError):
        return UNKNOWN
    return found if found.rows else UNKNOWN


@cache
def network_of(model: str, size: Size) -> Network:
    """Return what counts of a model for data of a size, given the section of a specification as JSON.

    A model that doesn't fit what is known of the data counts as a million parameters.
    """
    asked = chosen("model", json.loads(model))
    random = {"weights": "random"} if hasattr(asked.options, "weights") else {}
    options = asked.options.model_copy(update=random)
    vectors = None if size.vectors is None else np.broadcast_to(np.float32(0), size.vectors)
    try:
        made = asked.plugin.build(options, Shape(size.inputs, size.classes, size.vocabulary, vectors))
    except FedcoreError:
        return Network(10**6, 1e6, 0.0, prod(size.inputs))
    dense = shared = 0.0
    pixels = float(prod(size.inputs[1:]))
    if trunk := hasattr(options, "resize"):
        pixels = (options.resize**2 or pixels) / SHRUNK
    for name, shape in made.trainable.shapes.items():
        if len(shape) == 4:
            shared += prod(shape) * pixels
            pixels = pixels if trunk else pixels / 4
        elif len(shape) == 2 and size.vocabulary and name != made.head:
            shared += 0 if name.startswith("embedding") else prod(shape) * size.inputs[0]
        elif len(shape) == 2:
            dense += prod(shape)
    fixed = made.split() if hasattr(made, "split") else None
    width = max(prod(size.inputs), made.trainable.shapes[made.head][-1] if fixed else 0)
    parameters = sum(prod(shape) for shape in made.trainable.shapes.values())
    return Network(parameters, dense, shared, width)


def duration(seconds: float) -> str:
    """Return a guessed time in the unit that suits it."""
    if seconds < 90:
        return f"{ceil(seconds)} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


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
