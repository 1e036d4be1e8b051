"""Federated Learning for Non-IID Data via Client Variance Reduction and Adaptive Server Update: ComFed.

Table IV and Fig. 2: the best accuracy so far of sixteen combinations, over training, on two partitions.
Six of them are followed for longer.
Values lost from the text (rates, batch size, epochs, tau, mu) are searched for by published numbers.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from fedcore.base.lazy import DataFrame
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Changes, Column, Paper, Query, Target, Variation
from pipeline.papers.comfed.taxonomy import TABLES
from pipeline.reports import significance
from pipeline.reports.captions import stopped
from pipeline.reports.drawings import Curves
from pipeline.reports.results import RunFacts
from pipeline.reports.search import seeds
from pipeline.reports.tables import Table
from pipeline.reports.variations import IID, variations

DATASETS = {"cifar10": "CIFAR-10"}
REGIME, DATASET, SPLIT = "cross_device", "cifar10", "by_class"
PARTITIONS = {"": (SPLIT, ""), "_by_client": ("skewed", ", with a Dirichlet draw per client")}
"""What a target's name ends in, to its split and the words for its title."""
CHECKPOINTS, PRINTED = 20, 2000
EARLY, FOLLOWED = "early", ("fedavg", "fedprox", "scaffold", "fedyogi", "prox_yogi", "scaf_yogi")
SIDES = {
    "fedavg": ("FedAvg at the clients", ("fedavg", "fedadam", "fedadagrad", "fedyogi")),
    "fedprox": ("FedProx at the clients", ("fedprox", "prox_adam", "prox_adagrad", "prox_yogi")),
    "scaffold": ("SCAFFOLD at the clients", ("scaffold", "scaf_adam", "scaf_adagrad", "scaf_yogi")),
    "fednova": ("FedNova at the clients", ("fednova", "nova_adam", "nova_adagrad", "nova_yogi")),
}
CALIBRATION, OBSERVED = "calibration", ("evaluation.divergence", True)
DISTANCE = "distance"
IN_USE = "in_use"


def columns(params: PaperParams, regime: str = REGIME, checkpoints: int = CHECKPOINTS) -> tuple[Column, ...]:
    """Return so many rounds at even distances, the last of training among them; all rounds if fewer."""
    rounds = params.regimes[regime].training.rounds or checkpoints
    count = min(checkpoints, rounds)
    ends = [rounds * k // count for k in range(1, count + 1)]
    return tuple(Column(str(end), f"round {end}", "CIFAR-10") for end in ends)


def best_so_far(facts: RunFacts, column: str | int) -> float | None:
    """Return the best test accuracy up to the column's round in per cent, None if the run diverged."""
    if not facts.final:
        return None
    return 100 * float(facts.series("test_accuracy").loc[: int(column)].max())


CURVES = Curves(
    title="Test accuracy of the best model so far on CIFAR-10, by client side",
    published="Fig. 2",
    panels={key: label for key, (label, _) in SIDES.items()},
    queries=lambda params: {
        (row, key): Query(REGIME, DATASET, SPLIT, row) for key, (_, rows) in SIDES.items() for row in rows
    },
    so_far=True,
    beside="table4",
    note=stopped(PRINTED),
)
TABLE = Table(
    title="Test accuracy of the best model so far",
    published="Table IV",
    columns=columns,
    query=lambda algorithm, column: Query(REGIME, DATASET, SPLIT, algorithm),
    measure=best_so_far,
    beside="table4",
    decimals=1,
    when="",
    note=stopped(PRINTED),
)
ACCURACIES: Mapping[str, Target] = {
    "table4": TABLE,
    "early": replace(
        TABLE,
        title="Test accuracy of the best model so far, six of sixteen methods early in training",
        columns=partial(columns, regime=EARLY, checkpoints=3),
        rows=lambda params: dict.fromkeys(FOLLOWED, ""),
        query=lambda algorithm, column: Query(EARLY, DATASET, SPLIT, algorithm),
    ),
    "fig2": CURVES,
    "fig2_swings": replace(
        CURVES,
        title="Test accuracy on CIFAR-10, by client side",
        published="Sections I, III-E and IV",
        so_far=False,
        beside="",
    ),
}


def search(
    algorithm: str, label: str, what: str, candidates: Mapping[str, Changes], split: str, words: str
) -> Table:
    """Declare a part of the search on one partition: the accuracy, and its distance from the published one.

    Candidates are compared with the number that Table IV prints of the algorithm, ``label`` in print; each
    puts its changes in place of the values in use. Seeds: the first of three.
    """
    accuracy = Column(algorithm, label, best="none")
    distance = Column(DISTANCE, "distance from the published", best="smallest", decimals=2)
    return Table(
        title=f"Search for the lost hyperparameters, {what}{words}: test accuracy of the best model so far",
        published=f"The first column (100 rounds) of Table IV, {label}",
        columns=lambda params: (accuracy, distance),
        rows=lambda params: {IN_USE: "values in use", **{name: name for name in candidates}},
        queries=lambda params: {
            (row, column): Query(CALIBRATION, DATASET, split, algorithm, changes, seeds(params))
            for row, changes in {IN_USE: (), **candidates}.items()
            for column in (algorithm, DISTANCE)
        },
        measure=lambda facts, column: best_so_far(facts, facts.run.spec["training"]["rounds"]),
        finish=with_distance,
        dataset=lambda row, column: DATASETS[DATASET],
        beside="table4",
        beside_cell=lambda row, column: (algorithm, "100"),
        decimals=1,
        test="none",
        heading="Candidate",
        search=True,
        note="Each row changes what it names and keeps the rest at the values in use.",
    )


RATES = {32: (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03), 128: (0.003, 0.01, 0.03)}
CLIENT_SIDE: dict[str, Changes] = {
    f"lr {lr:g}, B {batch}": (("training.lr", lr), ("training.batch_size", batch))
    for batch, rates in RATES.items()
    for lr in rates
}
CLIENT_SIDE["lr 0.01, B 128, E 5"] = (*CLIENT_SIDE["lr 0.01, B 128"], ("training.local_epochs", 5))
STEPS: Mapping[str, tuple[str, str, str, Mapping[str, Changes]]] = {
    "calibration": ("fedavg", "FedAvg", "local rate, batch size and epochs", CLIENT_SIDE),
    "calibration_server": (
        "fedyogi",
        "FedYogi",
        "server rate and tau",
        {
            **{f"server lr {lr:g}": (("algorithm.server_lr", lr),) for lr in (0.001, 0.003, 0.03)},
            **{f"tau {tau:g}": (("algorithm.tau", tau),) for tau in (1e-4, 1e-2)},
        },
    ),
    "calibration_prox": (
        "fedprox",
        "FedProx",
        "mu",
        {f"mu {mu:g}": (("algorithm.mu", mu),) for mu in (0.001, 0.1, 1.0)},
    ),
}


def with_distance(frame: DataFrame) -> DataFrame:
    """Fill the last column: absolute difference of a candidate's mean from the published number.

    A candidate that diverged or did not run has none. Its runs' own numbers make way for the distance as
    well, since they decide which is smallest.
    """
    frame = frame.copy()
    last = frame["column"] == DISTANCE
    distances = frame[~last].set_index("row")["difference"].abs()
    frame.loc[last, "mean"] = frame.loc[last, "row"].map(distances)
    frame.loc[last, ["std", "published_mean", "published_std", "difference"]] = math.nan
    frame.loc[last, "values"] = [
        significance.format_samples(dict.fromkeys(significance.parse_samples(text), distance))
        for text, distance in zip(frame.loc[last, "values"], frame.loc[last, "mean"], strict=True)
    ]
    return frame.assign(verdict="")


def calibrated(params: PaperParams, method: str, column: str, changes: Changes) -> Query:
    """Return the runs of a variation, as long as those of the calibrations."""
    return Query(CALIBRATION, column, SPLIT, method, changes, seeds(params))


varied = partial(variations, columns=DATASETS, query=calibrated, when="")
LOCAL = "algorithm.momentum_in_local"
BY_SKEW = {
    "fedavg": Variation("", "fedavg"),
    "fedavg_iid": Variation("FedAvg, IID", "fedavg", (("partition.alpha", IID),)),
}
VARIATIONS: Mapping[str, Table] = {
    "variations": varied(
        "Best test accuracy so far with one value changed",
        "Sections I and VI",
        {
            **BY_SKEW,
            "prox_yogi": Variation("", "prox_yogi"),
            "prox_yogi_1": Variation(
                "ProxYogi, server momentum .1 in local steps", "prox_yogi", ((LOCAL, 0.1),)
            ),
            "prox_yogi_5": Variation(
                "ProxYogi, server momentum .5 in local steps", "prox_yogi", ((LOCAL, 0.5),)
            ),
        },
        measure=lambda facts, column: best_so_far(facts, facts.run.spec["training"]["rounds"]),
    ),
    "stability": varied(
        "Runs of SCAFFOLD that diverge",
        "Section V",
        {
            "scaffold": Variation("SCAFFOLD, option I", "scaffold"),
            "scaffold_2": Variation("SCAFFOLD, option II", "scaffold", (("algorithm.option", 2),)),
        },
        measure=lambda facts, column: 100.0 * facts.diverged,
        unit="% of runs",
        decimals=0,
    ),
    "drifts": varied(
        "How far clients' models lie apart: 1 less the cosine",
        "Sections I and IV",
        {**BY_SKEW, **{name: Variation("", name) for name in ("fedprox", "scaffold")}},
        query=lambda params, method, column, changes: calibrated(
            params, method, column, (*changes, OBSERVED)
        ),
        measure=lambda facts, column: (
            100 * float(facts.table("divergence.csv")["local"].mean()) if facts.final else None
        ),
        unit="hundredths",
        decimals=4,
    ),
}


PAPER = Paper(
    title="Federated Learning for Non-IID Data via Client Variance Reduction and Adaptive Server Update",
    citation="H. Nguyen, L. Phan, H. Warrier, Y. Gupta, 2022",
    datasets=DATASETS,
    targets={
        **TABLES,
        **{
            f"{name}{ending}": target.read_as(words, partial(replace, split=split))
            for ending, (split, words) in PARTITIONS.items()
            for name, target in ACCURACIES.items()
        },
        **VARIATIONS,
        **{
            f"{name}{ending}": search(*step, split, words)
            for ending, (split, words) in PARTITIONS.items()
            for name, step in STEPS.items()
        },
    },
)
