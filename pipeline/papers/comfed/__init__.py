"""Federated Learning for Non-IID Data via Client Variance Reduction and Adaptive Server Update: ComFed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Column, Paper
from pipeline.papers.comfed.calibration import TARGETS as CALIBRATION
from pipeline.papers.comfed.checkpoints import DATASETS, TARGETS
from pipeline.papers.comfed.taxonomy import table
from pipeline.reports.listings import Entry, Listing

TITLES = {
    1: "What each algorithm changes in FedAvg's four choices",
    2: "Techniques that reduce the variance between clients",
    3: "Client sides by server optimizers",
}
NOTES = {
    1: "Derived from the recipes; a dash means the same as FedAvg.",
    2: "Printed from the recipes.",
    3: "Derived from the recipes, each found by its parts and not by its name.",
}
NUMERALS = {1: "I", 2: "II", 3: "III"}


def columns(number: int, params: PaperParams) -> tuple[Column, ...]:
    """Return the columns of one of the three tables."""
    del params
    return tuple(Column(key(head), head) for head in table(number).head[1:])


def entries(number: int, params: PaperParams) -> tuple[Entry, ...]:
    """Return the lines of one of the three tables."""
    del params
    return tuple(Entry(key(row[0]), row[0], row[1:]) for row in table(number).rows)


def key(label: str) -> str:
    """Return a label as files spell it."""
    return label.lower().replace(" ", "_").replace("-", "_")


def listing(number: int) -> Listing:
    """Declare one of the three tables."""
    heading = {1: "Algorithm", 2: "Technique", 3: "Client side"}[number]
    return Listing(
        title=TITLES[number],
        published=f"Table {NUMERALS[number]}",
        columns=partial(columns, number),
        entries=partial(entries, number),
        heading=heading,
        note=NOTES[number],
        scaled=False,
    )


TABLES: Mapping[str, Listing] = {f"table{number}": listing(number) for number in TITLES}

PAPER = Paper(
    title="Federated Learning for Non-IID Data via Client Variance Reduction and Adaptive Server Update",
    citation="H. Nguyen, L. Phan, H. Warrier, Y. Gupta, 2022",
    datasets=DATASETS,
    targets={**TABLES, **TARGETS, **CALIBRATION},
)
