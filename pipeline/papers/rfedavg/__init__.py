"""Distribution-Regularized Federated Learning on Non-IID Data: rFedAvg and rFedAvg+."""

from __future__ import annotations

from pipeline.catalogue.targets import Paper
from pipeline.papers.rfedavg.figures import FIGURES
from pipeline.papers.rfedavg.tables import DATASETS, TABLES

PAPER = Paper(
    title="Distribution-Regularized Federated Learning on Non-IID Data",
    citation="Y. Wang, Y. Tong, Z. Zhou, R. Zhang, S. J. Pan, L. Fan, Q. Yang, ICDE 2023",
    datasets=DATASETS,
    targets={**TABLES, **FIGURES},
)
