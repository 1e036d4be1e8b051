"""The data sets of the paper's tables by the names they have there, what is measured on them, their folds."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.specification import specification
from pipeline.catalogue.targets import Cell, PlannedRun, Query

DATASETS = {
    "cifar10": "CIFAR-10",
    "shakespeare": "Shakespeare",
    "covertype_g": "Covertype, standardised globally",
    "covertype_l": "Covertype, standardised locally",
    "mnist": "MNIST",
    "eicu": "eICU",
}


Metric = Literal["accuracy", "f1", "auc"]
METRICS: dict[Metric, str] = {"accuracy": "accuracy", "f1": "F1", "auc": "AUC"}


@dataclass(frozen=True)
class Setting:
    """One of the nine data sets: a data set of the parameters, a split, and what the paper measures there."""

    label: str
    dataset: str
    split: str
    metric: Metric = "accuracy"

    def query(self, algorithm: str, changes: Iterable[tuple[str, Any]] = ()) -> Query:
        """Return the setting's query: its metric, on test and validation clients, and no training loss."""
        metrics = () if self.metric == "accuracy" else (("evaluation.metrics", (self.metric,)),)
        measuring = (*metrics, ("evaluation.validation", True), ("evaluation.train_every", 0))
        return Query("tenth", self.dataset, self.split, algorithm, (*measuring, *changes))


SETTINGS = {
    "cifar10": Setting("CIFAR-10", "cifar10", "cifar_01"),
    "shakespeare": Setting("Shakespeare", "shakespeare", "roles"),
    "covfeat_g": Setting("COVFEAT-G", "covertype_g", "covfeat", "f1"),
    "covfeat_l": Setting("COVFEAT-L", "covertype_l", "covfeat", "f1"),
    "covcls_g": Setting("COVCLS-G", "covertype_g", "covcls", "f1"),
    "covcls_l": Setting("COVCLS-L", "covertype_l", "covcls", "f1"),
    "mnist_1": Setting("MNIST-1", "mnist", "mnist_1"),
    "mnist_01": Setting("MNIST-.1", "mnist", "mnist_01"),
    "eicu": Setting("eICU", "eicu", "hospitals", "auc"),
}


def present(params: PaperParams) -> dict[str, Setting]:
    """Return the settings whose data set is in the parameters."""
    return {key: setting for key, setting in SETTINGS.items() if setting.dataset in params.datasets}


def folds(params: PaperParams, query: Query) -> tuple[Query, ...]:
    """Return the query for each fold of its split: all of them, or the one whose index is set."""
    fold = (params.datasets[query.dataset].splits[query.split].model_extra or {})["fold"]
    indices = [fold["index"]] if "index" in fold else range(fold["of"])
    one_fold = ((*query.changes, ("partition.fold.index", index)) for index in indices)
    return tuple(as_often(params, replace(query, changes=changes)) for changes in one_fold)


def every_fold(params: PaperParams, settings: Iterable[str]) -> dict[Cell, tuple[Query, ...]]:
    """Return all folds of each method and setting."""
    return {(row, at): folds(params, SETTINGS[at].query(row)) for at in settings for row in params.algorithms}


def as_often(params: PaperParams, query: Query) -> Query:
    """Let FedAsync, whose round is one client's update, be measured as often as the others are."""
    if query.algorithm != "fedasync":
        return query
    others = rounds(params, replace(query, algorithm="fedavg", changes=()))
    interval = max(1, rounds(params, query) // others)
    return replace(query, changes=(*query.changes, ("evaluation.every", interval)))


@cache
def rounds(params: PaperParams, query: Query) -> int:
    """Return the rounds of a query's runs."""
    return int(specification(params, query)["training"]["rounds"])


def metric_of(run: PlannedRun) -> str:
    """Return the metric that a run was asked for, as in the names of its measurements."""
    return str(next(iter(run.spec["evaluation"]["metrics"]), "accuracy"))
