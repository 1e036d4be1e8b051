"""Non-IID Distributed Learning with Optimal Mixture Weights: DL-opt and FedOMW."""

from __future__ import annotations

from pipeline.catalogue.targets import Paper
from pipeline.papers.fedomw.figures import FIGURES
from pipeline.papers.fedomw.tables import DATASETS, TABLES
from pipeline.reports import ranks

PAPER = Paper(
    title="Non-IID Distributed Learning with Optimal Mixture Weights",
    citation="J. Li, B. Wei, Y. Liu, W. Wang, ECML PKDD 2022",
    datasets=DATASETS,
    targets={**TABLES, "table3_ranks": ranks.summary(TABLES["table3"]), **FIGURES},
)
