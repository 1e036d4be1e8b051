"""What an algorithm is made of: the kinds of parts, and the recipe that holds them.

A round has phases, each the business of one kind of part: select the cohort, plan who trains which
slot (schedule), broadcast and local steps (objective terms, update rule), upload, aggregate, server
update, and what else is exchanged. Parts are frozen values; what changes is in ``State``.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import SpecError
from fedcore.base.lazy import Tensor
from fedcore.base.rng import Streams
from fedcore.engines import BoundTerm, Direction, Job, Loop, Upload
from fedcore.engines.autograd import Autograd
from fedcore.engines.problem import Problem
from fedcore.spec import Spec

OptimizerState = dict[str, Tensor]
Step = tuple[Tensor, OptimizerState]


@dataclass(frozen=True)
class Run:
    """What a run keeps and parts may read; ``steps``: each client's in a round, None where epochs count."""

    spec: Spec
    problem: Problem
    recipe: "Recipe"
    engine: Autograd
    streams: Streams
    steps: list[int | None]

    def due(self, done: int, every: int) -> bool:
        """Whether what happens every so many rounds happens after this one; the last round counts always."""
        return done % every == 0 or done == self.spec.training.rounds


@dataclass
class State:
    """All that a run remembers from round to round, and all that a checkpoint saves.

    Attributes:
        round: rounds done.
        models: the server's models [groups, d]; one row except where clients are clustered.
        optimizer_state: the server optimizer's memory, by group and name.
        server: other server-side tensors by name (control variates, mixture weights, old versions).
        clients: per-client tensors by name and client id; a name that is new has no clients.
        values: small JSON values (cluster of each client); all keys are text.
        holders: the clients that hold the server's current model, which is not sent to them again.
        bytes_down, bytes_up: bytes that clients received and sent so far.
        rows_gradient, rows_forward: rows that gradients were computed of so far, and that were only passed
            through a model; 0 unless the specification asks for them.
        history: one record per measured round.
        seconds: how long earlier processes worked on the run, up to the checkpoint that it went on from.
    """

    round: int
    models: Tensor
    optimizer_state: dict[int, OptimizerState] = field(default_factory=dict)
    server: dict[str, Tensor] = field(default_factory=dict)
    clients: dict[str, dict[int, Tensor]] = field(default_factory=lambda: defaultdict(dict))
    values: dict[str, Any] = field(default_factory=dict)
    holders: list[int] = field(default_factory=list)
    bytes_down: int = 0
    bytes_up: int = 0
    rows_gradient: int = 0
    rows_forward: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def model(self) -> Tensor:
        """The global model w [d] (the first group's)."""
        return self.models[0]

    def count(self, down: int, up: int) -> None:
        """Add numbers that travel, each as large as a parameter, to the traffic."""
        self.bytes_down += down * self.models.element_size()
        self.bytes_up += up * self.models.element_size()


@dataclass(frozen=True)
class Plan:
    """Who trains what in a round.

    Attributes:
        cohort: the clients taking part, in the order in which they were selected.
        starts: the model [d] that each slot starts from.
        stages: (slot, client) pairs of each stage; later stages train the slot's newest model. An
            iterator may look at the state that earlier stages left.
        groups: the server model that each slot is merged into.
        every_stage: whether all stages' uploads are merged, not only each slot's last.
    """

    cohort: tuple[int, ...]
    starts: tuple[Tensor, ...]
    stages: Iterable[tuple[tuple[int, int], ...]]
    groups: tuple[int, ...]
    every_stage: bool = False


@dataclass(frozen=True)
class Message:
    """What each client of a round's cohort receives or sends besides the models that it trains.

    Attributes:
        way: ``down`` from the server to the client, or ``up``.
        name: what it is, in words.
        size: how many numbers it has in this round; as many as a model unless given.
        is_model: whether it is the round's new model, which its receivers then hold in the next round.
    """

    way: Literal["down", "up"]
    name: str
    size: Callable[[Run, State], int] = lambda run, state: state.models.shape[1]
    is_model: bool = False


class Work(NamedTuple):
    """What a part adds to a run, for guesses of time and memory; a gradient is worth three forward passes.

    Attributes:
        vectors: passes over the model's parameters in each local step.
        batch: forward passes over each local step's batch.
        rows, gradients: forward passes, and gradients, over a client's rows, each time that it trains.
        pieces: forward passes over one batch of a client's rows, each time that it trains.
        first_rows, first_gradients: such over all clients' rows before the first round.
        points: how many points each local step compares with those of its batch, two by two.
        measured: of how many points a client's distances are taken, each time that the model is measured.
        decompositions: singular value decompositions of the output layer in each local step.
        validation: forward passes over the validation rows for each model that is sent.
        server: steps of the server in each round.
        mixed: rows whose scores under all models of the cohort these steps mix.
        held, versions: vectors, as large as a model, that each client keeps, and that the server keeps.
    """

    vectors: int = 0
    batch: int = 0
    rows: int = 0
    gradients: int = 0
    pieces: int = 0
    first_rows: int = 0
    first_gradients: int = 0
    points: int = 0
    measured: int = 0
    decompositions: int = 0
    validation: int = 0
    server: float = 0.0
    mixed: float = 0.0
    held: int = 0
    versions: int = 0


class Part:
    """Hooks that any part may fill; each does nothing unless it is filled.

    ``label`` names the part; ``family`` is the wider sort that a taxonomy files it under, where that
    differs from the label. ``sends`` and ``costs`` are what ``messages`` and ``work`` return, of a part for
    which that is always the same.
    """

    label: str = ""
    family: ClassVar[str] = ""
    sends: ClassVar[tuple[Message, ...]] = ()
    costs: ClassVar[Work] = Work()

    def start(self, run: Run, state: State) -> None:
        """Before the first round: put the part's own memory into the state."""

    def before(self, run: Run, state: State, plan: Plan) -> None:
        """Before local training: synchronise what the round needs."""

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        """After one client's local training: compute on the client what else it sends."""

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """After the server update; ``before`` [groups, d] is the server's models of the round's start."""

    def messages(self) -> tuple[Message, ...]:
        """Return what travels in each round for this part, which is counted as traffic."""
        return self.sends

    def work(self, validation: float) -> Work:
        """Return what this part adds to the work of a run with about so many validation rows."""
        return self.costs

    def parts(self) -> "Iterator[Part]":
        """Yield the parts inside this one, then itself, in the order in which their hooks run."""
        yield self

    def columns(self, state: State) -> dict[str, float]:
        """Return this part's own columns of history.csv."""
        return {}

    def tables(self, state: State) -> dict[str, list[dict[str, float]]]:
        """Return this part's own tables of a finished run, by the name of their file without .csv."""
        return {}

    def arrays(self, state: State) -> dict[str, dict[str, NDArray[np.generic]]]:
        """Return this part's own arrays of a finished run, by their file without .npz, then by their name."""
        return {}


class Term(Part, ABC):
    """A term of the local objective."""

    family = "regularized loss"

    @abstractmethod
    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        """Return the term for one client in one round."""


class UpdateRule(Part):
    """The local update rule; plain unless ``direction`` is filled. ``takes_terms``: of an objective."""

    label = "SGD"
    takes_terms: ClassVar[bool] = True

    def direction(self, run: Run, state: State, job: Job) -> Direction:
        """Return how this client's gradients are corrected in this round."""
        return Direction()

    def loop(self, run: Run, state: State, job: Job) -> Loop | None:
        """Return this client's whole training in this round, in place of steps along a direction, or None."""
        return None


class Exchange(Part):
    """Something besides models that is sent, and the memory it needs."""


class Selection(Part, ABC):
    """Client sampling."""

    @abstractmethod
    def cohort(self, run: Run, state: State) -> tuple[int, ...]:
        """Return the clients of the coming round."""


class Schedule(Part, ABC):
    """Who trains which slot, and when slots are merged; ``federated``: whether clients train at all."""

    federated: ClassVar[bool] = True

    @property
    def in_turn(self) -> int:
        """How many clients train a slot's model one after another, before it is merged."""
        return 1

    def start(self, run: Run, state: State) -> None:
        """Refuse asynchronous events, which only some schedules have."""
        if run.spec.participation.events is not None:
            name = run.spec.algorithm.name
            raise SpecError(f"participation.events: '{name}' is synchronous, expected none")

    def trainings(self, cohort: int) -> int:
        """Return how often clients train in a round, where a synchronous round has ``cohort`` clients."""
        return cohort * self.in_turn

    @abstractmethod
    def plan(self, run: Run, state: State) -> Plan:
        """Return the coming round's plan."""


class Aggregation(Part, ABC):
    """How uploads become one change of the server's model."""

    label = "averaging"

    @abstractmethod
    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Return the aggregated change [d], to be added to ``model``."""


class ServerOptimizer(Part, ABC):
    """How the aggregated change moves the server's model."""

    @abstractmethod
    def step(self, run: Run, state: State, model: Tensor, change: Tensor, past: OptimizerState) -> Step:
        """Return the new model [d] and the optimizer's new state."""


@dataclass(frozen=True)
class Recipe:
    """An algorithm: a frozen choice of parts; observers measure a run and change nothing in it."""

    schedule: Schedule
    select: Selection
    aggregate: Aggregation
    server: ServerOptimizer
    update: UpdateRule = field(default_factory=UpdateRule)
    objective: tuple[Term, ...] = ()
    exchange: tuple[Exchange, ...] = ()
    observers: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        """Refuse terms beside a local update that takes none."""
        for term in () if self.update.takes_terms else self.objective:
            raise SpecError(f"algorithm: its loop has its own objective, found the term '{term.label}'")

    def parts(self) -> tuple[Part, ...]:
        """Return all parts, in the order in which their hooks run."""
        outer = (*(part for _, part in roles(self)), *self.observers)
        return tuple(chain.from_iterable(part.parts() for part in outer))

    def messages(self) -> list[Message]:
        """Return what travels in each round besides the models that are trained."""
        return [message for part in self.parts() for message in part.messages()]

    def work(self, validation: float) -> Work:
        """Return what its parts add to the work of a run with about so many validation rows."""
        return Work(*map(sum, zip(*(part.work(validation) for part in self.parts()), strict=True)))


def roles(recipe: Recipe) -> Iterator[tuple[str, Part]]:
    """Yield every part of a recipe with the role it plays, FedAvg's four choices of ComFed in its order."""
    yield "schedule", recipe.schedule
    yield "client sampling", recipe.select
    yield from (("local objective", term) for term in recipe.objective)
    yield "local update", recipe.update
    yield from (("exchange", part) for part in recipe.exchange)
    yield "aggregation", recipe.aggregate
    yield "server optimizer", recipe.server
