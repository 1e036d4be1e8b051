"""Table I: partition statistics. Algorithm 3: a partition before and after random moves.

Table II: redistributions S and score decay gamma. Table III: nine data sets, nine methods.
The grid searches of Sections IV-D and IV-E: scores on validation clients, the best candidate marked.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedcore.base.errors import DataError
from fedcore.base.lazy import DataFrame, pd, seaborn
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.specification import specification
from pipeline.catalogue.targets import Asked, Changes, Column, Query, Variation
from pipeline.papers.radfed.settings import DATASETS, METRICS, SETTINGS, folds, metric_of, present, rounds
from pipeline.reports import figures, pooling
from pipeline.reports.agreement import agreements, stands_in
from pipeline.reports.drawings import Inputs, Picture, by_label, drawing
from pipeline.reports.listings import Listing
from pipeline.reports.results import RunFacts, verdict
from pipeline.reports.search import ENOUGH_SEEDS, Choice, Search, on_held_out, search, seeds
from pipeline.reports.significance import parse_samples
from pipeline.reports.tables import Table
from pipeline.reports.trials import late_mean
from pipeline.reports.variations import IID, variations

PARTITIONS = {
    name.removesuffix("_g"): name
    for name in ("cifar10", "shakespeare", "covcls_g", "covfeat_g", "mnist_1", "mnist_01", "eicu")
}
"""A setting of each row of Tables I and II."""
TUNED = ("covcls", "covfeat", "mnist_1", "mnist_01", "cifar10", "shakespeare", "eicu")
"""Them in Table II's order."""
RELEASED: Mapping[str, Mapping[str, float]] = {
    "cifar10": {"legacy_seed": 2366, "xi": 0.0002},
    "covcls": {"legacy_seed": 1020, "xi": 0.0002},
    "mnist_1": {"legacy_seed": 10},
    "mnist_01": {"legacy_seed": 233},
}
SEARCH: Mapping[str, float] = {"min_size": 0.5, "burn_in": 500_000}
MARK = "_released"
STATISTICS = {"min": "min rows", "max": "max", "mean": "mean", "std": "sd", "c_score": "C-score"}
EXAMPLE = "mnist_01"
WHOLE = (("partition.fold", None),)  # the partition of all clients, before folds are made of it
STILL = (("partition.burn_in", 0), ("partition.steps", 0))
STAGES: Mapping[str, tuple[str, Changes]] = {
    "before": ("optimum of eq. (1)", STILL),
    "after": ("after Algorithm 3", ()),
}


def label_of(row: str) -> str:
    """Return a partition's name in Tables I and II."""
    return SETTINGS[PARTITIONS[row]].label.removesuffix("-G")


def partition_rows(params: PaperParams) -> dict[str, str]:
    """Return a row for each partition, and with full data for the draws of the authors' code."""
    rows = {}
    for key, setting in PARTITIONS.items():
        if dataset := params.datasets.get(SETTINGS[setting].dataset):
            rows[key] = label_of(key)
            if key in RELEASED and (dataset.data.model_extra or {}).get("edition") == "full":
                rows[key + MARK] = f"{label_of(key)}, released seed"
    return rows


def partition_query(params: PaperParams, row: str) -> Query:
    """Return 20 draws of a partition (fewer where few seeds are asked for), or the released code's one.

    Clients that the data name are not drawn, so there is one partition.
    """
    name = row.removesuffix(MARK)
    query = SETTINGS[PARTITIONS[name]].query("fedavg", WHOLE)
    if params.datasets[query.dataset].splits[query.split].name == "natural":
        return replace(query, seeds=(0,))
    if row != name:
        changes = [(f"partition.{key}", value) for key, value in {**SEARCH, **RELEASED[name]}.items()]
        return replace(query, changes=(*query.changes, *changes), seeds=(0,))
    return replace(query, seeds=params.seeds if len(params.seeds) < ENOUGH_SEEDS else tuple(range(20)))


@drawing(
    title="A partition of MNIST (lambda .1) before and after random moves",
    published="Algorithm 3",
    queries=lambda params: {
        (stage, EXAMPLE): replace(
            SETTINGS[EXAMPLE].query("fedavg", (*WHOLE, *changes)), seeds=params.seeds[:1]
        )
        for stage, (_, changes) in STAGES.items()
    },
    needs="partitions",
)
def example(inputs: Inputs) -> Picture:
    """Draw the class ratios of all clients, largest client first, before and after, and what changed."""
    ratios, scores, frames = {}, {}, []
    for (stage, _), (facts, *_) in inputs.cells.items():
        statistics, folder = facts.statistics, facts.run.partition
        if not statistics.get("label_counts"):
            raise DataError(f"{folder}/stats.json: expected 'label_counts'; build the partition again")
        counts = np.array(statistics["label_counts"])
        counts = counts[np.argsort(-counts.sum(axis=1), kind="stable")]
        ratios[stage] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        scores[stage] = statistics["c_score"]
        frames.append(by_label(counts, stage=stage))
    figure = figures.framed(4.6)
    change = ratios["after"] - ratios["before"]
    bound = max(float(np.abs(change).max()), 1e-3)
    panels = {
        f"{label}: C-score {scores[stage]:.3f}": (ratios[stage], "cividis", 0, 1, "share of rows")
        for stage, (label, _) in STAGES.items()
    } | {"difference": (change, "PuOr", -bound, bound, "change")}
    grid = figure.subplots(3, 1, sharex=True)
    for axes, (title, (values, colours, low, high, bar)) in zip(grid, panels.items(), strict=True):
        colour: Any = {"cmap": colours, "vmin": low, "vmax": high, "cbar_kws": {"label": bar}}
        seaborn.heatmap(values.T, ax=axes, **colour, xticklabels="auto", yticklabels=3, rasterized=True)
        axes.set_title(title, loc="left")
        axes.set_ylabel("class")
    grid[-1].set_xlabel("client, largest first")
    return Picture(pd.concat(frames, ignore_index=True), figure, ("Same sizes and same targets in both.",))


STATISTICS_TABLE = Table(
    title="Partitions: rows of a client and class non-IID score",
    published="Table I",
    columns=lambda params: tuple(
        Column(key, label, "partition", 2 if key == "c_score" else 0) for key, label in STATISTICS.items()
    ),
    rows=partition_rows,
    queries=lambda params: {
        (row, column): partition_query(params, row) for row in partition_rows(params) for column in STATISTICS
    },
    measure=lambda facts, column: float({**facts.statistics, **facts.statistics["sizes"]}[column]),
    beside_cell=lambda row, column: (row.removesuffix(MARK), column),
    finish=lambda frame: frame.assign(verdict=frame["verdict"].where(frame["seeds"] == 1, "")),
    dataset=lambda row, column: DATASETS[SETTINGS[PARTITIONS[row.removesuffix(MARK)]].dataset],
    needs="partitions",
    unit="rows; C-score from 0 to 2",
    best="none",
    when="",
    heading="Data set",
)


HYPERPARAMETERS = (
    Column("radfed-redistributions", "S", "RADFed"),
    Column("radfed_i-redistributions", "S", "RADFedi"),
    Column("radfed_i-gamma", "gamma", "RADFedi"),
)
AVERAGE = "avg"
OTHER_MODELS = {"cnn": "CNN", "mlp": "MLP"}
DELAY, STALENESS, STALEST = "algorithm.redistributions", "algorithm.staleness", "algorithm.max_staleness"
NAMES = {DELAY: "S", STALENESS: "decay", "algorithm.server_lr": "eta"}
GRIDS = {
    "grid_radfed": Search("radfed", "RADFed", "Section IV-D", NAMES),
    "grid_radfed_i": Search("radfed_i", "RADFedi", "Section IV-D", NAMES),
    "grid_fedprox": Search("fedprox", "FedProx", "Section IV-E"),
    "grid_fedasync": Search("fedasync", "FedAsync", "Section IV-E", NAMES),
    "grid_fedadapt": Search("fedadapt", "FedAdapt", "Section IV-E", NAMES),
}


def hyperparameter(params: PaperParams, row: str, column: str) -> str:
    """Return a cell of Table II: a value that the runs on a data set use."""
    method, option = column.split("-")
    query = SETTINGS[PARTITIONS[row]].query(method)
    return f"{specification(params, query)['algorithm'][option]:g}"


def score_columns(params: PaperParams) -> tuple[Column, ...]:
    """Return a column for each data set, and their average; a model that is not MobileNetV2 is named."""
    settings = present(params)
    labels = {key: setting.label for key, setting in settings.items()}
    if model := "cifar10" in labels and OTHER_MODELS.get(params.datasets["cifar10"].model.name):
        labels["cifar10"] += f" ({model})"
    return (
        *(Column(key, label, METRICS[settings[key].metric]) for key, label in labels.items()),
        Column(AVERAGE, "AVG", best="none", test="none"),
    )


def score_queries(params: PaperParams) -> Asked:
    """Return all folds of each method and data set; of all data sets for the average."""
    settings = present(params)
    columns = {**{key: (setting,) for key, setting in settings.items()}, AVERAGE: (*settings.values(),)}
    return {
        (row, column): tuple(fold for setting in group for fold in folds(params, setting.query(row)))
        for row in params.algorithms
        for column, group in columns.items()
    }


def score_of(facts: RunFacts, column: str) -> float | None:
    """Return a run's score on test clients in per cent, by its own metric; None if it diverged."""
    return facts.score(f"test_{metric_of(facts.run)}")


def late_score_of(facts: RunFacts, column: str) -> float | None:
    """Return a run's mean score over the last sixth of its rounds, as ``score_of``; None if it diverged.

    Single rounds swing by as much as methods differ, so the last one carries its luck.
    """
    return 100 * late_mean(facts.series(f"test_{metric_of(facts.run)}"), 1 / 6) if facts.final else None


def data_of_column(row: str, column: str) -> str:
    """Return the data set of a column in print; none for the average."""
    return "" if column == AVERAGE else DATASETS[SETTINGS[column].dataset]


def relative_to_fedavg(frame: DataFrame) -> DataFrame:
    """Turn scores of all methods but FedAvg into per cent of change against FedAvg's, column by column.

    Folds differ by more than methods do, so a method counts on the folds and seeds that FedAvg ran as well,
    and its spread is that of its runs' changes against FedAvg's own there. The average is the mean of the
    columns' scores, then its change; it has no spread of its own and says nothing new about the data.
    """
    frame = shared_runs(frame)
    average = frame["column"] == AVERAGE
    for name in ("mean", "base"):
        scores = frame[~average].groupby("row", sort=False)[name].agg(lambda cells: cells.mean(skipna=False))
        frame.loc[average, name] = frame.loc[average, "row"].map(scores).astype(float)
    frame.loc[average, "std"] = math.nan
    frame.loc[average, "data"] = ""
    others = frame["row"] != "fedavg"
    frame.loc[others, "mean"] = 100 * (frame["mean"] / frame["base"] - 1)
    frame["difference"] = frame["mean"] - frame["published_mean"]
    compared = zip(agreements(frame), frame["scale"], map(stands_in, frame["data_state"]), strict=True)
    frame["verdict"] = [verdict(*line) for line in compared]
    return frame.drop(columns="base")


def shared_runs(frame: DataFrame) -> DataFrame:
    """Return the lines as far as FedAvg ran the same folds and seeds, with its mean there as ``base``.

    The deviations of all but FedAvg are those of the changes against it, run by run, in per cent.
    """
    frame = frame.copy()
    reference = frame[frame["row"] == "fedavg"].set_index("column")
    frame["base"] = frame["column"].map(reference["mean"])
    compared = (frame["column"] != AVERAGE) & (frame["row"] != "fedavg")
    for index, line in frame[compared].iterrows():
        texts = {"own": line["values"], "fedavg": reference.loc[line["column"], "values"]}
        runs = pd.DataFrame({key: pd.Series(parse_samples(text), dtype=float) for key, text in texts.items()})
        shared = runs.dropna()
        frame.loc[index, "std"] = (100 * (shared["own"] / shared["fedavg"] - 1)).std()
        if len(shared) < len(runs):
            frame.loc[index, "n"] = len(shared)
            frame.loc[index, ["mean", "base"]] = shared.mean().to_numpy()
    return frame


def tuned(params: PaperParams) -> tuple[Column, ...]:
    """Return a column for each data set of Table II; Covertype is tuned with global standardisation."""
    settings = present(params)
    keys = (PARTITIONS[name] for name in TUNED)
    return tuple(Column(k, settings[k].label, METRICS[settings[k].metric]) for k in keys if k in settings)


def query(params: PaperParams, column: str, search: Search, choice: Choice) -> Query:
    """Return a candidate's runs on the first fold; with S the rounds change, so all train as much."""
    changes: dict[str, Any] = dict(choice)
    if DELAY in choice:
        changes["training.rounds"] = rounds(params, SETTINGS[column].query("fedavg")) // int(choice[DELAY])
    candidate = SETTINGS[column].query(search.method, changes.items())
    return replace(folds(params, candidate)[0], seeds=seeds(params))


SCORES = Table(
    title="Scores on held-out clients: FedAvg in %, others as % change from it",
    published="Table III",
    columns=score_columns,
    queries=score_queries,
    measure=score_of,
    finish=relative_to_fedavg,
    dataset=data_of_column,
    note="AUC: area under the ROC curve. Folds are by client. AVG: mean of the columns' scores. "
    "A relative number is the change of the means, its ± the deviation of the runs' changes, each against "
    "FedAvg's with its fold and seed, whose mean may differ.",
    test="wilcoxon",
)
VARIATIONS = {
    "fedavg": Variation("", "fedavg"),
    "fedavg_iid": Variation("FedAvg, IID", "fedavg", (("partition.class_alpha", IID),)),
    "fedavg_uniform": Variation("FedAvg, plain means", "fedavg", (("algorithm.averaging", "uniform"),)),
    "fedavg_1": Variation("FedAvg, one epoch", "fedavg", (("training.local_epochs", 1),)),
    "fedavg_half": Variation("FedAvg, half of the clients", "fedavg", (("participation.fraction", 0.5),)),
    "fedasync": Variation("", "fedasync"),
    "fedasync_1": Variation("FedAsync, staleness of 1 at most", "fedasync", ((STALEST, 1),)),
    "fedasync_60": Variation("FedAsync, staleness of 60 at most", "fedasync", ((STALEST, 60),)),
    "fedasync_constant": Variation("FedAsync, constant weights", "fedasync", ((STALENESS, "constant"),)),
    "fedasync_hinge": Variation("FedAsync, hinge weights", "fedasync", ((STALENESS, "hinge"),)),
}
SEEN = {"skew": ("non-IID score", pooling.skew), "rows": ("sd of their number", pooling.variation)}
HOPS = (1, 15, 100)


def seen(facts: RunFacts, column: str) -> float | None:
    """Return a statistic, in per cent, of the rows that models saw at as many clients, drawn at random."""
    name, hops = column.split("_")
    return SEEN[name][1](pooling.pooled(facts, int(hops), again=True))


def varied(params: PaperParams, method: str, column: str, changes: Changes) -> Query:
    """Return the runs of a variation, on the first fold."""
    return folds(params, SETTINGS[column].query(method, changes))[0]


TABLES: Mapping[str, Table] = {
    "table1": STATISTICS_TABLE,
    "table3": SCORES,
    "variations": variations(
        "Scores with one value changed",
        "Sections II to V",
        VARIATIONS,
        {key: SETTINGS[key].label for key in ("covcls_g", "mnist_01")},
        varied,
        data=lambda column: SETTINGS[column].dataset,
        measure=score_of,
        dataset=data_of_column,
        note="The first fold.",
    ),
    "hops": variations(
        "What a model has seen after S clients, MNIST-.1",
        "Sections I and III-A",
        {"radfed": Variation("", "fedavg")},
        {f"{name}_{hops}": f"S = {hops}, {label}" for name, (label, _) in SEEN.items() for hops in HOPS},
        lambda params, method, column, changes: SETTINGS["mnist_01"].query(method, WHOLE),
        data=lambda column: "mnist",
        measure=seen,
        dataset=lambda row, column: DATASETS["mnist"],
        needs="partitions",
        when="",
    ),
    "table3_late": replace(
        SCORES,
        measure=late_score_of,
        beside="table3",
        when="each run's mean over the last sixth of its rounds",
    ),
}
SEARCHES = {
    name: search(
        grid,
        query,
        "Grid search of {}: scores on validation clients",
        tuned,
        on_held_out(lambda facts: metric_of(facts.run)),
        dataset=data_of_column,
        note="On the first fold; other hyperparameters are as declared.",
    )
    for name, grid in GRIDS.items()
}
TABLE2 = Listing(
    title="Hyperparameters that the runs use: redistributions S between two aggregations, score decay gamma",
    published="Table II",
    columns=lambda params: HYPERPARAMETERS,
    rows=lambda params: {key: label_of(key) for key in TUNED if PARTITIONS[key] in present(params)},
    word=hyperparameter,
    heading="Data set",
    note="As declared in the parameters at this scale; they are the paper's at paper scale.",
)
