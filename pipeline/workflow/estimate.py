"""How long a run takes and how much memory it needs, guessed before it begins: work times what work took.

Plug-ins say what there is to do: data sets how large they are, models how many multiplications a row takes,
the parts of an algorithm what they add. ``costs.json`` holds what ``benchmarks/costs.py`` fitted to the runs
of reports/reference: seconds for each sort of work, factors for runs that are alike, and how far off both
are. What results took on the machine at hand, or a calibration of some seconds, sets that right.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain
from math import ceil, exp, log, prod
from pathlib import Path
from statistics import median
from typing import Any, get_args

import numpy as np

from fedcore.base.errors import FedcoreError, SpecError
from fedcore.base.files import canonical_json, read_or_empty
from fedcore.base.registry import chosen
from fedcore.data import Size
from fedcore.execution.integrity import TIMING, sealed_or_empty
from fedcore.execution.machine import processor
from fedcore.models import Shape
from fedcore.parts import Recipe
from fedcore.spec import Participation, Precision
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import STUDY
from pipeline.catalogue.specification import cohort_size, training_clients
from pipeline.catalogue.targets import RESULTS, PlannedRun

FITTED = Path(__file__).with_name("costs.json")
ENOUGH = 5
START_SECONDS = 60.0
BASE_MB = 600
MARGIN, MEMORY_MARGIN = 3.0, 1.5
LONGEST_MINUTES = 24 * 60
SMALL_STEP, SMALL_PERCENT = 1e9, 25
UNKNOWN = Size(10_000, (100,), 10)
TEST_SHARE = 0.2
PASSES = {"sgd": 0, "momentum": 2, "rmsprop": 4}
Factors = Mapping[str, float]


@dataclass(frozen=True)
class Cost:
    """A guess: seconds on one core, and ``low`` and ``high``, the ends of their 80% interval.

    ``memory_mb`` is the peak, and ``step_operations`` what one gradient step computes.
    """

    seconds: float
    low: float
    high: float
    memory_mb: int
    step_operations: float

    def __str__(self) -> str:
        """Return its time with the interval."""
        return with_interval(self.seconds, self.low, self.high)

    def __add__(self, other: "Cost") -> "Cost":
        """Return the cost of both, one after the other, as if both guesses were off by the same factor."""
        times = (self.seconds + other.seconds, self.low + other.low, self.high + other.high)
        steps = max(self.step_operations, other.step_operations)
        return Cost(*times, max(self.memory_mb, other.memory_mb), steps)

    def minutes(self, attempt: int = 1) -> int:
        """Return what to ask a cluster for: the time with a margin, twice as much at each further attempt.

        It is a day at most. A run that takes longer goes on from its checkpoint at the next attempt.
        """
        minutes = ceil((START_SECONDS + MARGIN * self.seconds) / 60 * 2.0 ** (attempt - 1))
        return min(minutes + 1, LONGEST_MINUTES)

    def megabytes(self, attempt: int = 1) -> int:
        """Return the memory to ask a cluster for: half as much again, and again at each further attempt."""
        return ceil(self.memory_mb * (MEMORY_MARGIN + (attempt - 1) / 2))

    @property
    def gpu_percent(self) -> int:
        """The share of a GPU that it takes: a run of small gradient steps leaves room for others."""
        return SMALL_PERCENT if self.step_operations < SMALL_STEP else 100


NOTHING = Cost(0.0, 0.0, 0.0, 0, 0.0)


@dataclass(frozen=True)
class Network:
    """What counts of a model: its parameters, multiplications a row, and numbers that a row is kept as.

    Of the multiplications, ``dense`` are with weights that are used once, ``shared`` with weights that are
    used at many pixels or for many tokens.
    """

    parameters: int
    dense: float
    shared: float
    width: int


@dataclass(frozen=True)
class Demand:
    """What a run asks for: how much of each sort of ``work`` that ``costs.json`` has a rate for.

    ``like`` names groups of like runs, the most specific first; ``known``: whether the data say their size.
    """

    work: Mapping[str, float]
    like: tuple[str, ...]
    memory_mb: int
    step_operations: float
    known: bool


def demand(spec: Mapping[str, Any], recipe: Recipe) -> Demand:
    """Return what the run of a resolved specification and its recipe asks for."""
    size = size_of(canonical_json(spec["data"]))
    network = network_of(canonical_json(spec["model"]), size)
    training, schedule = spec["training"], recipe.schedule
    rounds = training["rounds"]
    trained, tested, held_out = _row_counts(spec["partition"], size)
    clients, cohort = _federation(spec, size)
    extra = recipe.work(held_out)
    share = trained / clients * (1 if schedule.federated else cohort)
    batch = share if training["batch_size"] == "full" else min(training["batch_size"], max(share, 1.0))
    trainings = rounds * (schedule.trainings(cohort) if schedule.federated else 1)  # pooled data: one client
    trainings *= 2 if spec["evaluation"].get("divergence") else 1
    epochs, local = training["local_epochs"], training["local_steps"]
    steps = trainings * float(epochs * max(1, ceil(share / batch)) if local is None else np.mean(local))
    stepped = steps * batch if epochs is None else trainings * epochs * max(share, 1)
    forward = stepped * (3 + extra.batch) + trainings * share * (extra.rows + 3 * extra.gradients)
    forward += trainings * batch * extra.pieces + rounds * cohort * extra.validation * held_out
    measured = _measured_rows(spec, trained, tested, size)
    computed = dict.fromkeys(get_args(Precision), 0.0)
    computed[spec["precision"]] += forward
    computed[spec["evaluation"].get("precision") or "fp32"] += measured
    vectors = extra.vectors + PASSES[training["optimizer"]] + (2 if training["weight_decay"] else 0)
    pairs = steps * (batch + extra.points) ** 2 if extra.points else 0.0
    work = {
        "step": steps,
        "dense": 2 * computed["fp32"] * network.dense,
        "shared": 2 * computed["fp32"] * network.shared,
        "bf16": 2 * computed["bf16"] * (network.dense + network.shared),
        "vectors": steps * vectors * network.parameters,
        "pairs": pairs + _tests(spec) * clients * extra.measured**2,
        "decompositions": steps * extra.decompositions,
        "training": trainings,
        "sent": trainings * network.parameters,
        "round": rounds,
        "server": rounds * extra.server,
        "mixed": rounds * extra.mixed * cohort * size.classes,
        "measured": measured,
        "loaded": size.rows * prod(size.inputs),
    }
    models = (1 + extra.held) * cohort + extra.held * clients + extra.versions + 10
    numbers = 2 * size.rows * network.width + models * network.parameters
    memory = ceil(BASE_MB + (8 if spec["dtype"] == "float64" else 4) * numbers / 2**20)
    operations = 6 * batch * (network.dense + network.shared)
    return Demand(work, _like(spec, recipe, held_out), memory, operations, size is not UNKNOWN)


def _row_counts(split: Mapping[str, Any], size: Size) -> tuple[float, float, float]:
    """Return how many rows of the data are trained on, tested on, and held out."""
    fold, kept = split.get("fold"), split.get("validation")
    tested = size.rows / fold["of"] if fold else TEST_SHARE * size.rows if size.test is None else size.test
    validation = (size.rows - tested) * kept if kept else tested
    return size.rows - tested - (validation if fold or kept else 0), tested, validation


def _tests(spec: Mapping[str, Any]) -> float:
    """Return how often models are tested, on test rows and on those held out."""
    evaluation = spec["evaluation"]
    times: float = spec["training"]["rounds"] / evaluation["every"] + 1
    return times * (2 if evaluation.get("validation") else 1)


def _measured_rows(spec: Mapping[str, Any], trained: float, tested: float, size: Size) -> float:
    """Return how many rows all measurements pass through a model."""
    evaluation, rounds, every = spec["evaluation"], spec["training"]["rounds"], spec["evaluation"]["every"]
    train_every = every if evaluation["train_every"] is None else evaluation["train_every"]
    on_training: float = rounds / train_every + 1 if train_every else 0.0
    observers = (evaluation.get("observe") or {}).values()
    observed: float = sum(rounds / (options.get("every") or every) for options in observers)
    return tested * _tests(spec) + trained * on_training + size.rows * observed


def _federation(spec: Mapping[str, Any], size: Size) -> tuple[int, int]:
    """Return how many clients train, and how many a round; as many as the data's size says if need be."""
    try:
        return training_clients(spec), cohort_size(spec)
    except (SpecError, OSError):
        participation = Participation.model_validate(spec["participation"])
        return size.clients, participation.cohort_size(size.clients)


def _like(spec: Mapping[str, Any], recipe: Recipe, held_out: float) -> tuple[str, ...]:
    """Return the groups of a run: by data, model and working parts, without the data, by model, and all."""
    working = [part.label for part in recipe.parts() if any(part.work(held_out))]
    family = " + ".join(dict.fromkeys([recipe.schedule.label, *working]))
    data, model = spec["data"]["name"], spec["model"]["name"]
    return f"{data}, {model}, {family}", f"{model}, {family}", model, "all"


@cache
def fitted() -> dict[str, Any]:
    """Return what was fitted to kept runs: ``rates``, ``factors`` by group, ``spread`` by sort of group."""
    return dict(json.loads(FITTED.read_text("utf-8")))


def raw(need: Demand, rates: Mapping[str, float]) -> float:
    """Return the seconds of a run by its work alone."""
    return sum(rates[name] * amount for name, amount in need.work.items())


def factors(ratios: Iterable[tuple[Demand, float]]) -> dict[str, float]:
    """Return by how much each group of runs was off: the median of its ratios measured / guessed."""
    groups: dict[str, list[float]] = {}
    for need, ratio in ratios:
        for group in need.like:
            groups.setdefault(group, []).append(log(ratio))
    return {group: exp(median(logs)) for group, logs in sorted(groups.items()) if len(logs) >= ENOUGH}


def factor(need: Demand, known: Mapping[str, float]) -> tuple[int, float]:
    """Return the factor of the most specific group that has one, and which of the run's groups that is."""
    groups = ((at, known[name]) for at, name in enumerate(need.like) if name in known)
    return next(groups, (len(need.like), 1.0))


def estimate(need: Demand, speed: float = 1.0, here: Factors | None = None) -> Cost:
    """Guess the cost of a run by what it asks for.

    Runs take ``speed`` times as long here as the kept ones took; ``here``, the same by groups, goes first.
    """
    known = fitted()
    at, corrected = factor(need, known["factors"])
    local = factor(need, here)[1] if here else speed
    seconds = raw(need, known["rates"]) * corrected * local
    spread = known["spread"][at]
    return Cost(seconds, seconds / spread, seconds * spread, need.memory_mb, need.step_operations)


class Guesses:
    """The costs of runs on a machine, each setting worked out once; arguments are those of ``estimate``."""

    def __init__(self, speed: float = 1.0, here: Factors | None = None) -> None:
        self.speed, self.here = speed, here
        self._known: dict[str, Cost] = {}

    def __call__(self, run: PlannedRun) -> Cost:
        """Return the cost of a run, which does not depend on its seed."""
        if run.group not in self._known:
            self._known[run.group] = estimate(demand(run.spec, run.recipe), self.speed, self.here)
        return self._known[run.group]


def guesses(catalogue: Catalogue, root: Path = Path()) -> Guesses:
    """Return the costs of runs on this machine; ``root`` holds results/."""
    return Guesses(calibrated_speed() or 1.0, measured_here(catalogue, root))


def measured_here(catalogue: Catalogue, root: Path = Path(), device: str = "cpu") -> Factors:
    """Return how many times as long as guessed runs of each group took, by the results that are here.

    A run that went on from a checkpoint or ended early, whose time is not of all rounds, doesn't count, nor
    does a time that was changed.
    """
    guess, ratios = Guesses(), []
    scales = {catalogue.params.scale, STUDY}
    files = chain.from_iterable(root.glob(f"{RESULTS}/*/{s}/*/*/seed*/{TIMING}") for s in scales)
    timings = {path.parent.relative_to(root): sealed_or_empty(path) for path in files}
    index: dict[str, PlannedRun] = {}
    for paper in {folder.parts[1] for folder in timings} & {*catalogue.papers}:
        with suppress(SpecError):  # a wrong value of one paper is said where its runs are asked for
            index |= catalogue.planned(paper).runs
    for folder, timing in timings.items():
        run = index.get(folder.as_posix())
        uninterrupted = run and timing.get("rounds_in_this_process") == run.spec["training"]["rounds"]
        if run and uninterrupted and timing.get("device") == device and timing.get("seconds"):
            ratios.append((demand(run.spec, run.recipe), timing["seconds"] / guess(run).seconds))
    return factors(ratios)


def calibration() -> Path:
    """Return the file that a calibration writes, in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "fedcore", "speed.json")


def calibrated_speed() -> float | None:
    """Return how many times as long as kept runs took they take here; None without a sound calibration."""
    record = read_or_empty(calibration())
    value = record.get("speed")
    if isinstance(value, int | float) and value > 0 and record.get("processor") == processor():
        return float(value)
    return None


@cache
def size_of(data: str) -> Size:
    """Return how large a data set is, by its section as JSON; ``UNKNOWN`` if nobody says, or without rows."""
    try:
        choice = chosen("data", json.loads(data))
        size: Size = choice.plugin.size(choice.options) if choice.plugin.size else UNKNOWN
    except (FedcoreError, OSError):
        return UNKNOWN
    return size if size.rows else UNKNOWN


@cache
def network_of(model: str, size: Size) -> Network:
    """Return what counts of a model, by its section as JSON; a million parameters if it can't be built."""
    choice = chosen("model", json.loads(model))
    random = {"weights": "random"} if hasattr(choice.options, "weights") else {}
    vectors = None if size.vectors is None else np.broadcast_to(np.float32(0), size.vectors)
    shape = Shape(size.inputs, size.classes, size.vocabulary, vectors)
    try:
        built_model = choice.plugin.build(choice.options.model_copy(update=random), shape)
    except FedcoreError:
        return Network(10**6, 1e6, 0.0, prod(size.inputs))
    shapes = built_model.trainable.shapes
    matrices = sum(prod(shape) for shape in shapes.values() if len(shape) > 1)
    count = choice.plugin.multiplications
    dense, shared = count(built_model, size.inputs) if count else (matrices, 0.0)
    width = max(prod(size.inputs), shapes[built_model.head][-1] if built_model.split() else 0)
    return Network(sum(map(prod, shapes.values())), dense, shared, width)


def duration(seconds: float) -> str:
    """Return a guessed time in the unit that suits it."""
    if seconds < 90:
        return f"{ceil(seconds)} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} hours"
    days = seconds / 86400
    if days < 1000:
        return f"{days:.{int(days < 100)}f} days"
    return f"{days / 365.25:,.0f} years"


def with_interval(seconds: float, low: float, high: float) -> str:
    """Return a guessed time and between what it lies."""
    least, most = duration(low), duration(high)
    number, _, unit = least.partition(" ")
    return f"{duration(seconds)} ({number if most.endswith(f' {unit}') else least} to {most})"
