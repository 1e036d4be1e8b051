"""How often clients train in a run, derived from its specification before any data are read."""

from collections.abc import Mapping
from fractions import Fraction
from math import floor
from typing import Any

from fedcore.base.errors import SpecError
from fedcore.base.registry import chosen
from fedcore.partitions import even
from fedcore.spec import parse


def equal_rounds(values: Mapping[str, Any]) -> int:
    """Return how many of an algorithm's rounds let clients train as often as synchronous rounds do.

    ``training.rounds`` of the values, a specification, counts synchronous rounds.

    Raises:
        SpecError: they are no whole number of the algorithm's rounds, or it is no valid specification.
    """
    one = worth(values)
    synchronous = values["training"]["rounds"]
    rounds = synchronous / one
    if rounds.denominator > 1:
        raise SpecError(
            f"training.rounds: got {synchronous} synchronous rounds, expected a multiple of {one}, which one "
            f"round of '{values['algorithm']['name']}' is worth"
        )
    return int(rounds)


def worth(values: Mapping[str, Any]) -> Fraction:
    """Return how many synchronous rounds one round of a run is worth, by the times that clients train in it.

    Raises:
        SpecError: that takes the number of clients, which only the data's files tell.
    """
    spec = parse({**values, "partition": {"name": "given"}})
    trainings = spec.recipe.schedule.trainings
    proportional = trainings(2) == 2 * trainings(1)
    cohort = 1 if proportional else cohort_size(values)
    return Fraction(trainings(cohort), cohort)


def cohort_size(spec: Mapping[str, Any]) -> int:
    """Return how many clients take part in a synchronous round, if none of them is empty.

    Raises:
        SpecError: only the data's files tell how many clients there are.
    """
    return max(1, floor(float(spec["participation"]["fraction"]) * training_clients(spec) + 0.5))


def training_clients(spec: Mapping[str, Any]) -> int:
    """Return how many clients train: all, or those that a fold leaves (the first fold by default)."""
    clients, fold = spec["partition"].get("clients"), spec["partition"].get("fold")
    if clients is None:
        data = chosen("data", spec["data"])
        clients = data.plugin.clients and data.plugin.clients(data.options)
    if clients is None:
        raise SpecError(f"data: only the files tell how many clients '{spec['data']['name']}' names")
    if fold is None:
        return int(clients)
    first, sets = fold.get("index", 0), even(clients, fold["of"])
    return int(clients - sets[first] - sets[(first + fold.get("rotation", 1)) % fold["of"]])
