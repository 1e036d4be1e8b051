"""Tables 2 to 5: test accuracy on six data sets, and ablations; some also in the authors' code's reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Column, Query
from pipeline.reports import datasets
from pipeline.reports.tables import Table

Variant = Literal["paper", "released"]
SPLITS: Mapping[Variant, str] = {"paper": "skewed", "released": "released"}
DATASETS = {name: name for name in ("usps", "pendigits", "satimage", "letter", "dna", "mnist")}
DISTRIBUTED = {"dl_u": "DL-u", "dl_opt": "DL-opt"}
FEDERATED = {"fedavg": "FedAvg", "fedprox": "FedProx", "fedomw": "FedOMW"}


def ablations(name: str, label: str) -> dict[str, str]:
    """Return the rows of an ablation: neither part, only the norm of w, only learned p, both."""
    return {f"{name}_{part}": f"{label}-{part}" for part in ("non", "w", "p")} | {name: label}


def columns(params: PaperParams) -> tuple[Column, ...]:
    """Return a column for each data set, in the paper's order."""
    return tuple(Column(name, label) for name, label in DATASETS.items() if name in params.datasets)


def asked(variant: Variant | None, regime: str, dataset: str, algorithm: str) -> Query:
    """Return a setting's runs; ``variant`` takes the place of the paper's, and has its own split."""
    changes = () if variant is None else (("variant", variant),)
    return Query(regime, dataset, SPLITS[variant or "paper"], algorithm, changes)


def accuracy(
    published: str, title: str, regime: str, rows: Mapping[str, str], variant: Variant | None = None
) -> Table:
    """Return a table of accuracies, in the paper's reading unless a variant is given."""

    def labels(params: PaperParams) -> Mapping[str, str]:
        return rows

    def query(algorithm: str, column: str) -> Query:
        return asked(variant, regime, column, algorithm)

    beside = published.lower().replace(" ", "") if variant else ""
    return Table(title=title, published=published, columns=columns, query=query, rows=labels, beside=beside)


DL, FL = "Test accuracy of distributed learning", "Test accuracy of federated learning"
ABLATION = "Ablation of"
RELEASED = ", as the authors' code reads it"
DL_PARTS, FL_PARTS = ablations("dl_opt", "DL-opt"), ablations("fedomw", "FedOMW")
TABLES: Mapping[str, Table] = {
    "table1": datasets.table(
        "Table 1",
        ("training_size", "testing_size", "dimensions", "classes"),
        {name: Query("dl", name, "skewed", "dl_u", seeds=(0,)) for name in DATASETS},
        DATASETS,
    ),
    "table2": accuracy("Table 2", DL, "dl", DISTRIBUTED),
    "table3": accuracy("Table 3", FL, "fl", FEDERATED),
    "table4": accuracy("Table 4", f"{ABLATION} DL-opt", "dl", DL_PARTS),
    "table5": accuracy("Table 5", f"{ABLATION} FedOMW", "fl", FL_PARTS),
    "table2_released": accuracy("Table 2", f"{DL}{RELEASED}", "dl", DISTRIBUTED, "released"),
    "table3_released": accuracy("Table 3", f"{FL}{RELEASED}", "fl", FEDERATED, "released"),
    "table4_released": accuracy("Table 4", f"{ABLATION} DL-opt{RELEASED}", "dl", DL_PARTS, "released"),
    "table5_released": accuracy("Table 5", f"{ABLATION} FedOMW{RELEASED}", "fl", FL_PARTS, "released"),
}
