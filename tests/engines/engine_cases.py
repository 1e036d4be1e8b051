"""Algorithms, models and short runs that engines are compared on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedcore.base.errors import SpecError
from fedcore.base.options import keys_of
from fedcore.base.registry import find, plugins
from fedcore.spec import parse

ALGORITHMS = sorted(plugins("algorithm"))
MODELS: dict[str, dict[str, Any]] = {
    "linear": {"name": "linear"},
    "rff": {"name": "rff_linear", "features": 20, "sigma": 1.0},
    "learnable rff": {"name": "rff_linear", "features": 20, "sigma": 1.0, "learnable": True},
    "relu": {"name": "mlp", "hidden": [16, 12], "activation": "relu"},
    "tanh": {"name": "mlp", "hidden": [6], "activation": "tanh"},
    "cnn": {"name": "cnn", "channels": [3, 4], "hidden": 6},
}


def specification(folder: Path, algorithm: str, model: str, **others: Any) -> dict[str, Any]:
    """A run of an algorithm with its defaults, but few inner rounds; one round where it allows no more."""
    few = {"redistributions": 3} if "redistributions" in keys_of(find("algorithm", algorithm).options) else {}
    spec = {
        "data": {"name": "npz", "path": str(folder)},
        "model": MODELS[model],
        "algorithm": {"name": algorithm, **few},
        "participation": {"fraction": 0.75},
        "training": {"rounds": 20, "local_epochs": 1, "batch_size": 7, "lr": 0.05},
        "evaluation": {"every": 20, "train_every": 0},
        "dtype": "float64",
        **others,
    }
    try:
        parse(spec)
    except SpecError:
        spec["training"] = {**spec["training"], "rounds": 1}
    return spec
