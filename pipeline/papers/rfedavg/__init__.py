"""Distribution-Regularized Federated Learning on Non-IID Data: rFedAvg and rFedAvg+."""

from collections.abc import Mapping
from typing import Any

from pipeline.catalogue.targets import Paper
from pipeline.papers.rfedavg.efficiency import efficiency
from pipeline.papers.rfedavg.features import visualised
from pipeline.papers.rfedavg.figures import fairness, privacy, study
from pipeline.papers.rfedavg.tables import CODE, DATASETS, EPOCHS, METHODS, SIMILARITY, TABLES
from pipeline.papers.rfedavg.theory import theory
from pipeline.reports.captions import stopped
from pipeline.reports.drawings import Curves, Drawing, each

REGIMES = {"cross_device": "cross-device", "cross_silo": "cross-silo"}
USERS = {"noniid": "non-IID", "iid": "IID"}
COSTS = {"low": "low cost", "high": "high cost"}
WRITERS = {"clients100": "100 clients", "clients500": "500 clients"}
LOSS = {"metric": "train_loss", "factor": 1.0, "axis": "training loss"}
Panels = Mapping[str, tuple[str, tuple[str, str, str]]]  # the label and the setting of each, by name
FEMNIST = {
    f"{cost}-{split}": (f"{clients}, {label}", (f"{cost}_cost", "femnist", split))
    for split, clients in WRITERS.items()
    for cost, label in COSTS.items()
}


def panels(dataset: str, splits: Mapping[str, str]) -> Panels:
    """Return a panel for each split and regime of a data set."""
    return {
        f"{regime}-{split}": (f"{label}, {heterogeneity}", (regime, dataset, split))
        for split, heterogeneity in splits.items()
        for regime, label in REGIMES.items()
    }


def curves(number: int, title: str, axes: Panels, **more: Any) -> Curves:
    """Return a figure of curves, of test accuracies unless said otherwise."""
    labels = {key: label for key, (label, _) in axes.items()}
    queries = each((), {key: setting for key, (_, setting) in axes.items()})
    return Curves(title=title, published=f"Fig. {number}", panels=labels, queries=queries, **more)


def released(number: int, name: str, regime: str, dataset: str, printed: int) -> Curves:
    """Return a figure's panel of similarity 0%, cross-silo, as the authors' code reads it."""
    panel = "cross_silo-sim0"
    return Curves(
        title=f"Test accuracy on {name}, as the authors' code reads it",
        published=f"Fig. {number}",
        panels={panel: "cross-silo, similarity 0%"},
        across=1,
        rows=lambda params: {"fedavg": "", **METHODS},
        queries=each(("fedavg", *METHODS), {panel: (regime, dataset, "sim0")}, *CODE),
        note=stopped(printed),
    )


MNIST = panels("mnist", SIMILARITY)
CIFAR10 = panels("cifar10", SIMILARITY)
SENT140 = dict(sorted(panels("sent140", USERS).items(), key=lambda panel: panel[0].split("-")[0]))


FIGURES: Mapping[str, Curves | Drawing] = {
    "fig1": visualised,
    "fig2": curves(2, "Test accuracy on MNIST", MNIST),
    "fig2_released": released(2, "MNIST", EPOCHS, "mnist", 60),
    "fig2_similar": curves(
        2,
        "Test accuracy on MNIST, of similar clients (the paper leaves out similarity 100%)",
        panels("mnist", {"sim10": SIMILARITY["sim10"], "sim100": "similarity 100%"}),
    ),
    "fig3": curves(3, "Training loss on MNIST, without regularisers", MNIST, **LOSS),
    "fig4": curves(4, "Test accuracy on CIFAR-10", CIFAR10),
    "fig4_released": released(4, "CIFAR-10", f"{EPOCHS}_start", "cifar10", 200),
    "fig5": curves(5, "Training loss on CIFAR-10, without regularisers", CIFAR10, **LOSS),
    "fig6": curves(6, "Test accuracy on Sent140", SENT140),
    "fig7": curves(7, "Training loss on Sent140, without regularisers", SENT140, **LOSS),
    "fig8": curves(8, "Test accuracy on FEMNIST", FEMNIST),
    "fig9": study,
    "fig10": efficiency,
    "fig11": fairness,
    "fig12": privacy,
    "theory": theory,
}

PAPER = Paper(
    title="Distribution-Regularized Federated Learning on Non-IID Data",
    citation="Y. Wang, Y. Tong, Z. Zhou, R. Zhang, S. J. Pan, L. Fan, Q. Yang, ICDE 2023",
    datasets=DATASETS,
    targets={**TABLES, **FIGURES},
)
