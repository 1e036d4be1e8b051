"""Aggregation Delayed Federated Learning: RADFed and RADFed+."""

from pipeline.catalogue.targets import Paper
from pipeline.papers.radfed.figures import CURVES, DISTANCES, centralised, heterogeneity, local, seeds
from pipeline.papers.radfed.settings import DATASETS
from pipeline.papers.radfed.tables import AVERAGE, SEARCHES, TABLE2, TABLES, example
from pipeline.reports import ranks

PAPER = Paper(
    title="Aggregation Delayed Federated Learning",
    citation="Y. Xue, D. Klabjan, Y. Luo",
    datasets=DATASETS,
    targets={
        **TABLES,
        "table3_ranks": ranks.summary(TABLES["table3"], without=(AVERAGE,)),
        "table2": TABLE2,
        **SEARCHES,
        "fig2": seeds,
        **CURVES,
        "fig5": heterogeneity,
        "fig6": centralised,
        "fig7": local,
        "distances": DISTANCES,
        "partition": example,
    },
)
