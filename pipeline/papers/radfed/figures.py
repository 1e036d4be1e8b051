"""Algorithm 3 at work: one partition as the quadratic program leaves it, and after the random moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedcore.errors import DataError
from fedcore.lazy import Figure, matplotlib, pd
from pipeline.papers.radfed.divergence import DIVERGENCES
from pipeline.papers.radfed.heterogeneity import HETEROGENEITY
from pipeline.papers.radfed.seeds import SEEDS
from pipeline.papers.radfed.settings import SETTINGS, whole
from pipeline.papers.radfed.validation import CURVES
from pipeline.report.build_drawing import Drawing, Found
from pipeline.report.collect import statistics_of
from pipeline.report.plots import SETTINGS as STYLE
from pipeline.report.plots import wrapped
from pipeline.schema import PaperParams
from pipeline.targets import Query, Target

EXAMPLE = "mnist_01"
STAGES = {"before": "optimum of eq. (1)", "after": "after Algorithm 3"}
STILL = (("partition.burn_in", 0), ("partition.steps", 0))


def partition_queries(params: PaperParams) -> Mapping[tuple[str, str], Query]:
    """Return the same draw of sizes and targets without and with random moves."""
    after = replace(whole(SETTINGS[EXAMPLE].query("fedavg")), seeds=params.seeds[:1])
    before = replace(after, changes=(*after.changes, *STILL))
    return {("before", EXAMPLE): before, ("after", EXAMPLE): after}


def draw_partition(found: Found) -> tuple[pd.DataFrame, Figure]:
    """Draw the class ratios of all clients, largest client first, before and after, and what changed.

    Raises:
        DataError: a partition's statistics are missing, or don't list labels.
    """
    ratios, scores, frames = {}, {}, []
    for (stage, _), (run, *_) in found.cells.items():
        statistics = statistics_of(run, found.root)
        if statistics is None or not statistics.get("label_counts"):
            raise DataError(f"{run.partition}/stats.json: expected 'label_counts'; build the partition again")
        counts = np.array(statistics["label_counts"])
        counts = counts[np.argsort(-counts.sum(axis=1), kind="stable")]
        ratios[stage] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        scores[stage] = statistics["c_score"]
        clients, classes = np.indices(counts.shape).reshape(2, -1)
        cells = {"stage": stage, "client": clients, "class": classes, "rows": counts.ravel()}
        frames.append(pd.DataFrame(cells))
    with matplotlib.rc_context(STYLE):
        figure = matplotlib.figure.Figure(figsize=(6.7, 4.6), layout="constrained")
        axes = figure.subplots(3, 1, sharex=True)
        for place, (stage, label) in zip(axes, STAGES.items(), strict=False):
            image = place.imshow(ratios[stage].T, aspect="auto", cmap="cividis", vmin=0, vmax=1)
            place.set_title(f"{label}: C-score {scores[stage]:.3f}", loc="left")
        change = ratios["after"] - ratios["before"]
        bound = max(float(np.abs(change).max()), 1e-3)
        moved = axes[-1].imshow(change.T, aspect="auto", cmap="PuOr", vmin=-bound, vmax=bound)
        axes[-1].set_title("difference", loc="left")
        axes[-1].set_xlabel("client, largest first")
        for place in axes:
            place.set_ylabel("class")
            place.set_yticks(range(0, change.shape[1], 3))
        figure.colorbar(image, ax=axes[:2], label="share of the client's rows")
        figure.colorbar(moved, ax=axes[2:], label="change")
        said = found.caption("Same sizes and same targets in both.")
        figure.supxlabel(wrapped(said), fontsize=6, color="0.35")
    return pd.concat(frames, ignore_index=True), figure


FIGURES: Mapping[str, Target] = {
    "fig2": SEEDS,
    **CURVES,
    "fig5": HETEROGENEITY,
    **DIVERGENCES,
    "partition": Drawing(
        title="A partition of MNIST (lambda .1) before and after random moves",
        published="Algorithm 3",
        queries=partition_queries,
        draw=draw_partition,
        needs="partitions",
    ),
}
