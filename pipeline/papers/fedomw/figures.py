"""Fig. 1: accuracy curves of federated learning on satimage."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.papers.fedomw.tables import FEDERATED
from pipeline.targets import Curves, Panel

FIGURES: Mapping[str, Curves] = {
    "fig1": Curves(
        title="Test accuracy of federated learning on satimage",
        published="Fig. 1",
        panels=(Panel("satimage", "satimage", "fl", "satimage", "skewed"),),
        across=1,
        rows=tuple(FEDERATED),
    )
}
