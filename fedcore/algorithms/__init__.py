"""FedAvg's parts as the ground that every other recipe changes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from pydantic import Field

from fedcore.base.errors import SpecError
from fedcore.base.options import Options
from fedcore.base.options import omit_default as omit_default
from fedcore.base.registry import Pen as Pen
from fedcore.base.registry import Plugin as Plugin
from fedcore.parts import Recipe as Recipe
from fedcore.parts.aggregate import WeightedMean
from fedcore.parts.schedule import Synchronous
from fedcore.parts.select import Uniform
from fedcore.parts.server import ServerSgd
from fedcore.spec import Spec as Spec
from fedcore.spec import parse

Decay = Annotated[float, Field(ge=0, lt=1)]
Given = TypeVar("Given")


class AlgorithmOptions(Options):
    """Hyperparameters of an algorithm; each class names its own with range and default."""


def given(value: Given | None, otherwise: Given) -> Given:
    """Return an option where it is given, else its default, such as what ``variant`` makes of it."""
    return otherwise if value is None else value


def linear(spec: Spec, what: str, part: Given) -> Given:
    """Return a part that supposes steps linear in the gradients, as ||a_k||_1 does; refuse RMSProp."""
    if spec.training.optimizer == "rmsprop":
        raise SpecError(f"training.optimizer: got 'rmsprop', {what} expects sgd or momentum")
    return part


def recipe(**parts: Any) -> Recipe:
    """Return FedAvg's recipe with some parts replaced, by their names in ``Recipe``."""
    return replace(Recipe(Synchronous(), Uniform(), WeightedMean(), ServerSgd()), **parts)


def example(name: str, given: Mapping[str, Any] | None = None, variant: str = "paper") -> Recipe:
    """Return an algorithm's recipe with its defaults, or keys given; SpecError where it can't be built so."""
    spec = {
        "data": {"name": "npz", "path": "."},
        "partition": {"name": "given", "validation": 0.2},
        "model": {"name": "rff_linear", "learnable": True},
        "algorithm": {**(given or {}), "name": name},
        "variant": variant,
    }
    training = {"rounds": 100, "batch_size": 32, "lr": 0.1}
    try:
        recipe: Recipe = parse({**spec, "training": training}).recipe
    except SpecError:
        recipe = parse({**spec, "training": {**training, "rounds": 1}}).recipe
    return recipe
