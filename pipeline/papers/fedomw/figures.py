"""Fig. 1: accuracy curves of federated learning on satimage; Fig. 2 and Theorem 2 as drawings."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.papers.fedomw.mixture import MIXTURE
from pipeline.papers.fedomw.tables import FEDERATED
from pipeline.papers.fedomw.theorem2 import THEOREM2
from pipeline.targets import Curves, Drawing, Panel

FIGURES: Mapping[str, Curves | Drawing] = {
    "fig1": Curves(
        title="Test accuracy of federated learning on satimage",
        published="Fig. 1",
        panels=(Panel("satimage", "satimage", "fl", "satimage", "skewed"),),
        across=1,
        rows=tuple(FEDERATED),
    ),
    "fig2": MIXTURE,
    "theorem2": THEOREM2,
}
