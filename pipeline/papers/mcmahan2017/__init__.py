"""Communication-Efficient Learning of Deep Networks from Decentralized Data: federated averaging.

Tables 1 and 2: rounds until the test accuracy reaches a target. Figure 1: the loss between two models.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

from fedcore.base.lazy import Series, pd
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
OBSERVED = ("evaluation.observe.between.points", 57)  # 40 a unit, so that 0, 1/2 and 1 are among them


def losses(facts: RunFacts) -> Series[float] | None:
    """Return the loss by weight theta of the first model; None if the run diverged."""
    if not facts.final:
        return None
    return facts.table("between.csv").round({"weight": 6}).set_index("weight")["train_loss"]


@drawing(
    title="Loss on all training rows of mixtures of two clients' models",
    published="Figure 1",
    queries=lambda params: {
        ("mixture", panel): Query(
            "averaging",
            "mnist_2nn",
            "iid",
            "oneshot",
            (("algorithm.same_start", panel == "same"), ("participation.cohorts", ((0, 1),)), OBSERVED),
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
        by_run = [losses(facts) for facts in inputs.cells["mixture", panel]]
        curves = [curve for curve in by_run if curve is not None]
        missing = [None] * (len(by_run) - len(curves))
        parents = [min(curve[0.0], curve[1.0]) for curve in curves]
        lines.append(line("mean", panel, [*(curve[0.5] for curve in curves), *missing]))
        lines.append(line("parents", panel, [*parents, *missing]))
        axes.set_xlabel("weight theta of the first model")
        if not curves:
            axes.text(0.5, 0.5, "diverged", ha="center", transform=axes.transAxes)
            continue
        frame = pd.DataFrame([curve.to_list() for curve in curves], columns=curves[0].index)
        for theta, values in zip(curves[0].index.to_list(), frame.T.to_numpy(), strict=True):
            lines.append(line("mixture", panel, [*values, *missing], weight=theta, round=round(100 * theta)))
        axes.plot(frame.columns, frame.mean(), color=style.BLUE)
        axes.axhline(sum(parents) / len(parents), color="0.4", linewidth=0.8, linestyle="--")
    panels["own"].set_ylabel("training loss")
    sentences = (
        "Left and right have axes of their own; dashed: the better of the two models, at theta 0 and 1.",
        "In the numbers a mixture's round is its weight in per cent.",
    )
    return Picture(pd.DataFrame(lines), figure, sentences)


SCORE = (
    "Round at which the running best accuracy crosses the target ({target} as in the paper, lower at other "
    "scales), interpolated; runs stop there."
)
MNIST = {"iid": "IID", "shards": "non-IID"}
PLAYS = {"iid": "IID", "roles": "by role"}
BATCHES = {"full": "B = inf", 10: "B = 10", 50: "B = 50"}
FRACTIONS = {0.0: 0.001, 0.1: 0.1, 0.2: 0.2, 0.5: 0.5, 1.0: 1.0}
"""Shares C of the clients in Table 1 and in a specification: 0 means one client."""
LOCAL = ((1, "full"), (5, "full"), (1, 50), (20, "full"), (1, 10), (5, 50), (20, 50), (5, 10), (20, 10))
LOCAL_ON_LINES = ((1, "full"), (1, 50), (5, "full"), (1, 10), (5, 50), (5, 10))
"""Epochs E and batch size B of the rows of Table 2, on images and on lines, in its order."""


@dataclass(frozen=True)
class Grid:
    """One table: a model on two splits of its data, with a row and a column for what clients do there.

    Attributes:
        regime, dataset: keys of the parameters.
        data: the data set in print.
        target: the accuracy in print that ends a run.
        rows: each row's label, and what it changes in a specification.
        columns: each column, its split, and what it changes.
        reading: how the names of runs under another reading end, and what it changes.
    """

    regime: str
    dataset: str
    data: str
    target: str
    rows: Mapping[str, tuple[str, Changes]]
    columns: Mapping[str, tuple[Column, str, Changes]]
    reading: tuple[str, Changes] = ("", ())

    def query(self, row: str, column: str) -> Query:
        """Return the runs of a cell; ``chosen`` of the parameters may have its rate."""
        (_, split, work), (ending, reading) = self.columns[column], self.reading
        changes = (*self.rows[row][1], *work, *reading)
        place = f"{self.regime}-{row}-{column}{ending}"
        return Query(self.regime, self.dataset, split, "fedavg", changes, place=place)

    def table(self, title: str, published: str, beside: str = "") -> Table:
        """Declare the table; another reading of one stands ``beside`` that one's published numbers."""
        return Table(
            title=f"Rounds of communication until {title}",
            published=published,
            columns=lambda params: tuple(column for column, *_ in self.columns.values()),
            rows=lambda params: {key: label for key, (label, _) in self.rows.items()},
            query=self.query,
            measure=rounds_of,
            dataset=lambda row, column: self.data,
            unit="rounds",
            decimals=0,
            best="none",
            test="none",
            when="",
            note=f"{SCORE.format(target=self.target)} A search, where it has run, chose a cell's rate by the "
            "fewest rounds on test rows, as the paper did.",
            heading="Clients and their work",
            beside=beside,
        )

    def rates(self, label: str, published: str) -> Table:
        """Declare the search for the local rate of each cell of the table."""
        cells = {self.query(*cell).place: cell for cell in product(self.rows, self.columns)}

        def candidate(params: PaperParams, column: str, search: Search, choice: Choice) -> Query:
            query = self.query(*cells[column])
            return replace(query, changes=(*query.changes, *choice.items()), seeds=seeds(params))

        return search(
            Search("fedavg", label, published),
            candidate,
            "Rounds of communication to the target by local rate, {}",
            lambda params: tuple(
                Column(place, f"{self.rows[row][0]}, {self.columns[column][0].heading}")
                for place, (row, column) in cells.items()
            ),
            rounds_of,
            dataset=lambda row, column: self.data,
            unit="rounds",
            decimals=0,
            best="smallest",
            when="",
            note=SCORE.format(target=self.target),
        )


def rounds_of(facts: RunFacts, column: str) -> float | None:
    """Return a run's rounds to the accuracy at which it ends, interpolated; None if it diverged."""
    if not facts.final:
        return None
    target = facts.run.spec["evaluation"]["stop_at"]
    return rounds_to(facts.series("test_accuracy"), target, interpolated=True)


def by_fraction(regime: str, dataset: str, target: str) -> Grid:
    """Return Table 1 of a model: rows are shares C of the clients, columns splits and batch sizes."""
    rows = {f"c{c}": (f"C = {c}", (("participation.fraction", share),)) for c, share in FRACTIONS.items()}
    columns: dict[str, tuple[Column, str, Changes]] = {}
    for (split, label), batch in product(MNIST.items(), ("full", 10)):
        column = Column(f"{split}-b{batch}", BATCHES[batch], label)
        columns[column.key] = column, split, (("training.batch_size", batch),)
    return Grid(regime, dataset, "MNIST", target, rows, columns)


def by_work(
    regime: str,
    dataset: str,
    data: str,
    target: str,
    splits: Mapping[str, str],
    work: tuple[tuple[int, int | str], ...],
) -> Grid:
    """Return Table 2 of a model: rows are epochs and batch sizes, E = 1 and B = inf being FedSGD."""
    rows: dict[str, tuple[str, Changes]] = {}
    for epochs, batch in work:
        label = f"E = {epochs}, {BATCHES[batch]}"
        changes = (("training.local_epochs", epochs), ("training.batch_size", batch))
        rows[f"e{epochs}-b{batch}"] = label, (("participation.fraction", 0.1), *changes)
    rows["e1-bfull"] = "FedSGD (E = 1, B = inf)", rows["e1-bfull"][1]
    columns = {split: (Column(split, label), split, ()) for split, label in splits.items()}
    return Grid(regime, dataset, data, target, rows, columns)


TWO_NN = by_fraction("two_nn", "mnist_2nn", "97%")
CNN = by_fraction("cnn", "mnist_cnn", "99%")
WORK = by_work("cnn", "mnist_cnn", "MNIST", "99%", MNIST, LOCAL)
LINES = by_work("characters", "shakespeare", "Shakespeare", "54%", PLAYS, LOCAL_ON_LINES)
SYMMETRIC = ("_symmetric", (("data.scaling", "symmetric"),))
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
    for name, grid, goal, place, label in GRIDS:
        tuning = f"rates_{name.partition('_')[2]}"
        tables[name], rates[tuning] = grid.table(goal, place), grid.rates(label, "Section 3")
        if grid is not LINES:
            symmetric, pixels = replace(grid, reading=SYMMETRIC), ", with pixels from -1 to 1"
            tables[f"{name}_symmetric"] = symmetric.table(f"{goal}{pixels}", place, beside=name)
            rates[f"{tuning}_symmetric"] = symmetric.rates(f"{label}{pixels}", "Section 3")
    return tables | rates


PAPER = Paper(
    title="Communication-Efficient Learning of Deep Networks from Decentralized Data",
    citation="B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Aguera y Arcas, AISTATS 2017",
    datasets={"mnist_2nn": "MNIST", "mnist_cnn": "MNIST", "shakespeare": "Shakespeare"},
    targets={**targets(), "fig1": averaging},
)
