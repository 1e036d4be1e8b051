"""Table II: redistributions S and score decay gamma, as the runs have them."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.specification import specification
from pipeline.catalogue.targets import Column
from pipeline.papers.radfed.settings import SETTINGS
from pipeline.reports.listings import Entry, Listing

ROWS: Mapping[str, tuple[str, str]] = {
    "covcls": ("COVCLS", "covcls_g"),
    "covfeat": ("COVFEAT", "covfeat_g"),
    "mnist_1": ("MNIST-1", "mnist_1"),
    "mnist_01": ("MNIST-.1", "mnist_01"),
    "cifar10": ("CIFAR-10", "cifar10"),
    "shakespeare": ("Shakespeare", "shakespeare"),
    "eicu": ("eICU", "eicu"),
}
COLUMNS = (
    Column("radfed-redistributions", "S", "RADFed"),
    Column("radfed_i-redistributions", "S", "RADFedi"),
    Column("radfed_i-gamma", "gamma", "RADFedi"),
)


def columns(params: PaperParams) -> tuple[Column, ...]:
    """Return a column for each hyperparameter of a method."""
    del params
    return COLUMNS


def entries(params: PaperParams) -> tuple[Entry, ...]:
    """Return a line for each data set that is in the parameters."""
    lines = []
    for key, (label, name) in ROWS.items():
        setting = SETTINGS[name]
        if setting.dataset not in params.datasets:
            continue
        words = []
        for column in COLUMNS:
            method, option = column.key.split("-")
            words.append(f"{specification(params, setting.query(method))['algorithm'][option]:g}")
        lines.append(Entry(key, label, tuple(words)))
    return tuple(lines)


HYPERPARAMETERS = Listing(
    title="Hyperparameters that the runs use: redistributions S between two aggregations, score decay gamma",
    published="Table II",
    columns=columns,
    entries=entries,
    heading="Data set",
    note="As declared in the parameters at this scale; they are the paper's at paper scale.",
)
