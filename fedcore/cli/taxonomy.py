"""ComFed's Tables I, II and III, printed from the recipes: if a table is wrong, the recipe is."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedcore.algorithms import example
from fedcore.base.errors import SpecError
from fedcore.cli.descriptions import PLAIN, columns
from fedcore.parts import Part, Recipe
from fedcore.parts.server import ServerSgd

Cells = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Row:
    """An algorithm as ComFed lists it: title there, name here, and the keys that ComFed's text sets."""

    title: str
    name: str
    options: Mapping[str, Any]

    @property
    def recipe(self) -> Recipe:
        """The algorithm's parts."""
        return example(self.name, self.options)


@dataclass(frozen=True)
class Table:
    """One table: number, caption, column heads and rows of text."""

    number: int
    caption: str
    head: tuple[str, ...]
    rows: Cells


def _row(title: str, name: str, **options: Any) -> Row:
    return Row(title, name, options)


ALGORITHMS = (
    _row("FedAvg", "fedavg"),
    _row("Moon", "moon"),
    _row("FedProx", "fedprox"),
    _row("FedADC", "fedadc"),
    _row("Mime", "mime"),
    _row("VRL-SGD", "vrl_sgd"),
    _row("Scaffold", "scaffold", averaging="nk"),
    _row("FedDC", "feddc"),
    _row("FedNova", "fednova"),
    _row("qFFL", "qfedavg"),
    _row("SlowMo", "slowmo"),
    _row("FedAvgM", "fedavgm"),
    _row("FedAdam", "fedadam"),
    _row("FedAdagrad", "fedadagrad"),
    _row("FedYogi", "fedyogi"),
)
CLIENTS = {
    "Sgd": _row("Sgd", "fedavg"),
    "Prox": _row("Prox", "prox_yogi"),
    "Scaf": _row("Scaf", "scaf_yogi"),
    "Nova": _row("Nova", "nova_yogi"),
}
SERVERS = {
    "Sgd": _row("Sgd", "fedavg"),
    "Adam": _row("Adam", "fedadam"),
    "Adagrad": _row("Adagrad", "fedadagrad"),
    "Yogi": _row("Yogi", "fedyogi"),
}
COMFED = tuple(
    _row(f"{client}{server}", f"{client}_{server}".lower())
    for client in list(CLIENTS)[1:]
    for server in list(SERVERS)[1:]
)


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
    ground = four(ALGORITHMS[0].recipe)
    rows: list[tuple[str, ...]] = [(ALGORITHMS[0].title, *ground)]
    for row in ALGORITHMS[1:]:
        found = four(row.recipe)
        rows.append(
            (row.title, *(PLAIN if cell == base else cell for cell, base in zip(found, ground, strict=True)))
        )
    head = ("Algorithm", "Local loss", "Local update", "Aggregation", "Global update")
    return Table(1, "What federated algorithms change in FedAvg", head, tuple(rows))


def reductions() -> Table:
    """Return Table II: the client-variance reductions that ComFed combines."""
    head = ("Technique", "Local objective", "Local update", "Aggregation")
    rows = tuple((title, *client_side(row.recipe)) for title, row in CLIENTS.items())
    return Table(2, "Client-variance reductions", head, rows)


def combinations() -> Table:
    """Return Table III: which algorithm has which client side and which server optimizer."""
    clients = {client_parts(row.recipe): title for title, row in CLIENTS.items()}
    servers = {type(row.recipe.server): title for title, row in SERVERS.items()}
    place: dict[tuple[str | None, str | None], str] = {}
    for row in (*ALGORITHMS, *COMFED):
        recipe = row.recipe
        place[clients.get(client_parts(recipe)), servers.get(type(recipe.server))] = row.title
    rows = tuple((client, *(place.get((client, server), PLAIN) for server in SERVERS)) for client in CLIENTS)
    return Table(3, "Client-variance reductions by server optimizers", ("", *SERVERS), rows)


def four(recipe: Recipe) -> tuple[str, str, str, str]:
    """Return a recipe's local loss, local update, aggregation and global update in ComFed's words."""
    update = family(recipe.server)
    if isinstance(recipe.server, ServerSgd):
        update = f"{update} with learning rate {recipe.server.lr:g}"
    return (*client_side(recipe), update)


def client_side(recipe: Recipe) -> tuple[str, str, str]:
    """Return a recipe's local loss, local update and aggregation in ComFed's words."""
    loss = " + ".join(dict.fromkeys(family(term) for term in recipe.objective)) or "log loss"
    return loss, family(recipe.update), family(recipe.aggregate)


def client_parts(recipe: Recipe) -> tuple[type, ...]:
    """Return the kinds of parts that make up a recipe's client side."""
    return tuple(type(part) for part in (*recipe.objective, recipe.update, recipe.aggregate))


def family(part: Part) -> str:
    """Return the wider sort of a part, or its label where it has none."""
    return part.family or part.label


def text(found: Table) -> str:
    """Return a table as aligned text."""
    return f"Table {found.number}: {found.caption}\n\n" + columns([found.head, *found.rows])


def as_csv(found: Table) -> str:
    """Return a table as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([found.head, *found.rows])
    return out.getvalue().rstrip("\n")


def latex(found: Table) -> str:
    """Return a table as a LaTeX table with booktabs rules."""
    lines = [" & ".join(_escaped(cell) for cell in row) + r" \\" for row in (found.head, *found.rows)]
    return "\n".join(
        [
            r"\begin{table}",
            rf"  \caption{{{_escaped(found.caption)}}}",
            rf"  \begin{{tabular}}{{{'l' * len(found.head)}}}",
            r"    \toprule",
            f"    {lines[0]}",
            r"    \midrule",
            *(f"    {line}" for line in lines[1:]),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


FORMATS = {"text": text, "csv": as_csv, "latex": latex}


def _escaped(cell: str) -> str:
    return "--" if cell == PLAIN else cell.replace("&", r"\&").replace("_", r"\_").replace("%", r"\%")
