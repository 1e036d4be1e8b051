"""Tables I and II: test accuracy on three data sets. Table III: bytes of mean features (delta) per client."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedcore.spec import Participation
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Changes, Column, Query, Variation
from pipeline.reports import pooling
from pipeline.reports.results import RunFacts
from pipeline.reports.tables import Table
from pipeline.reports.variations import variations

IMAGES = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
PRINTED = {**IMAGES, "sent140": "Sent140"}
DATASETS = {**PRINTED, "femnist": "FEMNIST", "convex": "synthetic(0.5, 0.5)"}
SPLITS = {"sim0": "Sim 0%", "sim10": "Sim 10%", "sim100": "Sim 100%", "noniid": "Non-IID", "iid": "IID"}
SIMILARITY = {"sim0": "similarity 0%", "sim10": "similarity 10%"}
EPOCHS = "cross_silo_epochs"
CODE = (("variant", "released"),)
COHORT = (("algorithm.deltas_of", "cohort"),)
METHODS = {"rfedavg": "rFedAvg", "rfedavg_plus": "rFedAvg+"}
COHORTS = (50, 100, 200, 500)
FIG1 = {"2": 0, "4": 1, "6": 2}
MODELS = {"cnn": ("mnist", "sim0"), "rnn": ("sent140", "noniid")}
REGIMES = {"cross_silo": "Cross-silo", "cross_device": "Cross-device"}
BYTES = {"float32": 4, "float64": 8}
NOTE = (
    "A client's downloads in the last round minus FedAvg's (one model per client) and minus whole models "
    "that a second synchronisation sends. Only payload is counted; the published 2808 and 1784 bytes hold "
    "760 bytes of serialisation and 512 and 256 numbers. Cross-device, rFedAvg sends only the vectors "
    "of a round's clients (deltas_of: cohort), as the published numbers count them; its Algorithm 1 "
    "sends those of all N."
)


def columns(params: PaperParams) -> tuple[Column, ...]:
    """Return a column for each split of each data set of the tables."""
    return tuple(
        Column(f"{dataset}-{split}", SPLITS.get(split, split), label)
        for dataset, label in PRINTED.items()
        if dataset in params.datasets
        for split in params.datasets[dataset].splits
    )


def accuracy(title: str, published: str, regime: str) -> Table:
    """Return a table of accuracies in one regime."""
    return Table(
        title=f"Test accuracy in the {title}",
        published=published,
        columns=columns,
        query=lambda algorithm, column: setting(regime, algorithm, column),
    )


def setting(regime: str, algorithm: str, column: str, changes: Changes = ()) -> Query:
    """Return what a method's cell of a column like ``mnist-sim0`` asks for in one regime."""
    dataset, split = column.split("-")
    return Query(regime, dataset, split, algorithm, changes)


def representative(algorithm: str, column: str) -> Query:
    """Return the setting that represents a regime and kind of model.

    Only rFedAvg's bytes depend on whose deltas are sent, and only where not all clients take part.
    """
    regime, model = column.split("-")
    changes = COHORT if (algorithm, regime) == ("rfedavg", "cross_device") else ()
    return Query(regime, *MODELS[model], algorithm, changes)


def received(facts: RunFacts, column: str) -> float | None:
    """Return the bytes of delta that a client of the last round received, None if the run diverged.

    rFedAvg+ sends the new model a second time, but a client that has it needs no model in the next round:
    beyond FedAvg's traffic there are whole models and the vectors, which are smaller than one model
    together. None too, unless the last two rounds were both measured.
    """
    if not facts.summary or not facts.final or facts.history["round"].diff().iloc[-1] != 1:
        return None
    summary, history, spec = facts.summary, facts.history, facts.run.spec
    model, clients = int(summary["parameters"]) * BYTES[spec["dtype"]], int(summary["clients"])
    participation = Participation.model_validate(spec["participation"])
    participants = participation.cohort_size(clients, clients - len(summary["empty_clients"]))
    beyond = int(history["bytes_down"].iloc[-1]) - participants * model
    return (beyond % model if facts.run.algorithm == "rfedavg_plus" else beyond) / participants


def traffic(facts: RunFacts, column: str) -> float | None:
    """Return the megabytes that all clients send and receive in a round, None if the run diverged."""
    if not facts.final:
        return None
    total = facts.history[["bytes_down", "bytes_up"]].to_numpy().sum()
    return float(total / facts.run.spec["training"]["rounds"] / 1e6)


def cohort(facts: RunFacts, column: str) -> float:
    """Return the class non-IID score of a cohort's rows in per cent of the largest."""
    participation = Participation.model_validate(facts.run.spec["participation"])
    return pooling.skew(pooling.pooled(facts, participation.cohort_size(facts.statistics["clients"])))


def own_class(facts: RunFacts, column: str) -> float:
    """Return which share of a client's rows, in per cent, has the class that Fig. 1 gives it."""
    counts: list[int] = facts.statistics["label_counts"][int(column) - 1]
    return float(100 * counts[FIG1[column]] / sum(counts))


def on(dataset: str) -> dict[str, Any]:
    """Return what a table of variations needs to know where all its columns are of one data set."""
    return {"data": lambda column: dataset, "dataset": lambda row, column: PRINTED[dataset]}


TABLE2 = accuracy("cross-device setting", "Table II", "cross_device")
TABLES: Mapping[str, Table] = {
    "table1": accuracy("cross-silo setting", "Table I", "cross_silo"),
    "table2": TABLE2,
    "table2_cohort": TABLE2.read_as(
        ", with deltas of only the round's clients",
        lambda query: replace(query, changes=COHORT if query.algorithm in METHODS else ()),
        beside="table2",
    ),
    "table3": Table(
        title="Mean features that a client receives in a round",
        published="Table III",
        columns=lambda params: tuple(
            Column(f"{regime}-{model}", model.upper(), label)
            for regime, label in REGIMES.items()
            for model in MODELS
        ),
        query=representative,
        rows=lambda params: METHODS,
        measure=received,
        unit="bytes",
        decimals=0,
        best="smallest",
        test="none",
        when="",
        note=NOTE,
    ),
    "cohorts": variations(
        "Class non-IID score of a cohort, CIFAR-10",
        "Section VI-B5",
        {"cohort": Variation("a fifth of the clients", "fedavg")},
        {f"clients_{n}": f"{n} clients" for n in COHORTS},
        lambda params, method, column, changes: Query(
            "cross_device", "cifar10", "sim0", method, (("partition.clients", int(column.split("_")[1])),)
        ),
        **on("cifar10"),
        measure=cohort,
        needs="partitions",
        when="",
    ),
    "fig1_labels": variations(
        "Share of the class that Fig. 1 names, CIFAR-10",
        "Fig. 1",
        {"share": Variation("20 clients", "fedavg", (("partition.clients", 20),))},
        {client: f"client {client}, class {label}" for client, label in FIG1.items()},
        lambda params, method, column, changes: Query("cross_silo", "cifar10", "sim0", method, changes),
        **on("cifar10"),
        measure=own_class,
        needs="partitions",
        when="",
    ),
    "spreads": variations(
        "How far the clients' mean features lie apart",
        "Section IV-B",
        {name: Variation("", name) for name in METHODS},
        IMAGES,
        lambda params, method, dataset, changes: Query("cross_silo", dataset, "sim0", method, changes),
        measure=lambda facts, column: float(facts.series("delta_spread").iloc[-1]) if facts.final else None,
        unit="mean distance from their mean",
    ),
    "traffic": variations(
        "Mean traffic a round on MNIST, with what is sent before the first",
        "Section IV-C",
        {name: Variation("", name) for name in METHODS},
        REGIMES,
        lambda params, method, regime, changes: Query(regime, "mnist", "sim0", method, changes),
        **on("mnist"),
        measure=traffic,
        unit="MB",
        when="",
    ),
    "table1_released": Table(  # of CIFAR-10 similarity 0% alone, as epochs cost many times more
        title="Test accuracy in the cross-silo setting, as the authors' code reads it",
        published="Table I",
        columns=lambda params: tuple(
            c for c in columns(params) if c.key.startswith(("mnist", "cifar10-sim0"))
        ),
        query=lambda row, column: setting(EPOCHS, row, column, CODE),
        rows=lambda params: {
            name: "" for name in ("fedavg", "qfedavg", *METHODS) if name in params.algorithms
        },
        beside="table1",
    ),
    "variations": variations(
        "Test accuracy of FedProx by learning rate",
        "Section VI-A",
        {
            "fedprox": Variation("", "fedprox"),
            "fedprox_1": Variation("FedProx, rate .1", "fedprox", (("training.lr", 0.1),)),
        },
        {"mnist": "MNIST, similarity 0%, cross-device"},
        lambda params, method, column, changes: Query("cross_device", column, "sim0", method, changes),
    ),
}
