"""Table I: partition statistics. Table III: nine data sets, nine methods."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fedcore.base.lazy import pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Column, PlannedRun, Query
from pipeline.papers.radfed.settings import DATASETS, METRICS, SETTINGS, folds, metric_of, present, whole
from pipeline.reports.agreement import agreements, stands_in
from pipeline.reports.results import final_of, history_of, statistics_of, verdict
from pipeline.reports.search import ENOUGH
from pipeline.reports.significance import parsed
from pipeline.reports.tables import Table

DRAWS = 20
PARTITIONS = {
    "cifar10": ("CIFAR-10", "cifar10"),
    "shakespeare": ("Shakespeare", "shakespeare"),
    "covcls": ("COVCLS", "covcls_g"),
    "covfeat": ("COVFEAT", "covfeat_g"),
    "mnist_1": ("MNIST-1", "mnist_1"),
    "mnist_01": ("MNIST-.1", "mnist_01"),
    "eicu": ("eICU", "eicu"),
}
RELEASED: Mapping[str, Mapping[str, float]] = {
    "cifar10": {"legacy_seed": 2366, "xi": 0.0002},
    "covcls": {"legacy_seed": 1020, "xi": 0.0002},
    "mnist_1": {"legacy_seed": 10},
    "mnist_01": {"legacy_seed": 233},
}
SEARCH: Mapping[str, float] = {"min_size": 0.5, "burn_in": 500_000}
STATISTICS = {"min": "min rows", "max": "max", "mean": "mean", "std": "sd", "c_score": "C-score"}
MARK = "_released"
PUBLISHED = ("published_mean", "published_std", "published_unit", "margin", "margin_rule")
AVERAGE = "avg"
LATE = 6
SMALL = {"cnn": "CNN", "mlp": "MLP"}


def statistics_columns(params: PaperParams) -> tuple[Column, ...]:
    """Return a column for each statistic: of sizes in rows, and the C-score."""
    del params
    return tuple(
        Column(key, label, "partition", 2 if key == "c_score" else 0) for key, label in STATISTICS.items()
    )


def partition_rows(params: PaperParams) -> dict[str, str]:
    """Return a row for each partition, and with full data for the draws of the authors' code."""
    rows = {}
    for key, (label, setting) in PARTITIONS.items():
        dataset = params.datasets.get(SETTINGS[setting].dataset)
        if dataset is None:
            continue
        rows[key] = label
        if key in RELEASED and (dataset.data.model_extra or {}).get("edition") == "full":
            rows[key + MARK] = f"{label}, released seed"
    return rows


def partition_queries(params: PaperParams, row: str, column: str) -> tuple[Query, ...]:
    """Return 20 draws of a partition (fewer where few seeds are asked for), or the released code's one.

    Clients that the data name are not drawn, so there is one partition.
    """
    del column
    name = row.removesuffix(MARK)
    query = whole(SETTINGS[PARTITIONS[name][1]].query("fedavg"))
    if params.datasets[query.dataset].splits[query.split].name == "natural":
        return (replace(query, seeds=(0,)),)
    if row != name:
        changes = {f"partition.{key}": value for key, value in {**SEARCH, **RELEASED[name]}.items()}
        return (replace(query, changes=(*query.changes, *changes.items()), seeds=(0,)),)
    few = len(params.seeds) < ENOUGH
    return (replace(query, seeds=params.seeds if few else tuple(range(DRAWS))),)


def statistic(run: PlannedRun, root: Path, column: str) -> float | None:
    """Return a statistic of a partition: rows, or the C-score."""
    found = statistics_of(run, root)
    if found is None:
        return None
    return float(found["c_score"] if column == "c_score" else found["sizes"][column])


def data_of_row(row: str, column: str) -> str:
    """Return the data set of a partition in print."""
    del column
    return DATASETS[SETTINGS[PARTITIONS[row.removesuffix(MARK)][1]].dataset]


def beside_released(frame: pd.DataFrame) -> pd.DataFrame:
    """Put the published numbers beside the released code's draws too."""
    known = frame.set_index(["row", "column"])[list(PUBLISHED)]
    frame = frame.copy()
    for index, (row, column) in frame[["row", "column"]].iterrows():
        if row.endswith(MARK):
            frame.loc[index, known.columns] = known.loc[(row.removesuffix(MARK), column)].to_numpy()
    frame["difference"] = frame["mean"] - frame["published_mean"]
    return frame.assign(verdict="")


def score_columns(params: PaperParams) -> tuple[Column, ...]:
    """Return a column for each data set, and their average; a stand-in for MobileNetV2 is named."""
    settings = present(params)
    labels = {key: one.label for key, one in settings.items()}
    if stand_in := "cifar10" in labels and SMALL.get(params.datasets["cifar10"].model.name):
        labels["cifar10"] += f" ({stand_in})"
    return (
        *(Column(key, label, METRICS[settings[key].metric]) for key, label in labels.items()),
        Column(AVERAGE, "AVG", best="none", test="none"),
    )


def score_queries(params: PaperParams, row: str, column: str) -> tuple[Query, ...]:
    """Return all folds of a data set; of all data sets for the average."""
    settings = present(params)
    chosen = settings.values() if column == AVERAGE else (settings[column],)
    return tuple(fold for one in chosen for fold in folds(params, one.query(row)))


def score_of(run: PlannedRun, root: Path, column: str) -> float | None:
    """Return a run's score on test clients in per cent, by its own metric; None if it diverged."""
    final = final_of(run, root)
    return 100 * final[f"test_{metric_of(run)}"] if final else None


def late_score_of(run: PlannedRun, root: Path, column: str) -> float | None:
    """Return a run's mean score over the last sixth of its rounds, as ``score_of``; None if it diverged.

    Single rounds swing by as much as methods differ, so the last one carries its luck.
    """
    if score_of(run, root, column) is None:
        return None
    history = history_of(run, root)
    late = LATE * history["round"] > (LATE - 1) * history["round"].max()
    return 100 * float(history.loc[late, f"test_{metric_of(run)}"].mean())


def data_of_column(row: str, column: str) -> str:
    """Return the data set of a column in print; none for the average."""
    del row
    return "" if column == AVERAGE else DATASETS[SETTINGS[column].dataset]


def relative_to_fedavg(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn scores of all methods but FedAvg into per cent of change against FedAvg's, column by column.

    Folds differ by more than methods do, so a method counts on the folds and seeds that FedAvg ran as well,
    and its spread is that of its runs' changes against FedAvg's own there. The average is the mean of the
    columns' scores, then its change; it has no spread of its own and says nothing new about the data.
    """
    frame = shared_runs(frame)
    average = frame["column"] == AVERAGE
    for name in ("mean", "base"):
        scores = frame[~average].groupby("row", sort=False)[name].agg(lambda own: own.mean(skipna=False))
        frame.loc[average, name] = frame.loc[average, "row"].map(scores)
    frame.loc[average, "std"] = math.nan
    frame.loc[average, "data"] = ""
    others = frame["row"] != "fedavg"
    frame.loc[others, "mean"] = 100 * (frame["mean"] / frame["base"] - 1)
    frame["difference"] = frame["mean"] - frame["published_mean"]
    compared = zip(agreements(frame), frame["scale"], map(stands_in, frame["data_state"]), strict=True)
    frame["verdict"] = [verdict(*line) for line in compared]
    return frame.drop(columns="base")


def shared_runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the lines as far as FedAvg ran the same folds and seeds, with its mean there as ``base``.

    The deviations of all but FedAvg are those of the changes against it, run by run, in per cent.
    """
    frame = frame.copy()
    reference = frame[frame["row"] == "fedavg"].set_index("column")
    frame["base"] = frame["column"].map(reference["mean"])
    compared = (frame["column"] != AVERAGE) & (frame["row"] != "fedavg")
    for index, line in frame[compared].iterrows():
        texts = {"own": line["values"], "fedavg": reference.loc[line["column"], "values"]}
        runs = pd.DataFrame({name: pd.Series(parsed(text), dtype=float) for name, text in texts.items()})
        shared = runs.dropna()
        frame.loc[index, "std"] = (100 * (shared["own"] / shared["fedavg"] - 1)).std()
        if len(shared) < len(runs):
            frame.loc[index, "n"] = len(shared)
            frame.loc[index, ["mean", "base"]] = shared.mean().to_numpy()
    return frame


SCORES = Table(
    title="Scores on clients that do not train, FedAvg's in per cent, the others' relative to it",
    published="Table III",
    columns=score_columns,
    queries=score_queries,
    measure=score_of,
    relative=relative_to_fedavg,
    dataset=data_of_column,
    note="AUC: area under the ROC curve. Folds are by client. AVG: mean of the columns' scores. "
    "± of a relative number: over runs, each against FedAvg's with its fold and seed.",
    test="wilcoxon",
)
TABLES: Mapping[str, Table] = {
    "table1": Table(
        title="Partitions: rows of a client and class non-IID score",
        published="Table I",
        columns=statistics_columns,
        rows=partition_rows,
        queries=partition_queries,
        measure=statistic,
        relative=beside_released,
        dataset=data_of_row,
        needs="partitions",
        unit="rows; C-score from 0 to 2",
        best="none",
        when="",
        heading="Data set",
    ),
    "table3": SCORES,
    "table3_late": replace(
        SCORES,
        measure=late_score_of,
        beside="table3",
        when="each run's mean over the last sixth of its rounds",
    ),
}
