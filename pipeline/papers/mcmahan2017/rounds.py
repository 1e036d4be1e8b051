"""Tables 1 and 2: rounds until the test accuracy reaches a target, and the searches for each cell's rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Column, Query
from pipeline.reports.cost import rounds_to
from pipeline.reports.results import RunFacts
from pipeline.reports.search import Choice, Search, searches, seeds
from pipeline.reports.tables import Table

SCORE = (
    "The crossing of the best test accuracy so far with the target, interpolated between rounds; a run ends "
    "there, or without it after the rounds allowed."
)
CHOSEN = (
    "A search, where it has run, chose a cell's rate by the fewest rounds on test rows, as the paper did."
)
BATCHES = {"full": "B = inf", 10: "B = 10", 50: "B = 50"}
FRACTIONS = (0.0, 0.1, 0.2, 0.5, 1.0)
ONE_CLIENT = 0.001
LOCAL = ((1, "full"), (5, "full"), (1, 50), (20, "full"), (1, 10), (5, 50), (20, 50), (5, 10), (20, 10))
"""Epochs E and batch size B of the rows of Table 2, in its order."""


@dataclass(frozen=True)
class Work:
    """What a cell's clients do: their share C of all, which means one client where it is 0, and E and B.

    Epochs of None are those of the regime.
    """

    fraction: float
    epochs: int | None
    batch: int | str

    def changes(self) -> tuple[tuple[str, Any], ...]:
        """Return what this changes in a specification."""
        epochs = (("training.local_epochs", self.epochs),) if self.epochs else ()
        share = ("participation.fraction", self.fraction or ONE_CLIENT)
        return (share, *epochs, ("training.batch_size", self.batch))


@dataclass(frozen=True)
class Grid:
    """One table: a model on two splits of its data, with a row and a column for what clients do there.

    Attributes:
        regime, dataset: keys of the parameters.
        data: the data set in print.
        splits: the splits with their labels.
        rows: label of each row by key.
        batches: batch sizes that are columns; one of None where the rows have them.
        work: (row, batch size of the column) -> what clients do.
    """

    regime: str
    dataset: str
    data: str
    splits: Mapping[str, str]
    rows: Mapping[str, str]
    batches: tuple[int | str | None, ...]
    work: Callable[[str, int | str | None], Work]

    def columns(self) -> dict[str, tuple[str, int | str | None, Column]]:
        """Return each column's split and batch size, with how it is shown."""
        found = {}
        for split, label in self.splits.items():
            for batch in self.batches:
                key = split if batch is None else f"{split}-b{batch}"
                shown = Column(key, label) if batch is None else Column(key, BATCHES[batch], label)
                found[key] = (split, batch, shown)
        return found

    def query(self, row: str, column: str) -> Query:
        """Return the runs of a cell; ``chosen`` of the parameters may have its rate."""
        split, batch, _ = self.columns()[column]
        place, changes = f"{self.regime}-{row}-{column}", self.work(row, batch).changes()
        return Query(self.regime, self.dataset, split, "fedavg", changes, place=place)

    def table(self, title: str, published: str) -> Table:
        """Declare the table."""
        shown = tuple(column for *_, column in self.columns().values())
        return Table(
            title=f"Rounds of communication until {title}",
            published=published,
            columns=lambda params: shown,
            rows=lambda params: self.rows,
            query=self.query,
            measure=rounds_of,
            dataset=lambda row, column: self.data,
            unit="rounds",
            decimals=0,
            best="none",
            test="none",
            when="",
            note=f"{SCORE} {CHOSEN}",
            heading="Clients and their work",
        )

    def rates(self, label: str, published: str) -> Table:
        """Declare the search for the local rate of each cell of the table."""
        cells = product(self.rows, self.columns().items())
        places = {self.query(row, key).place: (row, key, about[2]) for row, (key, about) in cells}

        def asked(params: PaperParams, column: str, search: Search, choice: Choice) -> Query:
            own = self.query(*places[column][:2])
            changes = (*own.changes, *choice.items())
            return Query(own.regime, own.dataset, own.split, own.algorithm, changes, seeds(params), own.place)

        return searches(
            {"": Search("fedavg", label, published)},
            asked,
            "Rounds of communication to the target by local rate, {}",
            rounds_of,
            columns=lambda params: tuple(
                Column(place, f"{self.rows[row]}, {shown.heading}")
                for place, (row, _, shown) in places.items()
            ),
            dataset=lambda row, column: self.data,
            unit="rounds",
            decimals=0,
            best="smallest",
            when="",
            note=SCORE,
        )[""]


def rounds_of(facts: RunFacts, column: str) -> float | None:
    """Return a run's rounds to the accuracy at which it ends, interpolated; None if it diverged."""
    if not facts.final:
        return None
    target = facts.run.spec["evaluation"]["stop_at"]
    return rounds_to(facts.series("test_accuracy"), target, interpolated=True)


def by_fraction(regime: str, dataset: str) -> Grid:
    """Return Table 1 of a model: rows are shares C of the clients, columns splits and batch sizes."""
    return Grid(
        regime,
        dataset,
        "MNIST",
        {"iid": "IID", "shards": "non-IID"},
        {f"c{share}": f"C = {share}" for share in FRACTIONS},
        ("full", 10),
        lambda row, batch: Work(float(row[1:]), None, batch or "full"),
    )


def by_work(
    regime: str, dataset: str, data: str, splits: Mapping[str, str], rows: tuple[tuple[int, int | str], ...]
) -> Grid:
    """Return Table 2 of a model: rows are epochs and batch sizes, E = 1 and B = inf being FedSGD."""
    work = {f"e{epochs}-b{batch}": Work(0.1, epochs, batch) for epochs, batch in rows}
    labels = {key: f"E = {own.epochs}, {BATCHES[own.batch]}" for key, own in work.items()}
    labels["e1-bfull"] = "FedSGD (E = 1, B = inf)"
    return Grid(regime, dataset, data, splits, labels, (None,), lambda row, batch: work[row])


TWO_NN = by_fraction("two_nn", "mnist_2nn")
CNN = by_fraction("cnn", "mnist_cnn")
WORK = by_work("cnn", "mnist_cnn", "MNIST", {"iid": "IID", "shards": "non-IID"}, LOCAL)
PLAYS = by_work(
    "characters",
    "shakespeare",
    "Shakespeare",
    {"iid": "IID", "roles": "by role"},
    ((1, "full"), (1, 50), (5, "full"), (1, 10), (5, 50), (5, 10)),
)
TABLES = {
    "table1_2nn": TWO_NN.table("the 2NN reaches its target, E = 1", "Table 1, 2NN"),
    "table1_cnn": CNN.table("the CNN reaches its target, E = 5", "Table 1, CNN"),
    "table2_mnist": WORK.table("the CNN reaches its target, C = 0.1", "Table 2, MNIST CNN"),
    "table2_shakespeare": PLAYS.table("the LSTM reaches its target, C = 0.1", "Table 2, Shakespeare LSTM"),
}
RATES = {
    "rates_2nn": TWO_NN.rates("2NN", "Section 3"),
    "rates_cnn": CNN.rates("CNN", "Section 3"),
    "rates_mnist": WORK.rates("CNN with more or less local work", "Section 3"),
    "rates_shakespeare": PLAYS.rates("LSTM", "Section 3"),
}
