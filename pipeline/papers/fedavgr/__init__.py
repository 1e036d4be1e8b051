"""Federated Learning for Non-IID Data: From Theory to Algorithm: FedAvgR."""

from __future__ import annotations

from pipeline.papers.fedavgr.figures import MMD
from pipeline.papers.fedavgr.tables import DATASETS, TABLES
from pipeline.targets import Paper

PAPER = Paper(
    title="Federated Learning for Non-IID Data: From Theory to Algorithm",
    citation="B. Wei, J. Li, Y. Liu, W. Wang, PRICAI 2021",
    datasets=DATASETS,
    targets={**TABLES, "fig_mmd": MMD},
)
