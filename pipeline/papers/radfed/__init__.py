"""Aggregation Delayed Federated Learning: RADFed and RADFed+."""

from __future__ import annotations

from pipeline.catalogue.targets import Paper
from pipeline.papers.radfed.figures import FIGURES
from pipeline.papers.radfed.hyperparameters import HYPERPARAMETERS
from pipeline.papers.radfed.search import SEARCHES
from pipeline.papers.radfed.settings import DATASETS
from pipeline.papers.radfed.tables import AVERAGE, TABLES
from pipeline.reports import ranks

PAPER = Paper(
    title="Aggregation Delayed Federated Learning",
    citation="Y. Xue, D. Klabjan, Y. Luo",
    datasets=DATASETS,
    targets={
        **TABLES,
        "table3_ranks": ranks.summary(TABLES["table3"], without=(AVERAGE,)),
        "table2": HYPERPARAMETERS,
        **SEARCHES,
        **FIGURES,
    },
)
