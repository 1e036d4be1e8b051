"""What a peer's script gets and gives: a request as JSON on its command line, a line of JSON as output."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
from workloads import BY_NAME, Arrays, Workload


@dataclass(frozen=True)
class Request:
    """One measurement.

    Attributes:
        folder: the workload's folder.
        rounds: rounds to do, the first one included.
        full_batch: local steps on all rows of a client, `epochs` of them: what all peers compute alike.
        launched: the system's monotonic clock when the process was started.
        weights: file for the final weights.
        engine: fedcore's engine.
    """

    workload: str
    folder: str
    rounds: int
    full_batch: bool
    launched: float
    weights: str
    engine: str = "auto"

    @property
    def work(self) -> Workload:
        """The workload of that name."""
        return BY_NAME[self.workload]

    @property
    def path(self) -> Path:
        """Its folder."""
        return Path(self.folder)

    @property
    def batch(self) -> int:
        """Rows of a local step."""
        return self.work.rows if self.full_batch else self.work.batch

    @property
    def start(self) -> Path:
        """The file of the first weights."""
        return self.path / "start.npz"


def request() -> Request:
    """Read the request that this process was started with."""
    return Request(**json.loads(sys.argv[1]))


def written(values: Request) -> str:
    """Return a request as its text."""
    return json.dumps(asdict(values))


class Clock:
    """Wall-clock and processor seconds between marks: one before the first round, one after each."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.processor: list[float] = []

    def mark(self, device: str = "cpu") -> None:
        """Note the time, as soon as a GPU has done what it was told."""
        if device == "cuda":
            import_module("torch").cuda.synchronize()
        self.wall.append(time.monotonic())
        self.processor.append(time.process_time())


def answer(measurement: Request, clock: Clock, final: Arrays, version: str, engine: str = "") -> None:
    """Write the final weights and print what was measured."""
    np.savez(measurement.weights, **{name: np.asarray(array) for name, array in final.items()})  # type: ignore[arg-type]
    values = {
        "version": version,
        "engine": engine,
        "began": clock.wall[0] - measurement.launched,
        "wall": np.diff(clock.wall).tolist(),
        "processor": np.diff(clock.processor).tolist(),
    }
    print("\n" + json.dumps(values), flush=True)
