"""Non-IID Distributed Learning with Optimal Mixture Weights: DL-opt and FedOMW."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Paper, Query
from pipeline.papers.fedomw.mixture import MIXTURE
from pipeline.papers.fedomw.tables import DATASETS, FEDERATED, RELEASED, SPLITS, TABLES, Variant, asked
from pipeline.papers.fedomw.theorem2 import THEOREM2
from pipeline.reports import ranks
from pipeline.reports.curves import Curves, Panel
from pipeline.reports.drawings import Drawing


def _curves(variant: Variant | None = None) -> Curves:
    def queries(params: PaperParams, panel: Panel, algorithm: str) -> tuple[Query, ...]:
        return (asked(variant, panel.regime, panel.dataset, algorithm),)

    return Curves(
        title=f"Test accuracy of federated learning on satimage{RELEASED if variant else ''}",
        published="Fig. 1",
        panels=(Panel("satimage", "satimage", "fl", "satimage", SPLITS[variant or "paper"]),),
        across=1,
        rows=tuple(FEDERATED),
        queries=queries,
    )


FIGURES: Mapping[str, Curves | Drawing] = {
    "fig1": _curves(),
    "fig1_released": _curves("released"),
    **MIXTURE,
    "theorem2": THEOREM2,
}

PAPER = Paper(
    title="Non-IID Distributed Learning with Optimal Mixture Weights",
    citation="J. Li, B. Wei, Y. Liu, W. Wang, ECML PKDD 2022",
    datasets=DATASETS,
    targets={**TABLES, "table3_ranks": ranks.summary(TABLES["table3"]), **FIGURES},
)
