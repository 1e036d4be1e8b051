"""All rows as training rows: what a split by client starts from."""

from __future__ import annotations

import numpy as np

from fedcore.data import Rows


def pooled(train: Rows, test: Rows) -> Rows:
    """Return all rows, training rows first: what a split by client starts from (RADFed, IV-C)."""
    groups = None
    if train.groups is not None and test.groups is not None:
        groups = np.concatenate([train.groups, test.groups])
    return Rows(np.concatenate([train.x, test.x]), np.concatenate([train.y, test.y]), groups)
