"""One run's specification: its YAML form, its validation and its hash.

A specification says everything that decides a run's numbers and nothing else: no paths of results,
no devices, no cores. Two specifications that mean the same have the same hash.
"""

from functools import cached_property
from math import floor
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    InstanceOf,
    NonNegativeFloat,
    NonNegativeInt,
    PlainSerializer,
    PositiveFloat,
    PositiveInt,
    WithJsonSchema,
    model_validator,
)

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError, shown
from fedcore.base.files import digest
from fedcore.base.options import Options, omit_default, validate
from fedcore.base.registry import Choice, chosen, find

Precision = Literal["fp32", "bf16"]
TestedOn = Literal["test", "selection"]
Cohort = Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)]
Cohorts = Annotated[tuple[Cohort, ...], Field(min_length=1)]


class LrSchedule(Options):
    """How the local learning rate changes over a run.

    ``milestones`` sets the rate from a round on (round: rate). ``inverse_time`` uses, at gradient step
    t of the run, eta_t = lr / (1 + t / offset), the O(1/t) law of convergence theorems.
    """

    name: Literal["constant", "milestones", "inverse_time"]
    milestones: dict[PositiveInt, PositiveFloat] = Field(default_factory=dict)
    offset: PositiveFloat = 1.0

    @model_validator(mode="after")
    def _has_its_milestones(self) -> Self:
        if self.name == "milestones" and not self.milestones:
            raise ValueError("milestones: missing, expected a rate from a round on or more")
        if self.name != "milestones" and self.milestones:
            raise ValueError(f"milestones: given with name '{self.name}', expected name 'milestones'")
        if self.name != "inverse_time" and self.offset != 1:
            raise ValueError(f"offset: got {self.offset} with name '{self.name}', expected none")
        return self


class Training(Options, use_attribute_docstrings=True):
    """Local training of a client in one round.

    Exactly one of ``local_epochs`` and ``local_steps`` counts; one epoch is the default.
    """

    rounds: PositiveInt
    """Communication rounds."""
    local_epochs: PositiveInt | None = None
    """Passes over a client's data in a round, in place of `local_steps`."""
    local_steps: PositiveInt | tuple[PositiveInt, ...] | None = None
    """Gradient steps of a client in a round (E); one number, or one per client."""
    batch_size: PositiveInt | Literal["full"]
    """Rows per gradient step, or `full`."""
    lr: PositiveFloat
    """Local learning rate."""
    optimizer: Literal["sgd", "momentum", "rmsprop"] = "sgd"
    """Local optimizer; plain SGD unless set."""
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Local momentum."""
    weight_decay: NonNegativeFloat = 0.0
    """Local L2 weight decay."""
    lr_schedule: LrSchedule = LrSchedule(name="constant")
    """How the local rate changes over rounds; constant unless set."""
    drop_last: bool = False
    """Leave out a client's last incomplete batch."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: Any) -> Any:
        if isinstance(values, dict):
            values = dict(values)
            if values.get("local_epochs") is None and values.get("local_steps") is None:
                values["local_epochs"] = 1
            if values.get("momentum") is None:
                values["momentum"] = 0.9 if values.get("optimizer") == "momentum" else 0.0
        return values

    @model_validator(mode="after")
    def _one_length_and_optimizer(self) -> Self:
        if self.local_epochs is not None and self.local_steps is not None:
            raise ValueError("local_epochs and local_steps are both given, expected one of them")
        if self.optimizer != "rmsprop":
            self.__dict__["optimizer"] = "momentum" if self.momentum else "sgd"
        return self


class Participation(Options):
    """Who takes part in a round: a fraction of the clients, or what is given.

    ``cohorts`` lists the clients of each round (cycled); ``assignments`` the client of each model in
    each inner round of a redistribution schedule (cycled); ``events`` the [client, staleness] of each
    asynchronous update (cycled).
    """

    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    cohorts: Cohorts | None = None
    assignments: Cohorts | None = None
    events: Annotated[tuple[tuple[NonNegativeInt, NonNegativeInt], ...], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [name for name in ("cohorts", "assignments", "events") if getattr(self, name) is not None]
        given += ["fraction"] if self.fraction != 1 else []
        if len(given) > 1:
            raise ValueError(f"{given[1]}: given beside '{given[0]}', expected one of them")
        return self

    def cohort_size(self, clients: int, active: int | None = None) -> int:
        """Return S: the fraction of all clients, at least one, at most those with data (all unless given)."""
        return max(1, min(floor(self.fraction * clients + 0.5 + 1e-9), clients if active is None else active))


def _observers(given: Any) -> dict[str, Choice]:
    """Return the observers that are named with their options; no value at all stands for no options."""
    if not isinstance(given, dict):
        raise SpecError(f"evaluation.observe: expected observers with their options, got {shown(given)}")
    observers = {}
    for name, values in given.items():
        plugin = find("observer", name, "evaluation.observe")
        options = {} if values is None else values
        observers[name] = Choice(plugin, validate(plugin.options, options, f"evaluation.observe.{name}"))
    return observers


Observers = Annotated[
    dict[str, InstanceOf[Choice]],
    BeforeValidator(_observers),
    PlainSerializer(lambda observers: {name: choice.values() for name, choice in observers.items()}),
    WithJsonSchema({"type": "object"}),
]


class Evaluation(Options, use_attribute_docstrings=True):
    """When and how the global model is measured: at regular rounds, and always after the last."""

    every: PositiveInt = 1
    """Rounds between two measurements on the test data."""
    train_every: NonNegativeInt | None = None
    """Rounds between two measurements of the loss on all training data, which costs most; 0: never. Only
    rounds that `every` divides too are measured."""
    clients: bool = False
    """Also write each client's test accuracy at the end, to `clients.csv`."""
    divergence: bool = False
    """Also write how far models drift apart, and from centralised training, to `divergence.csv`."""
    metrics: tuple[Literal["f1", "auc"], ...] = ()
    """Further columns: `test_f1` and `test_auc`."""
    validation: bool = False
    """Measure validation rows too, in columns `validation_loss`, `validation_accuracy` and so on."""
    tested_on: TestedOn = omit_default("test")
    """Rows that `test_loss`, `test_accuracy` and so on are measured on; `selection`: those of
    `partition.selection`, so that a run that is there to be chosen never sees a test row."""
    count_rows: bool = omit_default(False)
    """Count `rows_gradient` and `rows_forward` in summary.json: the rows that training computed gradients of,
    and those that it only passed through a model; measuring doesn't count."""
    stop_at: Annotated[float, Field(gt=0, le=1)] | None = omit_default(None)
    """Test accuracy at which a run ends before `training.rounds`, once it is measured; never unless set."""
    precision: Precision = omit_default("fp32")
    """Arithmetic of features when the model is measured; output layer, losses and means keep `dtype`."""
    observe: Observers = omit_default({})
    """Observers with their options, which keep more of a run in files; see `fedcore list observers`."""

    @model_validator(mode="after")
    def _known_last_round(self) -> Self:
        if self.stop_at is not None and self.observe:
            raise ValueError(
                f"stop_at: got {self.stop_at}, expected none beside 'observe', which needs to know the last "
                "round"
            )
        return self


Section = Annotated[
    InstanceOf[Choice],
    BeforeValidator(lambda given, info: chosen(info.field_name, given)),
    PlainSerializer(Choice.resolved),
    WithJsonSchema({"type": "object"}),
]


class Spec(Options):
    """One run. ``data``, ``partition``, ``model`` and ``algorithm`` hold a plug-in's name and its options.

    Runs that differ in their ``repetition`` alone share the partition; initial weights, cohorts and batches
    are drawn anew.
    """

    data: Section
    partition: Section
    model: Section
    algorithm: Section
    training: Training
    participation: Participation = Participation()
    evaluation: Evaluation = Evaluation()
    seed: NonNegativeInt = 0
    repetition: NonNegativeInt = omit_default(0)
    dtype: Literal["float32", "float64"] = "float32"
    engine: Literal["auto", "autograd", "analytic", "stacked", "fused", "compiled"] = "auto"
    precision: Precision = "fp32"
    variant: Literal["paper", "released"] = "paper"

    @model_validator(mode="after")
    def _reduced_from_float32(self) -> Self:
        for key, precision in (
            ("precision", self.precision),
            ("evaluation.precision", self.evaluation.precision),
            ("algorithm.delta_precision", getattr(self.algorithm.options, "delta_precision", "fp32")),
        ):
            if precision == "bf16" and self.dtype == "float64":
                raise SpecError(f"{key}: got 'bf16' with dtype 'float64', expected dtype 'float32'")
        return self

    @cached_property
    def recipe(self) -> Any:
        """The algorithm's ``fedcore.parts.Recipe`` for this run."""
        return self.algorithm.build(self)

    def resolved(self) -> dict[str, Any]:
        """Return plain values with every default filled in."""
        return self.model_dump(mode="json")

    def sha256(self) -> str:
        """Return the hash of the resolved specification."""
        return digest(self.resolved())


def parse(values: Any) -> Spec:
    """Validate a specification given as plain values (what YAML or JSON loads), and build its recipe.

    Raises:
        SpecError: one line naming the key, what was found and what was expected.
    """
    if not isinstance(values, dict):
        raise SpecError(f"specification: expected keys and values, got {type(values).__name__}")
    spec = validate(Spec, {"partition": {"name": "given"}} | values, "")
    spec.recipe  # noqa: B018 - an algorithm refuses what it can't do
    return spec


def load(path: Path | str) -> Spec:
    """Read and validate a specification file.

    Raises:
        SpecError: the file can't be read, is no YAML of the core types, or a key is wrong.
    """
    values = core_yaml.read(Path(path), "specification")
    try:
        return parse(values)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None
