"""A picture of a partition: labels and number of rows of each client."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.files import atomic
from fedcore.base.lazy import Axes, Figure, matplotlib

BUBBLES = 40
NAMED_CLASSES = 20
LOG_FROM = 100
RASTER = 400
SIZES = "#4c6a92"


def draw(counts: NDArray[np.int64], title: str, subtitle: str) -> Figure:
    """Draw labels above and sizes below, clients from left to right.

    Labels are bubbles (area: rows) for up to 40 clients and 40 classes, else stacked label shares.
    Sizes are on a logarithmic axis where the largest is 100 times the smallest or more. ``counts`` are the
    rows of each class on each client, [clients, classes].
    """
    figure = matplotlib.figure.Figure(figsize=(9, 5.4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    labels(upper, counts)
    sizes = counts.sum(axis=1)
    if len(sizes) <= BUBBLES:
        lower.bar(np.arange(len(sizes)), sizes, width=0.9, color=SIZES)
    else:
        lower.stairs(sizes, np.arange(len(sizes) + 1) - 0.5, fill=True, color=SIZES)
    held = sizes[sizes > 0]
    if len(held) and held.max() >= LOG_FROM * held.min():
        lower.set_yscale("log")
    lower.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    lower.set(xlabel="client", ylabel="rows", xlim=(-0.7, len(sizes) - 0.3))
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, parse_math=False)
    upper.set_title(subtitle, loc="left", fontsize=9, color="#444444", parse_math=False)
    return figure


def labels(axes: Axes, counts: NDArray[np.int64]) -> None:
    """Draw which labels each client holds, clients from left to right; see ``draw``."""
    if max(counts.shape) <= BUBBLES:
        _bubbles(axes, counts)
    else:
        _stacked(axes, counts)


def write(figure: Figure, stem: Path) -> None:
    """Write ``stem``.png and ``stem``.svg; equal figures give equal bytes."""
    with matplotlib.rc_context({"svg.hashsalt": stem.name}):
        for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
            with atomic(stem.with_suffix(suffix)) as handle:
                figure.savefig(handle, format=suffix[1:], dpi=150, metadata=metadata)


def _bubbles(axes: Axes, counts: NDArray[np.int64]) -> None:
    clients, classes = np.nonzero(counts)
    held = counts[clients, classes]
    areas = 420.0 * held / max(counts.max(), 1) * min(1.0, 12 / max(counts.shape[1], 1))
    axes.scatter(clients, classes, s=areas, c=_colours(counts.shape[1])[classes], linewidths=0)
    axes.set(ylabel="class", ylim=(-0.7, counts.shape[1] - 0.3))
    if counts.shape[1] <= NAMED_CLASSES:
        axes.set_yticks(range(counts.shape[1]))


def _stacked(axes: Axes, counts: NDArray[np.int64]) -> None:
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    x, y = np.arange(len(counts) + 1) - 0.5, np.vstack([shares, shares[-1:]]).T
    layers: list[Any] = axes.stackplot(
        x, y, colors=_colours(counts.shape[1]), step="post", linewidth=0, rasterized=len(counts) > RASTER
    )
    axes.set(ylabel="share of labels", ylim=(0, 1))
    if counts.shape[1] <= NAMED_CLASSES:
        labels = list(map(str, range(counts.shape[1])))
        axes.legend(layers, labels, title="class", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def _colours(classes: int) -> NDArray[np.float64]:
    if classes <= NAMED_CLASSES:
        return matplotlib.colormaps["tab10" if classes <= 10 else "tab20"](np.arange(classes))
    return matplotlib.colormaps["turbo"](np.linspace(0, 1, classes))
