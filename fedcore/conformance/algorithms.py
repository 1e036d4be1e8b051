"""What any algorithm must do: end, repeat itself, resume, be the same in all engines, count its bytes."""

import csv
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from fedcore.base.errors import BrokenContract, SpecError
from fedcore.base.lazy import Tensor
from fedcore.base.registry import Plugin
from fedcore.conformance import Checks, Skipped, disturb, require
from fedcore.engines import Upload
from fedcore.execution.integrity import HISTORY, SUMMARY
from fedcore.execution.runner import Settings, prepare, run
from fedcore.execution.simulation import simulate
from fedcore.parts import Part, Plan, Run, State
from fedcore.spec import parse

MODELS: tuple[dict[str, Any], ...] = (
    {"name": "mlp", "hidden": [6], "activation": "tanh"},
    {"name": "rff_linear", "features": 20, "sigma": 1.0, "learnable": True},
    {"name": "logistic"},
)
ROUNDS = (6, 1)
STREAMS = "draw random numbers from run.streams.get(purpose, round, client) and nowhere else"
STATE = "keep what must survive a round in state.server, state.clients, state.optimizer_state or state.values"
GRADIENTS = "a term's feature_gradient must be the gradient of its feature_loss, in whichever call"
TOLERANCE = 1e-9
CPU = Settings(device="cpu")


class Stop(Exception):
    """Ends a run before its time."""


def checks(plugin: Plugin, options: Mapping[str, Any], folder: Path) -> Checks:
    """Yield an algorithm's requirements, each with its check, which works in an empty folder; raises
    SpecError where no short run can be specified with these options.
    """
    spec = _accepted(plugin, options)
    yield "it runs and its numbers are finite", partial(_finite, spec)
    yield "loss falls on similar clients", partial(_learns, spec)
    yield "the same specification gives the same bytes", partial(_again, spec, folder / "again")
    yield "another seed gives other numbers", partial(_seeds, spec)
    yield "an interrupted run goes on to the same bytes", partial(_resumes, spec, folder / "resumed")
    for engine in ("analytic", "stacked"):
        yield f"engine '{engine}' agrees with autograd", partial(_agrees, spec, engine)
    yield "what travels is counted, and named", partial(_counts, spec)
    if not plugin.released:
        yield "variant 'released' is the same where none is described", partial(_one_variant, spec)


def _accepted(plugin: Plugin, options: Mapping[str, Any]) -> dict[str, Any]:
    refused = SpecError(f"algorithm '{plugin.name}' accepts no run")
    for model, rounds in product(MODELS, ROUNDS):
        spec: dict[str, Any] = {
            "data": {"name": "synthetic", "clients": 4, "dimension": 8, "classes": 3, "largest": 60},
            "partition": {"name": "natural", "validation": 0.2},
            "model": model,
            "algorithm": {"name": plugin.name, **options},
            "training": {"rounds": rounds, "local_epochs": 1, "batch_size": 8, "lr": 0.05},
            "participation": {"fraction": 0.75},
            "dtype": "float64",
            "engine": "autograd",
            "seed": 3,
        }
        try:
            for first in sorted({1, rounds}):
                run({**spec, "training": {**spec["training"], "rounds": first}}, None, CPU, False)
        except Exception as error:
            if isinstance(error, SpecError) and not isinstance(error, BrokenContract):
                refused = error
                continue
        return spec
    raise refused


def _finite(spec: dict[str, Any]) -> None:
    summary = run(spec, None, CPU, False).summary
    wrong = f"after {summary['rounds']} rounds a parameter or a loss is no finite number"
    require(summary["status"] == "completed", wrong)


def _learns(spec: dict[str, Any]) -> None:
    alike = {**spec, "partition": {"name": "iid", "clients": 4, "validation": 0.2}}
    history = run(alike, None, CPU, False).rows
    first, last = history[0]["train_loss"], history[-1]["train_loss"]
    require(last < first, f"the training loss was {first:.4g} before and is {last:.4g} after")


def _again(spec: dict[str, Any], folder: Path) -> None:
    for name, seed in (("one", 1), ("two", 2), ("three", 2)):
        disturb(seed)
        run(spec, folder / name, CPU, False)
    where = _difference(folder / "one", folder / "two")
    remembers = where and _difference(folder / "two", folder / "three")
    require(not remembers, f"{where}; a part remembers something of an earlier run: {STATE}")
    require(not where, f"{where}; numpy's, torch's or Python's own random numbers are used: {STREAMS}")


def _seeds(spec: dict[str, Any]) -> None:
    first, second = (run({**spec, "seed": seed}, None, CPU, False).rows for seed in (3, 4))
    require(first != second, f"seeds 3 and 4 give the same history; {STREAMS}")


def _resumes(spec: dict[str, Any], folder: Path) -> None:
    rounds = spec["training"]["rounds"]
    run(spec, folder / "whole", CPU, False)
    for stop in range(rounds):

        def cut(done: int, total: int, row: Mapping[str, float], last: int = stop) -> None:
            if done > last:
                raise Stop

        part = folder / f"from{stop}"
        try:
            run(spec, part, replace(CPU, checkpoint_seconds=0.0), cut)
        except Stop:
            run(spec, part, CPU, False)
        where = _difference(folder / "whole", part)
        require(not where, f"stopped after round {stop} of {rounds}, {where}; {STATE}: no more is saved")
        shutil.rmtree(part)


def _difference(folder: Path, other: Path) -> str:
    """Say where two runs differ first; empty if they don't."""
    names = sorted(path.name for path in (*folder.glob("*.csv"), *folder.glob("*.npz"), folder / SUMMARY))
    differing = [name for name in names if (folder / name).read_bytes() != (other / name).read_bytes()]
    if HISTORY in differing:
        with (folder / HISTORY).open() as a, (other / HISTORY).open() as b:
            for left, right in zip(csv.DictReader(a), csv.DictReader(b), strict=False):
                if columns := [key for key in left if left[key] != right.get(key)]:
                    return f"{columns[0]} differs from round {left['round']} on"
    return f"{differing[0]} differs" if differing else ""


def _agrees(spec: dict[str, Any], engine: str) -> None:
    expected = run(spec, None, CPU, False).parameters
    try:
        actual = run({**spec, "engine": engine}, None, CPU, False).parameters
    except SpecError as error:
        raise Skipped(str(error)) from None
    scale = max(float(np.abs(array).max()) for array in expected.values())
    apart = max(float(np.abs(actual[name] - array).max()) for name, array in expected.items()) / scale
    wrong = f"parameters are {apart:.1e} of the largest apart, expected at most {TOLERANCE:.0e}; {GRADIENTS}"
    require(apart <= TOLERANCE, wrong)


@dataclass(frozen=True)
class TrafficObserver(Part):
    """Sees what the messages of each round count, and what clients send besides models."""

    counted: Counter[tuple[str, str]] = field(default_factory=Counter)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Compare a round's extras with its messages."""
        messages = run.recipe.messages()
        for message in messages:
            numbers = message.size(run, state)
            wrong = f"message '{message.name}' {message.way} has {numbers} numbers, expected a count"
            require(isinstance(numbers, int) and numbers >= 0, wrong)
            self.counted[message.name, message.way] += numbers
        names = ", ".join(sorted({f"'{name}'" for upload in uploads for name in upload.extras}))
        sends = any(message.way == "up" for message in messages)
        require(sends or not names, f"clients send {names} besides the model, but no message goes up")


def _counts(spec: dict[str, Any]) -> None:
    prepared, _, _ = prepare(parse(spec), CPU)
    observer = TrafficObserver()
    observed = replace(prepared, recipe=replace(prepared.recipe, observers=(observer,)))
    state = State(round=0, models=observed.problem.start.clone().unsqueeze(0))
    for _ in simulate(observed, state):
        pass
    for (name, way), numbers in observer.counted.items():
        require(name.strip(), f"a message of {numbers:,} numbers {way} has no name")
        require(numbers, f"message '{name}' {way} never has any numbers")
    total = sum(row["bytes_up"] for row in state.history)
    require(total == state.bytes_up, f"rounds count {total:,} bytes up, the run {state.bytes_up:,}")


def _one_variant(spec: dict[str, Any]) -> None:
    paper, released = (run({**spec, "variant": name}, None, CPU, False) for name in ("paper", "released"))
    require(paper.rows == released.rows, "the numbers differ; say how in the plug-in's field released")
