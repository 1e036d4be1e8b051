"""The specification that the parameters describe for a query, and where in them a key of it stands.

How often clients train in a run follows from its specification, before any data are read.
"""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any

from fedcore.base.errors import SpecError, shown
from fedcore.base.options import keys_of, suggestion
from fedcore.base.registry import chosen, find
from fedcore.partitions import Fold, even
from fedcore.spec import Participation, parse
from pipeline.catalogue.params import overlay, require_known
from pipeline.catalogue.schema import LENGTHS, PaperParams, PerParams, StudyParams
from pipeline.catalogue.targets import Query


def specification(params: PaperParams, query: Query) -> dict[str, Any]:
    """Lay regime, data set, split, algorithm, the algorithm's ``per`` and ``chosen`` over one another.

    It raises SpecError if the query or ``per`` names something that the paper's parameters don't have.
    """
    regime = _entry(params.regimes, "regimes", query.regime)
    dataset = _entry(params.datasets, "datasets", query.dataset)
    split = _entry(dataset.splits, f"datasets.{query.dataset}.splits", query.split)
    algorithm = _entry(params.algorithms, "algorithms", query.algorithm)
    name = algorithm.name or query.algorithm
    values: dict[str, Any] = {
        "data": dataset.data.model_dump(),
        "partition": _with_clients(split.model_dump(), regime.clients),
        "model": dataset.model.model_dump(),
        "algorithm": {"name": name, **_options(params, name, query)},
        "training": {},
        "participation": {"fraction": dataset.fraction or regime.fraction},
        "evaluation": regime.evaluation.model_dump(exclude_none=True),
        **({"precision": regime.precision} if regime.precision else {}),
    }
    layers = (regime, dataset, algorithm, *_cases(params, query.algorithm, query))
    for layer in layers:
        values = _over(values, {"training": layer.training.model_dump(exclude_none=True)})
    changes = (*_named_first(_chosen(params, query)), *_named_first(query.changes))
    for path, value in changes:
        values = _over(values, reduce(lambda inner, key: {key: inner}, reversed(path.split(".")), value))
    for section, key in (("training", "rounds"), ("participation", "fraction"), ("evaluation", "every")):
        if not isinstance(part := values[section], Mapping):
            raise SpecError(f"{section}: got {shown(part)}, expected keys and values")
        if not isinstance(length := part.get(key), int | float | None):
            raise SpecError(f"{section}.{key}: got {shown(length)}, expected a number")
    if None in (values["training"].get("rounds"), values["participation"].get("fraction")):
        return values  # which is refused where it is parsed
    # A paper's own change of rounds counts as it stands; a study's are synchronous rounds.
    as_it_stands = not isinstance(params, StudyParams) and "training.rounds" in dict(changes)
    if algorithm.once:
        values = _at_once(values)
    elif params.equal_trainings and not as_it_stands:
        values["training"]["rounds"] = _equal_rounds(values)
    if params.measurements:
        values["evaluation"]["every"] = max(1, values["training"]["rounds"] // params.measurements)
    return values


def _over(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Lay changes over a specification; steps and epochs exclude each other, so the later ones win."""
    merged, training = overlay(values, changes), changes.get("training")
    if isinstance(training, Mapping) and not LENGTHS.isdisjoint(training):
        earlier = LENGTHS.difference(training)
        merged["training"] = {key: value for key, value in merged["training"].items() if key not in earlier}
    return merged


def _named_first(changes: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return changes with those of names first: a plug-in's name drops the keys of the one before it."""
    return sorted(changes, key=lambda change: not change[0].endswith(".name"))


def _at_once(values: Mapping[str, Any]) -> dict[str, Any]:
    """Let all clients train in one round as long as each does on average in all rounds."""
    training = values["training"]
    times = training["rounds"] * values["participation"]["fraction"]
    if times <= 0:
        return dict(values)  # which is refused where it is parsed
    lengths = [key for key in LENGTHS if key in training] or ["local_epochs"]
    longer = {key: _longer(training.get(key, 1), times) for key in lengths}
    return {**values, "participation": {"fraction": 1.0}, "training": {**training, **longer, "rounds": 1}}


def _longer(length: Any, times: float) -> Any:
    """Return a length, or each client's, so many times as long; one that is none as it is."""
    if isinstance(length, list | tuple):
        return [_longer(each, times) for each in length]
    return max(1, round(length * times)) if isinstance(length, int | float) else length


def _chosen(params: PaperParams, query: Query) -> list[tuple[str, Any]]:
    names = {query.regime, query.dataset, query.split, query.place}
    entries = (entry for entry in params.chosen if entry.of in (None, query.algorithm) and entry.at in names)
    return [change for entry in entries for change in entry.values.items()]


def _cases(params: PaperParams, algorithm: str, query: Query) -> list[PerParams]:
    splits = {split for dataset in params.datasets.values() for split in dataset.splits}
    known = [*params.datasets, *params.regimes, *sorted(splits)]
    cases = params.algorithms[algorithm].per
    for key in cases:
        if key not in known:
            where = f"algorithms.{algorithm}.per.{key}"
            raise SpecError(f"{where}: no such data set, regime or split{suggestion(key, known)}")
    return [case for key, case in cases.items() if key in {query.regime, query.dataset, query.split}]


def _options(params: PaperParams, name: str, query: Query) -> dict[str, Any]:
    """Return the options of an algorithm's plug-in, first those that its entry takes from others."""
    known = keys_of(find("algorithm", name, f"algorithms.{query.algorithm}.name").options)
    options: dict[str, Any] = {}
    where = f"algorithms.{query.algorithm}.options_of"
    for other in params.algorithms[query.algorithm].options_of:
        require_known(where, other, params.algorithms)
        if params.algorithms[other].options_of:
            raise SpecError(f"{where}: got '{other}', which takes options itself; name those entries")
        options |= {key: value for key, value in _entry_options(params, other, query).items() if key in known}
    return options | _entry_options(params, query.algorithm, query)


def _entry_options(params: PaperParams, algorithm: str, query: Query) -> dict[str, Any]:
    options = dict(params.algorithms[algorithm].model_extra or {})
    for case in _cases(params, algorithm, query):
        options |= case.model_extra or {}
    return options


def _with_clients(partition: dict[str, Any], clients: int) -> dict[str, Any]:
    """Give a partition the regime's number of clients, unless its clients are all that the data name."""
    option = find("partition", partition["name"], "partition.name").options.model_fields.get("clients")
    all_named = option is not None and option.default is None and "users" not in partition
    return partition if option is None or all_named else {"clients": clients, **partition}


def _entry(group: Mapping[str, Any], where: str, name: str) -> Any:
    if name not in group:
        raise SpecError(f"{where}.{name}: missing, but a target needs it; known: {', '.join(group)}")
    return group[name]


def place_of(params: PaperParams, query: Query, message: str) -> str:
    """Say where in the parameters the key of a specification stands."""
    at = f"datasets.{query.dataset}"
    paths = {"data": f"{at}.data", "model": f"{at}.model", "partition": f"{at}.splits.{query.split}"}
    paths |= {"algorithm": f"algorithms.{query.algorithm}"}
    section, dot, rest = message.partition(".")
    if section == "algorithm":
        option = re.split("[.:]", rest)[0]
        for key, case in params.algorithms[query.algorithm].per.items():
            if key in {query.regime, query.dataset, query.split} and option in (case.model_extra or {}):
                paths[section] = f"algorithms.{query.algorithm}.per.{key}"
    if message.partition(":")[0] in dict(query.changes):
        return f"{message} (in grid, tune, variants or controls, algorithm '{query.algorithm}')"
    if message.partition(":")[0] in dict(_chosen(params, query)):
        return f"{message} (in chosen, algorithm '{query.algorithm}')"
    if dot and section in paths:
        return f"{paths[section]}.{rest}"
    if section in {"regimes", "datasets", "algorithms"}:
        return message
    return f"{message} (in regime '{query.regime}', data '{query.dataset}', algorithm '{query.algorithm}')"


def _equal_rounds(values: Mapping[str, Any]) -> int:
    """Return how many of an algorithm's rounds are worth ``training.rounds`` synchronous ones."""
    round_worth, synchronous = worth(values), values["training"]["rounds"]
    rounds = synchronous / round_worth
    if rounds.denominator > 1:
        raise SpecError(
            f"training.rounds: got {synchronous} synchronous rounds, expected a multiple of {round_worth}, "
            f"which one round of '{values['algorithm']['name']}' is worth"
        )
    return int(rounds)


def worth(values: Mapping[str, Any]) -> Fraction:
    """Return how many synchronous rounds one round of a run is worth, by the times that clients train in it.

    It raises as ``cohort_size`` does where that takes the number of clients.
    """
    spec = parse({**values, "partition": {"name": "given"}})
    trainings = spec.recipe.schedule.trainings
    proportional = trainings(2) == 2 * trainings(1)
    cohort = 1 if proportional else cohort_size(values)
    return Fraction(trainings(cohort), cohort)


def cohort_size(spec: Mapping[str, Any]) -> int:
    """Return how many clients take part in a synchronous round, if none of them is empty.

    It raises SpecError if only the data's files tell how many clients there are.
    """
    return Participation.model_validate(spec["participation"]).cohort_size(training_clients(spec))


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
    split = Fold.model_validate({"index": 0} | fold)
    sets = even(clients, split.of)
    return int(clients - sets[split.index] - sets[split.validation])
