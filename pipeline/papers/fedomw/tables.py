"""Tables 2 to 5: test accuracy on six data sets, and ablations; some also in the authors' code's reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pipeline.catalogue.targets import Column, Query
from pipeline.reports.tables import Table, of_datasets

Variant = Literal["paper", "released"]
SPLITS: Mapping[Variant, str] = {"paper": "skewed", "released": "released"}
DATASETS = {name: name for name in ("usps", "pendigits", "satimage", "letter", "dna", "mnist")}
DISTRIBUTED = {"dl_u": "DL-u", "dl_opt": "DL-opt"}
FEDERATED = {"fedavg": "FedAvg", "fedprox": "FedProx", "fedomw": "FedOMW"}


def ablations(name: str, label: str) -> dict[str, str]:
    """Return the rows of an ablation: neither part, only the norm of w, only learned p, both."""
    return {f"{name}_{part}": f"{label}-{part}" for part in ("non", "w", "p")} | {name: label}


def query(variant: Variant | None, regime: str, dataset: str, algorithm: str) -> Query:
    """Return a setting's runs; ``variant`` takes the place of the paper's, and has its own split."""
    changes = () if variant is None else (("variant", variant),)
    return Query(regime, dataset, SPLITS[variant or "paper"], algorithm, changes)


def accuracy(number: int, variant: Variant | None, title: str, regime: str, rows: Mapping[str, str]) -> Table:
    """Return a table of accuracies, in the paper's reading unless a variant is given."""
    return Table(
        title=f"{title}{RELEASED if variant else ''}",
        published=f"Table {number}",
        columns=lambda params: tuple(
            Column(name, label) for name, label in DATASETS.items() if name in params.datasets
        ),
        query=lambda algorithm, column: query(variant, regime, column, algorithm),
        rows=lambda params: rows,
        beside=f"table{number}" if variant else "",
    )


RELEASED = ", as the authors' code reads it"
READINGS: Mapping[str, Variant | None] = {"": None, "_released": "released"}
ACCURACIES = {
    2: ("Test accuracy of distributed learning", "dl", DISTRIBUTED),
    3: ("Test accuracy of federated learning", "fl", FEDERATED),
    4: ("Ablation of DL-opt", "dl", ablations("dl_opt", "DL-opt")),
    5: ("Ablation of FedOMW", "fl", ablations("fedomw", "FedOMW")),
}
TABLES: Mapping[str, Table] = {
    "table1": of_datasets(
        "Table 1",
        ("training_size", "testing_size", "dimensions", "classes"),
        DATASETS,
        *("dl", "skewed", "dl_u"),
    ),
    **{
        f"table{number}{ending}": accuracy(number, variant, *about)
        for ending, variant in READINGS.items()
        for number, about in ACCURACIES.items()
    },
}
