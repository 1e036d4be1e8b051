"""Federated Learning for Non-IID Data via Client Variance Reduction and Adaptive Server Update: ComFed."""

from __future__ import annotations

from pipeline.catalogue.targets import Column, Paper
from pipeline.papers.comfed.calibration import TARGETS as CALIBRATION
from pipeline.papers.comfed.checkpoints import DATASETS, TARGETS
from pipeline.papers.comfed.taxonomy import table
from pipeline.reports.listings import Entry, Listing


def listing(number: int, published: str, heading: str, title: str, note: str) -> Listing:
    """Declare one of the three tables of the taxonomy."""
    return Listing(
        title=title,
        published=published,
        columns=lambda params: tuple(Column(_key(head), head) for head in table(number).head[1:]),
        entries=lambda params: tuple(Entry(_key(row[0]), row[0], row[1:]) for row in table(number).rows),
        heading=heading,
        note=note,
        scaled=False,
    )


def _key(label: str) -> str:
    """Return a label as files spell it."""
    return label.lower().replace(" ", "_").replace("-", "_")


TABLES = {
    "table1": listing(
        1,
        "Table I",
        "Algorithm",
        "What each algorithm changes in FedAvg's four choices",
        "Derived from the recipes; a dash means the same as FedAvg.",
    ),
    "table2": listing(
        2,
        "Table II",
        "Technique",
        "Techniques that reduce the variance between clients",
        "Printed from the recipes.",
    ),
    "table3": listing(
        3,
        "Table III",
        "Client side",
        "Client sides by server optimizers",
        "Derived from the recipes, each found by its parts and not by its name.",
    ),
}

PAPER = Paper(
    title="Federated Learning for Non-IID Data via Client Variance Reduction and Adaptive Server Update",
    citation="H. Nguyen, L. Phan, H. Warrier, Y. Gupta, 2022",
    datasets=DATASETS,
    targets={**TABLES, **TARGETS, **CALIBRATION},
)
