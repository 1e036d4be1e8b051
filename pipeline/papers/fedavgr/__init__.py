"""Federated Learning for Non-IID Data: From Theory to Algorithm: FedAvgR."""

from __future__ import annotations

from pipeline.catalogue.targets import Paper
from pipeline.papers.fedavgr.figures import MMD
from pipeline.papers.fedavgr.risk import EXCESS_RISK
from pipeline.papers.fedavgr.search import SEARCHES
from pipeline.papers.fedavgr.tables import DATASETS, TABLES
from pipeline.reports import ranks

PAPER = Paper(
    title="Federated Learning for Non-IID Data: From Theory to Algorithm",
    citation="B. Wei, J. Li, Y. Liu, W. Wang, PRICAI 2021",
    datasets=DATASETS,
    targets={
        **TABLES,
        "table2_ranks": ranks.summary(TABLES["table2"]),
        "fig_mmd": MMD,
        "excess_risk": EXCESS_RISK,
        **SEARCHES,
    },
)
