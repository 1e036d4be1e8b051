"""ComFed's Tables I, II and III, derived from the recipes: if a table is wrong, the recipe is."""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from typing import Any

from fedcore.algorithms import example
from fedcore.parts import Part, Recipe
from fedcore.parts.server import ServerSgd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Column
from pipeline.reports.listings import Listing

SAME = "-"
NAMES = (
    *("FedAvg", "Moon", "FedProx", "FedADC", "Mime", "VRL-SGD", "Scaffold", "FedDC", "FedNova"),
    *("qFFL", "SlowMo", "FedAvgM", "FedAdam", "FedAdagrad", "FedYogi"),
)
ALGORITHMS = {name: name.lower().replace("-", "_") for name in NAMES} | {"qFFL": "qfedavg"}
CLIENTS = {"Sgd": "fedavg", "Prox": "prox_yogi", "Scaf": "scaf_yogi", "Nova": "nova_yogi"}
SERVERS = {"Sgd": "fedavg", "Adam": "fedadam", "Adagrad": "fedadagrad", "Yogi": "fedyogi"}
COMFED = {
    f"{client}{server}": f"{client}_{server}".lower()
    for client, server in product([*CLIENTS][1:], [*SERVERS][1:])
}
OPTIONS = {"scaffold": {"averaging": "nk"}}
Lines = Mapping[str, tuple[str, ...]]


@cache
def choices() -> Lines:
    """Return Table I: what each algorithm changes in FedAvg's four choices."""
    lines: dict[str, tuple[str, ...]] = {}
    for title, name in ALGORITHMS.items():
        parts = recipe(name)
        rate = f" with learning rate {parts.server.lr:g}" if isinstance(parts.server, ServerSgd) else ""
        words = (*client_side(parts), f"{family(parts.server)}{rate}")
        ground = lines.get("FedAvg", ("",) * len(words))
        lines[title] = tuple(SAME if word == base else word for word, base in zip(words, ground, strict=True))
    return lines


@cache
def reductions() -> Lines:
    """Return Table II: the client-variance reductions that ComFed combines."""
    return {title: client_side(recipe(name)) for title, name in CLIENTS.items()}


@cache
def combinations() -> Lines:
    """Return Table III: which algorithm has which client side and which server optimizer."""
    titles = {kinds(name, name): title for title, name in {**ALGORITHMS, **COMFED}.items()}
    return {
        title: tuple(titles.get(kinds(client, server), SAME) for server in SERVERS.values())
        for title, client in CLIENTS.items()
    }


def recipe(name: str) -> Recipe:
    """Return an algorithm's parts, with the keys that ComFed's text sets."""
    return example(name, OPTIONS.get(name, {}))


def client_side(parts: Recipe) -> tuple[str, str, str]:
    """Return a recipe's local loss, local update and aggregation in ComFed's words."""
    loss = " + ".join(dict.fromkeys(map(family, parts.objective))) or "log loss"
    return loss, family(parts.update), family(parts.aggregate)


def kinds(client: str, server: str) -> tuple[tuple[type, ...], str]:
    """Return the kinds of parts of one algorithm's client side, and the server optimizer of another."""
    parts = recipe(client)
    return tuple(map(type, (*parts.objective, parts.update, parts.aggregate))), recipe(server).server.label


def family(part: Part) -> str:
    """Return the wider sort of a part, or its label where it has none."""
    return part.family or part.label


def listing(lines: Callable[[], Lines], heads: tuple[str, ...], **more: Any) -> Listing:
    """Declare one of the tables, given the texts under its heads by the label of their line."""
    keys = [*map(_key, heads)]

    def word(params: PaperParams, row: str, column: str) -> str:
        return next(texts for label, texts in lines().items() if _key(label) == row)[keys.index(column)]

    return Listing(
        columns=lambda params: tuple(map(Column, keys, heads)),
        rows=lambda params: {_key(label): label for label in lines()},
        word=word,
        scaled=False,
        **more,
    )


def _key(label: str) -> str:
    return label.lower().replace(" ", "_").replace("-", "_")


TABLES = {
    "table1": listing(
        choices,
        ("Local loss", "Local update", "Aggregation", "Global update"),
        title="What each algorithm changes in FedAvg's four choices",
        published="Table I",
        heading="Algorithm",
        note="Derived from the recipes; a dash means the same as FedAvg.",
    ),
    "table2": listing(
        reductions,
        ("Local objective", "Local update", "Aggregation"),
        title="Techniques that reduce the variance between clients",
        published="Table II",
        heading="Technique",
        note="Printed from the recipes.",
    ),
    "table3": listing(
        combinations,
        tuple(SERVERS),
        title="Client sides by server optimizers",
        published="Table III",
        heading="Client side",
        note="Derived from the recipes, each found by its parts and not by its name.",
    ),
}
