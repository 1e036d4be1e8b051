"""ComFed's Tables I, II and III, printed from the recipes: if a table is wrong, the recipe is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from fedcore.algorithms import example
from fedcore.base.errors import SpecError, columns
from fedcore.base.lazy import pd
from fedcore.parts import Part, Recipe
from fedcore.parts.server import ServerSgd
from pipeline.reports.render import tex

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
    for client in list(CLIENTS)[1:]
    for server in list(SERVERS)[1:]
}
OPTIONS = {"scaffold": {"averaging": "nk"}}


@dataclass(frozen=True)
class Table:
    """One table: number, caption, column heads and rows of text."""

    number: int
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@cache
def table(number: int) -> Table:
    """Return one of the three tables.

    Raises:
        SpecError: ComFed has no such table.
    """
    makers = {1: choices, 2: reductions, 3: combinations}
    if number not in makers:
        raise SpecError(f"taxonomy: got {number}, expected 1, 2 or 3")
    return makers[number]()


def choices() -> Table:
    """Return Table I: what each algorithm changes in FedAvg's four choices."""
    ground, *others = ((title, *four(recipe(name))) for title, name in ALGORITHMS.items())
    rows = (
        tuple(SAME if cell == base else cell for cell, base in zip(row, ground, strict=True))
        for row in others
    )
    head = ("Algorithm", "Local loss", "Local update", "Aggregation", "Global update")
    return Table(1, "What federated algorithms change in FedAvg", head, (ground, *rows))


def reductions() -> Table:
    """Return Table II: the client-variance reductions that ComFed combines."""
    head = ("Technique", "Local objective", "Local update", "Aggregation")
    rows = tuple((title, *client_side(recipe(name))) for title, name in CLIENTS.items())
    return Table(2, "Client-variance reductions", head, rows)


def combinations() -> Table:
    """Return Table III: which algorithm has which client side and which server optimizer."""
    clients = {client_parts(recipe(name)): title for title, name in CLIENTS.items()}
    servers = {recipe(name).server.label: title for title, name in SERVERS.items()}
    place: dict[tuple[str | None, str | None], str] = {}
    for title, name in {**ALGORITHMS, **COMFED}.items():
        parts = recipe(name)
        place[clients.get(client_parts(parts)), servers.get(parts.server.label)] = title
    rows = tuple((client, *(place.get((client, server), SAME) for server in SERVERS)) for client in CLIENTS)
    return Table(3, "Client-variance reductions by server optimizers", ("", *SERVERS), rows)


def recipe(name: str) -> Recipe:
    """Return an algorithm's parts, with the keys that ComFed's text sets."""
    return example(name, OPTIONS.get(name, {}))


def four(parts: Recipe) -> tuple[str, str, str, str]:
    """Return a recipe's local loss, local update, aggregation and global update in ComFed's words."""
    update = family(parts.server)
    if isinstance(parts.server, ServerSgd):
        update = f"{update} with learning rate {parts.server.lr:g}"
    return (*client_side(parts), update)


def client_side(parts: Recipe) -> tuple[str, str, str]:
    """Return a recipe's local loss, local update and aggregation in ComFed's words."""
    loss = " + ".join(dict.fromkeys(family(term) for term in parts.objective)) or "log loss"
    return loss, family(parts.update), family(parts.aggregate)


def client_parts(parts: Recipe) -> tuple[type, ...]:
    """Return the kinds of parts that make up a recipe's client side."""
    return tuple(type(part) for part in (*parts.objective, parts.update, parts.aggregate))


def family(part: Part) -> str:
    """Return the wider sort of a part, or its label where it has none."""
    return part.family or part.label


def text(table: Table) -> str:
    """Return a table as aligned text."""
    return f"Table {table.number}: {table.caption}\n\n" + columns([table.head, *table.rows])


def as_csv(table: Table) -> str:
    """Return a table as CSV."""
    return _frame(table).to_csv(index=False, lineterminator="\n").rstrip("\n")


def latex(table: Table) -> str:
    """Return a table as a LaTeX table with booktabs rules."""
    frame = _frame(table).map(lambda word: "--" if word == SAME else tex(word))
    return frame.to_latex(index=False, caption=tex(table.caption), header=[*map(tex, table.head)]).rstrip(
        "\n"
    )


def _frame(table: Table) -> pd.DataFrame:
    return pd.DataFrame(table.rows, columns=list(table.head))


FORMATS: Mapping[str, Callable[[Table], str]] = {"text": text, "csv": as_csv, "latex": latex}
