"""Communication-Efficient Learning of Deep Networks from Decentralized Data: federated averaging.

Tables 1 and 2: rounds until the test accuracy reaches a target. Figure 1: the loss between two models.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from fedcore.base.lazy import pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Changes, Column, Paper, Query, Target
from pipeline.reports import figures, style
from pipeline.reports.cost import rounds_to
from pipeline.reports.drawings import Inputs, Picture, drawing, line
from pipeline.reports.results import RunFacts
from pipeline.reports.search import Choice, Search, search, seeds
from pipeline.reports.tables import Table

PANELS = {"own": "different starts", "same": "one start"}
ROWS = {
    "mean": "mean of the two models",
    "parents": "better of the two models",
    "mixture": "mixture theta w + (1 - theta) w'",
}
OBSERVED = (
    ("participation.cohorts", ((0, 1),)),
    ("evaluation.observe.between.points", 57),  # 40 a unit, so that 0, 1/2 and 1 are among them
)


@drawing(
    title="Loss on all training rows of mixtures of two clients' models",
    published="Figure 1",
    queries=lambda params: {
        ("mixture", panel): Query(
            "averaging", "mnist_2nn", "iid", "oneshot", (("algorithm.same_start", panel == "same"), *OBSERVED)
        )
        for panel in PANELS
    },
    rows=lambda params: ROWS,
)
def averaging(inputs: Inputs) -> Picture:
    """Draw the mean loss over seeds by theta, and that of the better parent."""
    lines = []
    figure, panels = figures.panels(PANELS, 2.8, across=2)
    for panel, axes in panels.items():
        runs = inputs.cells["mixture", panel]
        curves = {
            index: facts.table("between.csv").round({"weight": 6}).set_index("weight")["train_loss"]
            for index, facts in enumerate(runs)
            if facts.final
        }
        losses = pd.DataFrame(curves, columns=range(len(runs)), dtype=float)  # NaN: the run diverged
        first, middle, last = losses.reindex([0.0, 0.5, 1.0]).to_numpy()
        parents = np.minimum(first, last)
        lines += [line("mean", panel, [*middle]), line("parents", panel, [*parents])]
        axes.set_xlabel("weight theta of the first model")
        if losses.empty:
            axes.text(0.5, 0.5, "diverged", ha="center", transform=axes.transAxes)
            continue
        for theta, values in zip(losses.index, losses.to_numpy(), strict=True):
            lines.append(line("mixture", panel, [*values], weight=theta, round=round(100 * theta)))
        axes.plot(losses.index, losses.mean(axis=1), color=style.BLUE)
        axes.axhline(np.nanmean(parents), color="0.4", linewidth=0.8, linestyle="--")
    panels["own"].set_ylabel("training loss")
    sentences = (
        "Left and right have axes of their own; dashed: the better of the two models, at theta 0 and 1.",
        "In the numbers a mixture's round is its weight in per cent.",
    )
    return Picture(pd.DataFrame(lines), figure, sentences)


DATASETS = {"mnist_2nn": "MNIST", "mnist_cnn": "MNIST", "shakespeare": "Shakespeare"}
SCORE = (
    "Round at which the running best accuracy crosses the target ({target} as in the paper, lower at other "
    "scales), interpolated; runs stop there."
)
Rows = Mapping[str, tuple[str, Changes]]
Columns = Mapping[str, tuple[Column, str, Changes]]


@dataclass(frozen=True)
class Grid:
    """One table: a model on two splits of its data, with a row and a column for what clients do there.

    Attributes:
        regime, dataset: keys of the parameters.
        target: the accuracy in print that ends a run.
        rows: each row's label, and what it changes in a specification.
        columns: each column, its split, and what it changes.
        ending, reading: how the names of its runs under another reading end, and what this changes.
    """

    regime: str
    dataset: str
    target: str
    rows: Rows
    columns: Columns
    ending: str = ""
    reading: Changes = ()

    def query(self, row: str, column: str) -> Query:
        """Return the runs of a cell; ``chosen`` of the parameters may have its rate."""
        _, split, work = self.columns[column]
        changes = (*self.rows[row][1], *work, *self.reading)
        place = f"{self.regime}-{row}-{column}{self.ending}"
        return Query(self.regime, self.dataset, split, "fedavg", changes, place=place)

    @property
    def shared(self) -> dict[str, Any]:
        """What the table and the search for its rates have alike."""
        data = DATASETS[self.dataset]
        return {"dataset": lambda row, column: data, "unit": "rounds", "decimals": 0, "when": ""}

    def table(self, title: str, published: str, beside: str = "") -> Table:
        """Declare the table; another reading of one stands ``beside`` that one's published numbers."""
        return Table(
            title=f"Rounds of communication until {title}",
            published=published,
            columns=lambda params: tuple(column for column, *_ in self.columns.values()),
            rows=lambda params: {key: label for key, (label, _) in self.rows.items()},
            query=self.query,
            measure=rounds_of,
            best="none",
            test="none",
            note=f"{SCORE.format(target=self.target)} A search, where it has run, chose a cell's rate by the "
            "fewest rounds on test rows, as the paper did.",
            heading="Clients and their work",
            beside=beside,
            **self.shared,
        )

    def rates(self, label: str) -> Table:
        """Declare the search for the local rate of each cell of the table."""
        cells = {self.query(*cell).place: cell for cell in product(self.rows, self.columns)}

        def candidate(params: PaperParams, column: str, search: Search, choice: Choice) -> Query:
            query = self.query(*cells[column])
            return replace(query, changes=(*query.changes, *choice.items()), seeds=seeds(params))

        return search(
            Search("fedavg", label, "Section 3"),
            candidate,
            "Rounds of communication to the target by local rate, {}",
            lambda params: tuple(
                Column(place, f"{self.rows[row][0]}, {self.columns[column][0].heading}")
                for place, (row, column) in cells.items()
            ),
            rounds_of,
            best="smallest",
            note=SCORE.format(target=self.target),
            **self.shared,
        )


def rounds_of(facts: RunFacts, column: str) -> float | None:
    """Return a run's rounds to the accuracy at which it ends, interpolated; None if it diverged."""
    if not facts.final:
        return None
    target = facts.run.spec["evaluation"]["stop_at"]
    return rounds_to(facts.series("test_accuracy"), target, interpolated=True)


FRACTIONS = {0.0: 0.001, 0.1: 0.1, 0.2: 0.2, 0.5: 0.5, 1.0: 1.0}
"""Shares C of the clients in Table 1 and in a specification: 0 means one client."""
MNIST = {"iid": "IID", "shards": "non-IID"}
BATCHES = {"full": "B = inf", 10: "B = 10", 50: "B = 50"}
SHARES: Rows = {f"c{c}": (f"C = {c}", (("participation.fraction", share),)) for c, share in FRACTIONS.items()}
SPLITS_AND_BATCHES: Columns = {
    (key := f"{split}-b{batch}"): (
        Column(key, BATCHES[batch], label),
        split,
        (("training.batch_size", batch),),
    )
    for (split, label), batch in product(MNIST.items(), ("full", 10))
}
TWO_NN = Grid("two_nn", "mnist_2nn", "97%", SHARES, SPLITS_AND_BATCHES)
CNN = Grid("cnn", "mnist_cnn", "99%", SHARES, SPLITS_AND_BATCHES)


def by_work(
    regime: str, dataset: str, target: str, splits: Mapping[str, str], *work: tuple[int, int | str]
) -> Grid:
    """Return Table 2 of a model: rows are epochs E and batch sizes B, E = 1 and B = inf being FedSGD."""
    rows: dict[str, tuple[str, Changes]] = {}
    for epochs, batch in work:
        label = f"E = {epochs}, {BATCHES[batch]}"
        changes = (("training.local_epochs", epochs), ("training.batch_size", batch))
        rows[f"e{epochs}-b{batch}"] = label, (("participation.fraction", 0.1), *changes)
    rows["e1-bfull"] = "FedSGD (E = 1, B = inf)", rows["e1-bfull"][1]
    return Grid(regime, dataset, target, rows, {key: (Column(key, splits[key]), key, ()) for key in splits})


ON_IMAGES = ((1, "full"), (5, "full"), (1, 50), (20, "full"), (1, 10), (5, 50), (20, 50), (5, 10), (20, 10))
ON_LINES = ((1, "full"), (1, 50), (5, "full"), (1, 10), (5, 50), (5, 10))
WORK = by_work("cnn", "mnist_cnn", "99%", MNIST, *ON_IMAGES)
LINES = by_work("characters", "shakespeare", "54%", {"iid": "IID", "roles": "by role"}, *ON_LINES)
READINGS: Mapping[str, tuple[str, Changes]] = {
    "": ("", ()),
    "_symmetric": (", with pixels from -1 to 1", (("data.scaling", "symmetric"),)),
}
"""How the names of targets and runs under a reading end, to the words for the title, and what it changes."""
TENTH = "reaches its target, C = 0.1"
GRIDS = (
    ("table1_2nn", TWO_NN, "the 2NN reaches its target, E = 1", "Table 1, 2NN", "2NN"),
    ("table1_cnn", CNN, "the CNN reaches its target, E = 5", "Table 1, CNN", "CNN"),
    ("table2_mnist", WORK, f"the CNN {TENTH}", "Table 2, MNIST CNN", "CNN with more or less local work"),
    ("table2_shakespeare", LINES, f"the LSTM {TENTH}", "Table 2, Shakespeare LSTM", "LSTM"),
)


def targets() -> dict[str, Target]:
    """Return the tables, then the searches of their rates, each on images also with symmetric pixels."""
    tables: dict[str, Target] = {}
    rates: dict[str, Target] = {}
    for (name, grid, goal, place, label), (ending, (words, changes)) in product(GRIDS, READINGS.items()):
        if grid is not LINES or not ending:
            reading = replace(grid, ending=ending, reading=changes)
            tables[f"{name}{ending}"] = reading.table(f"{goal}{words}", place, beside=ending and name)
            rates[f"rates_{name.partition('_')[2]}{ending}"] = reading.rates(f"{label}{words}")
    return tables | rates


PAPER = Paper(
    title="Communication-Efficient Learning of Deep Networks from Decentralized Data",
    citation="B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Aguera y Arcas, AISTATS 2017",
    datasets=DATASETS,
    targets={**targets(), "fig1": averaging},
)
