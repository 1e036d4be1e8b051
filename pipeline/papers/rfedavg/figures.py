"""Fig. 2: accuracy curves on MNIST."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.targets import Curves, Panel

REGIMES = {"cross_device": "cross-device", "cross_silo": "cross-silo"}
SPLITS = {"sim0": "similarity 0%", "sim10": "similarity 10%"}


def panels(dataset: str) -> tuple[Panel, ...]:
    """Return the four panels that the paper shows for a data set split by similarity."""
    return tuple(
        Panel(f"{regime}-{split}", f"{label}, {heterogeneity}", regime, dataset, split)
        for split, heterogeneity in SPLITS.items()
        for regime, label in REGIMES.items()
    )


FIGURES: Mapping[str, Curves] = {
    "fig2": Curves(title="Test accuracy on MNIST", published="Fig. 2", panels=panels("mnist")),
}
