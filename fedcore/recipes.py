"""FedAvg's parts as the ground that every other recipe changes."""

from __future__ import annotations

from typing import Any

from fedcore.base.options import Options
from fedcore.parts import Recipe
from fedcore.parts.aggregate import WeightedMean
from fedcore.parts.schedule import Synchronous
from fedcore.parts.select import Uniform
from fedcore.parts.server import ServerSgd


class AlgorithmOptions(Options):
    """Hyperparameters of an algorithm; each class names its own with range and default."""


def recipe(**parts: Any) -> Recipe:
    """Return FedAvg with some parts replaced."""
    ground: dict[str, Any] = {
        "schedule": Synchronous(),
        "select": Uniform(),
        "aggregate": WeightedMean(),
        "server": ServerSgd(),
    }
    return Recipe(**(ground | parts))
