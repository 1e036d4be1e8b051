from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

SIZES = (23, 9, 16, 4)


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four clients of unequal size with images of 2x8x8 and three classes."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "clients").mkdir()
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(3, 2, 8, 8))

    def rows(n: int) -> dict[str, Any]:
        y = rng.integers(0, 3, n)
        return {"x": (centres[y] + rng.normal(size=(n, 2, 8, 8))).astype(np.float32), "y": y}

    for client, size in enumerate(SIZES):
        np.savez(folder / "clients" / f"{client}.npz", **rows(size))
    for name in ("test", "validation"):
        np.savez(folder / f"{name}.npz", **rows(30))
    return folder
