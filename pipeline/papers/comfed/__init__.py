"""Federated Learning for Non-IID Data via Client Variance Reduction and Adaptive Server Update: ComFed."""

from __future__ import annotations

from pipeline.catalogue.targets import Paper
from pipeline.papers.comfed.calibration import TARGETS as CALIBRATION
from pipeline.papers.comfed.checkpoints import DATASETS, TARGETS
from pipeline.papers.comfed.taxonomies import TABLES

PAPER = Paper(
    title="Federated Learning for Non-IID Data via Client Variance Reduction and Adaptive Server Update",
    citation="H. Nguyen, L. Phan, H. Warrier, Y. Gupta, 2022",
    datasets=DATASETS,
    targets={**TABLES, **TARGETS, **CALIBRATION},
)
