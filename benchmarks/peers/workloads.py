"""The work that every peer does: shapes, sizes and the data, made once with numpy from a seed.

Every peer's environment imports this module, so it needs numpy alone. A folder of a workload holds
`clients/<id>.npz` and `test.npz` (x, y), `start.npz` (the first weights, under fedcore's names) and, where
the model's features are fixed, `features/<id>.npz`: what the peers get, as one computes such features once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import pi, prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.float32]]
CLIENTS = 10
CHECK_ROUNDS = 2
FEATURES = 2000


@dataclass(frozen=True)
class Workload:
    """One federated task: plain SGD, and FedAvg gives all clients of a round the same weight.

    Attributes:
        model: fedcore's `model` section; the peers' modules are built from it too.
        inputs: shape of a row.
        rows: rows a client has, a multiple of `batch`: how a smaller last batch is treated differs.
        spread: the standard deviation of their logarithm, where clients differ.
        clients, cohort: how many there are, and how many of them take part in a round, one after another.
        faster: how many times as fast as the fastest peer fedcore has to be.
        rounds, quick_rounds: measured rounds of one repetition.
        vocabulary: number of tokens where a row is tokens.
        device: `cpu`, or `cuda`, which has two sides alone: fedcore and the fastest peer with PyTorch.
        engine: one of fedcore's, of another rounding than its usual one, that is a side of its own.
    """

    name: str
    title: str
    model: dict[str, Any]
    inputs: tuple[int, ...]
    rows: int
    batch: int
    epochs: int
    faster: float
    rounds: int
    quick_rounds: int
    classes: int = 10
    lr: float = 0.05
    vocabulary: int | None = None
    engine: str = ""
    spread: float = 0.0
    clients: int = CLIENTS
    cohort: int = CLIENTS
    device: str = "cpu"

    def round_of(self, number: int) -> list[int]:
        """Return the clients of a round, from 0."""
        return [(number * self.cohort + place) % self.clients for place in range(self.cohort)]

    def sizes(self, rng: np.random.Generator) -> list[int]:
        """Return the rows of each client, whole batches."""
        if not self.spread:
            return [self.rows] * self.clients
        drawn = self.rows * np.exp(rng.normal(0, self.spread, self.clients) - self.spread**2 / 2)
        return [self.batch * max(1, round(rows / self.batch)) for rows in drawn.clip(max=4 * self.rows)]

    @property
    def fixed_features(self) -> bool:
        """Whether peers are given features in the rows' place."""
        return bool(self.model["name"] == "rff_linear")


WORKLOADS = (
    Workload(
        "mlp",
        "MLP 784-200-200-10",
        {"name": "mlp", "hidden": [200, 200]},
        (784,),
        rows=100,
        batch=10,
        epochs=2,
        faster=2.2,
        rounds=20,
        quick_rounds=10,
        engine="fused",
    ),
    Workload(
        "cnn",
        "CNN 5x5 conv 32, 5x5 conv 64, dense 512 on 28x28",
        {"name": "cnn"},
        (1, 28, 28),
        rows=96,
        batch=32,
        epochs=1,
        faster=1.7,
        rounds=4,
        quick_rounds=2,
        engine="compiled",
    ),
    Workload(
        "rff",
        "2,000 fixed random Fourier features, linear head",
        {"name": "rff_linear", "features": FEATURES, "sigma": 0.1},
        (784,),
        rows=96,
        batch=32,
        epochs=2,
        faster=3.5,
        rounds=20,
        quick_rounds=10,
        engine="fused",
    ),
    Workload(
        "lstm",
        "LSTM 2x256 on 25 tokens, trained embedding of 25",
        {"name": "lstm", "hidden": 256, "layers": 2, "embedding": 25},
        (25,),
        classes=2,
        rows=40,
        batch=20,
        epochs=1,
        faster=1.3,
        rounds=4,
        quick_rounds=2,
        vocabulary=400,
        engine="compiled",
    ),
)
ON_A_GPU = (
    Workload(
        "gpu-cifar10",
        "CIFAR-10 as pfl-research benchmarks it, CNN",
        {"name": "cnn"},
        (3, 32, 32),
        rows=50,
        batch=10,
        epochs=1,
        faster=3.0,
        rounds=20,
        quick_rounds=10,
        clients=1000,
        cohort=50,
        device="cuda",
    ),
    Workload(
        "gpu-femnist",
        "FEMNIST as FLUTE benchmarks it, CNN",
        {"name": "cnn"},
        (1, 28, 28),
        rows=200,
        batch=20,
        epochs=1,
        faster=3.0,
        rounds=20,
        quick_rounds=10,
        classes=62,
        lr=0.1,
        spread=0.4,
        clients=340,
        cohort=10,
        device="cuda",
    ),
)
GRID = Workload(
    "grid",
    "a run of ComFed's grid at demo scale: CNN on CIFAR-10",
    {"name": "cnn"},
    (3, 32, 32),
    rows=60,
    batch=32,
    epochs=1,
    lr=0.001,
    faster=12.0,
    rounds=10,
    quick_rounds=5,
    engine="compiled",
)
BY_NAME = {workload.name: workload for workload in (*WORKLOADS, *ON_A_GPU, GRID)}


def write(work: Workload, folder: Path) -> None:
    """Write a workload's clients, test rows and first weights."""
    rng = np.random.default_rng(0)
    start = first_weights(work, rng)
    (folder / "clients").mkdir(parents=True)
    if work.fixed_features:
        (folder / "features").mkdir()
    np.savez(folder / "start.npz", **start)  # type: ignore[arg-type]
    for client, rows in enumerate(work.sizes(rng)):
        x, y = _rows(work, rows, rng)
        np.savez(folder / "clients" / f"{client}.npz", x=x, y=y)
        if work.fixed_features:
            phi = np.cos(x @ start["omega"] + start["phase"]) / np.float32(sqrt(FEATURES))
            np.savez(folder / "features" / f"{client}.npz", x=phi, y=y)
    x, y = _rows(work, 20, rng)
    np.savez(folder / "test.npz", x=x, y=y)


def write_grid(demo: Path, folder: Path) -> None:
    """Write the demo edition of CIFAR-10 as clients of equal size, each with two shares of rows by label."""
    rng = np.random.default_rng(0)
    with np.load(demo) as file:
        parts = {
            part: (file[f"{part}_x"].astype(np.float32) / 255 - 0.5, file[f"{part}_y"].astype(np.int64))
            for part in ("train", "test")
        }
    x, y = parts["train"]
    shares = np.array_split(np.argsort(y, kind="stable"), 2 * CLIENTS)
    dealt = rng.permutation(2 * CLIENTS).reshape(CLIENTS, 2)
    (folder / "clients").mkdir(parents=True)
    for client, (first, second) in enumerate(dealt):
        rows = np.concatenate([shares[first], shares[second]])
        np.savez(folder / "clients" / f"{client}.npz", x=x[rows], y=y[rows])
    np.savez(folder / "test.npz", x=parts["test"][0], y=parts["test"][1])
    np.savez(folder / "start.npz", **first_weights(GRID, rng))  # type: ignore[arg-type]


def first_weights(work: Workload, rng: np.random.Generator) -> Arrays:
    """Draw the first weights, and omega and phase of fixed features, under fedcore's names."""
    name, model = work.model["name"], work.model
    shapes: dict[str, tuple[int, ...]] = {}
    if name == "mlp":
        for i, (a, b) in enumerate(pairwise([prod(work.inputs), *model["hidden"], work.classes])):
            shapes |= {f"layers.{i}.weight": (b, a), f"layers.{i}.bias": (b,)}
    elif name == "cnn":
        flat = 64 * (work.inputs[1] // 4) * (work.inputs[2] // 4)
        layers: dict[str, tuple[int, ...]] = {"conv1": (32, work.inputs[0], 5, 5), "conv2": (64, 32, 5, 5)}
        layers |= {"fc1": (512, flat), "fc2": (work.classes, 512)}
        for layer, shape in layers.items():
            shapes |= {f"{layer}.weight": shape, f"{layer}.bias": shape[:1]}
    elif name == "lstm":
        width, hidden = model["embedding"], model["hidden"]
        shapes["embedding.weight"] = (work.vocabulary or 0, width)
        for depth in range(model["layers"]):
            inputs = hidden if depth else width
            shapes |= {f"lstm.weight_ih_l{depth}": (4 * hidden, inputs)}
            shapes |= {f"lstm.weight_hh_l{depth}": (4 * hidden, hidden)}
            shapes |= {f"lstm.bias_{side}_l{depth}": (4 * hidden,) for side in ("ih", "hh")}
        shapes |= {"fc.weight": (work.classes, hidden), "fc.bias": (work.classes,)}
    else:
        omega = rng.normal(0.0, model["sigma"], (prod(work.inputs), FEATURES))
        phase = rng.uniform(0.0, 2 * pi, FEATURES)
        fixed = {"omega": omega.astype(np.float32), "phase": phase.astype(np.float32)}
        return fixed | _drawn({"weight": (work.classes, FEATURES)}, rng)
    return _drawn(shapes, rng)


def load(folder: Path, work: Workload, client: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Read what a peer's client trains on: rows, or their fixed features, and labels."""
    with np.load(folder / ("features" if work.fixed_features else "clients") / f"{client}.npz") as file:
        return file["x"], file["y"]


def weights(path: Path) -> Arrays:
    """Read named weights; what is not trained is left out."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name not in {"omega", "phase"}}


def _drawn(shapes: dict[str, tuple[int, ...]], rng: np.random.Generator) -> Arrays:
    """Draw weights from U(+-1/sqrt(fan in)); biases from a tenth of that."""
    drawn = {}
    for name, shape in shapes.items():
        bound = 0.05 if len(shape) == 1 else 1 / sqrt(prod(shape[1:]))
        drawn[name] = rng.uniform(-bound, bound, shape).astype(np.float32)
    return drawn


def _rows(work: Workload, count: int, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Draw rows (normal, or tokens) with labels in turn, all classes in every client."""
    y = np.arange(count, dtype=np.int64) % work.classes
    if work.vocabulary:
        return rng.integers(0, work.vocabulary, (count, *work.inputs)), y
    return rng.standard_normal((count, *work.inputs), dtype=np.float32), y
