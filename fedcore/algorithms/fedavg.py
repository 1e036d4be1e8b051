"""Federated averaging."""

from __future__ import annotations

from fedcore.parts import Recipe
from fedcore.recipes import AlgorithmOptions, recipe
from fedcore.registry import Plugin
from fedcore.spec import Spec


class FedAvgOptions(AlgorithmOptions):
    """FedAvg has no hyperparameters of its own."""


def build(options: FedAvgOptions, spec: Spec) -> Recipe:
    """w <- sum_k p_k w_k over the cohort."""
    return recipe()


PLUGIN = Plugin(
    "fedavg",
    FedAvgOptions,
    build,
    "weighted averaging of local models",
    "McMahan et al.; rFedAvg, Section IV-A",
)
