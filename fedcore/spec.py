"""One run's specification: its YAML form, its validation and its hash.

A specification says everything that decides a run's numbers and nothing else: no paths of results,
no devices, no cores. Two specifications that mean the same have the same hash.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError
from fedcore.base.files import canonical_json, sha256_text
from fedcore.base.options import Options, omit_default, shown, validate
from fedcore.base.registry import Plugin, find

SECTIONS = {"data": "data", "partition": "partition", "model": "model", "algorithm": "algorithm"}
REPLAYED = ("assignments", "events")


class LrSchedule(Options):
    """How the local learning rate changes over a run.

    ``milestones`` sets the rate from a round on (round: rate). ``inverse_time`` uses, at gradient step
    t of the run, eta_t = lr / (1 + t / offset), the O(1/t) law of convergence theorems.
    """

    name: Literal["constant", "milestones", "inverse_time"]
    milestones: dict[PositiveInt, PositiveFloat] = Field(default_factory=dict)
    offset: PositiveFloat = 1.0


class Training(Options):
    """Local training of a client in one round.

    Exactly one of ``local_epochs`` (passes over the client's data) and ``local_steps`` (gradient steps;
    one number, or one per client) counts; one epoch is the default.
    """

    rounds: PositiveInt
    local_epochs: PositiveInt | None = None
    local_steps: PositiveInt | tuple[PositiveInt, ...] | None = None
    batch_size: Annotated[int, Field(ge=1)] | Literal["full"]
    lr: PositiveFloat
    optimizer: Literal["sgd", "momentum", "rmsprop"] = "sgd"
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    weight_decay: NonNegativeFloat = 0.0
    lr_schedule: LrSchedule = LrSchedule(name="constant")
    drop_last: bool = False

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: Any) -> Any:
        if isinstance(values, dict):
            values = dict(values)
            if values.get("local_epochs") is None and values.get("local_steps") is None:
                values["local_epochs"] = 1
            if values.get("momentum") is None:
                values["momentum"] = 0.9 if values.get("optimizer") == "momentum" else 0.0
            if values.get("optimizer", "sgd") == "sgd" and values["momentum"]:
                values["optimizer"] = "momentum"
        return values

    @model_validator(mode="after")
    def _one_length(self) -> Training:
        if self.local_epochs is not None and self.local_steps is not None:
            raise ValueError("local_epochs and local_steps are both given, expected one of them")
        return self


class Participation(Options):
    """Who takes part in a round: a fraction of the clients, or what is given.

    ``cohorts`` lists the clients of each round (cycled); ``assignments`` the client of each model in
    each inner round of a redistribution schedule (cycled); ``events`` the [client, staleness] of each
    asynchronous update (cycled).
    """

    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    cohorts: tuple[tuple[Annotated[int, Field(ge=0)], ...], ...] | None = None
    assignments: tuple[tuple[Annotated[int, Field(ge=0)], ...], ...] | None = None
    events: tuple[tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]], ...] | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> Participation:
        for key in ("cohorts", "assignments", "events"):
            given = getattr(self, key)
            if given is not None and (not given or not all(given)):
                raise ValueError(f"{key}: an empty list was given, expected clients for every round")
        return self


class Evaluation(Options):
    """When the global model is measured: at regular rounds, and always after the last.

    ``train_every`` is the same for the loss on all training data, which costs most; 0 leaves it out.
    ``clients`` adds the test accuracy of each client's share to ``clients.csv`` at the end. ``divergence``
    adds how far models drift apart, and from centralised training, to ``divergence.csv`` (training twice).
    ``metrics`` adds columns ``test_f1`` and ``test_auc``; ``validation`` measures validation rows too,
    in columns ``validation_loss``, ``validation_accuracy`` and so on. ``observe`` names observers with their
    options, which keep more of a run in files of their own; `fedcore list observers` shows them.
    ``precision: bf16`` computes features in bfloat16 when the model is measured; the output layer, losses and
    means stay in the model's own type.
    """

    every: PositiveInt = 1
    train_every: Annotated[int, Field(ge=0)] | None = None
    clients: bool = False
    divergence: bool = False
    metrics: tuple[Literal["f1", "auc"], ...] = ()
    validation: bool = False
    precision: Literal["fp32", "bf16"] = omit_default("fp32")
    observe: dict[str, dict[str, Any]] = omit_default({})


class Spec(Options):
    """One run. ``data``, ``partition``, ``model`` and ``algorithm`` hold the plug-in's validated options."""

    data: dict[str, Any]
    partition: dict[str, Any]
    model: dict[str, Any]
    algorithm: dict[str, Any]
    training: Training
    participation: Participation = Participation()
    evaluation: Evaluation = Evaluation()
    seed: Annotated[int, Field(ge=0)] = 0
    dtype: Literal["float32", "float64"] = "float32"
    engine: Literal["auto", "autograd", "analytic", "stacked"] = "auto"
    precision: Literal["fp32", "bf16"] = "fp32"
    variant: Literal["paper", "released"] = "paper"

    def plugin(self, section: str) -> tuple[Plugin, Any]:
        """Return the plug-in of a section and its options object."""
        values = dict(getattr(self, section))
        found = find(SECTIONS[section], values.pop("name", None), f"{section}.name")
        return found, validate(found.options, values, section)

    def observers(self) -> list[tuple[Plugin, Any]]:
        """Return the observers' plug-ins with their options objects, by name."""
        where = "evaluation.observe"
        found = (
            (find("observer", name, where), own) for name, own in sorted(self.evaluation.observe.items())
        )
        return [(plugin, validate(plugin.options, own, f"{where}.{plugin.name}")) for plugin, own in found]

    def resolved(self) -> dict[str, Any]:
        """Return plain values with every default filled in."""
        return self.model_dump(mode="json", by_alias=True)

    def sha256(self) -> str:
        """Return the hash of the resolved specification."""
        return sha256_text(canonical_json(self.resolved()))


def parse(values: Any) -> Spec:
    """Validate a specification given as plain values (what YAML or JSON loads).

    Raises:
        SpecError: one line naming the key, what was found and what was expected.
    """
    if not isinstance(values, dict):
        raise SpecError(f"specification: expected keys and values, got {type(values).__name__}")
    values = {"partition": {"name": "given"}} | _replayed(values)
    if not SECTIONS.keys() <= values.keys():
        validate(Spec, values, "")  # says which is missing, or unknown
    for section, kind in SECTIONS.items():
        values[section] = _resolve(section, kind, values[section])
    if isinstance(values.get("evaluation"), dict) and "observe" in values["evaluation"]:
        observe = _observed(values["evaluation"]["observe"])
        values["evaluation"] = {**values["evaluation"], "observe": observe}
    spec = validate(Spec, values, "")
    algorithm, options = spec.plugin("algorithm")
    algorithm.build(options, spec)
    return spec


def load(path: Path) -> Spec:
    """Read and validate a specification file.

    Raises:
        SpecError: the file can't be read, is no YAML of the core types, or a key is wrong.
    """
    values = core_yaml.read(path, "specification")
    try:
        return parse(values)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def _replayed(values: dict[str, Any]) -> dict[str, Any]:
    """Move a replayed trace written beside the algorithm's keys to ``participation``."""
    values = dict(values)
    algorithm = values.get("algorithm")
    if isinstance(algorithm, dict) and any(key in algorithm for key in REPLAYED):
        algorithm = dict(algorithm)
        participation = dict(values.get("participation") or {})
        for key in REPLAYED:
            if key in algorithm:
                participation[key] = algorithm.pop(key)
        values |= {"algorithm": algorithm, "participation": participation}
    return values


def _resolve(section: str, kind: str, given: Any) -> dict[str, Any]:
    """Fill a plug-in section's defaults in and check its keys."""
    if not isinstance(given, dict) or "name" not in given:
        raise SpecError(f"{section}: expected keys and values with a 'name', got {shown(given)}")
    options = dict(given)
    plugin = find(kind, options.pop("name"), f"{section}.name")
    checked = validate(plugin.options, options, section)
    return {"name": plugin.name, **checked.model_dump(mode="json", by_alias=True)}


def _observed(given: Any) -> dict[str, Any]:
    """Fill the observers' defaults in and check their keys; no value at all stands for no options."""
    if not isinstance(given, dict):
        raise SpecError(
            f"evaluation.observe: expected observers' names with their options, got {shown(given)}"
        )
    found = {}
    for name, own in given.items():
        plugin = find("observer", name, "evaluation.observe")
        checked = validate(plugin.options, {} if own is None else own, f"evaluation.observe.{name}")
        found[plugin.name] = checked.model_dump(mode="json", by_alias=True)
    return found
