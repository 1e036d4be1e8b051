"""What several tests share: a small real federated data set and specifications on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
ORACLE_DATA = Path(__file__).parent / "oracle" / "data"


@pytest.fixture(scope="session")
def digits() -> Path:
    """Five clients of 8x8 digits, sorted by label, with test and validation rows."""
    return ORACLE_DATA


@pytest.fixture
def spec(digits: Path) -> dict[str, Any]:
    """A specification that runs in a fraction of a second, with mini-batches and sampling."""
    return {
        "data": {"name": "npz", "path": str(digits)},
        "partition": {"name": "given"},
        "model": {"name": "mlp", "hidden": [16]},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 6, "local_epochs": 2, "batch_size": 16, "lr": 0.1},
        "participation": {"fraction": 0.6},
        "seed": 3,
    }
