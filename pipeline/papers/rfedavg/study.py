"""Fig. 9: what lambda, N, E and the sample ratio do, CIFAR-10 at similarity 0%, cross-device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, Query
from pipeline.reports import figures, spread, style
from pipeline.reports.drawings import Drawing, Found, Picture

if TYPE_CHECKING:
    pass

METHODS = ("fedavg", "rfedavg", "rfedavg_plus")
LAMBDA = (0.01, 0.1, 1.0, 10.0, 100.0)
CLIENTS = (0.1, 0.2, 0.4, 1.0)
STEPS = (1, 5, 10, 20)
RATIOS = (0.05, 0.1, 0.2, 0.5)
PANELS = {
    "lambda": "regulariser's weight λ",
    "clients": "clients N",
    "steps": "local steps E",
    "ratio": "sample ratio SR",
}


def points(params: PaperParams, algorithm: str) -> Mapping[str, tuple[tuple[str, Any], ...]]:
    """Return the changes of each column: one parameter varies, the others are the paper's.

    lambda takes multiples of the declared one, N fractions of the declared number of clients.
    """
    clients = params.regimes["cross_device"].clients
    weight = lam(params, algorithm)
    found: dict[str, tuple[tuple[str, Any], ...]] = {}
    if weight is not None:
        found |= {f"lambda_{v:g}": (("algorithm.lambda", v),) for v in multiples(weight)}
    else:
        found |= {f"lambda_{v:g}": () for v in multiples(lam(params, "rfedavg_plus") or 0.0)}
    sizes = dict.fromkeys(max(2, round(clients * share)) for share in CLIENTS)
    found |= {f"clients_{n}": (("partition.clients", n),) for n in sizes}
    found |= {f"steps_{e}": (("training.local_steps", e),) for e in STEPS}
    found |= {f"ratio_{r:g}": (("participation.fraction", r),) for r in RATIOS}
    return found


def multiples(weight: float) -> tuple[float, ...]:
    """Return the values of lambda around a declared one, free of rounding errors."""
    return tuple(float(f"{weight * factor:.6g}") for factor in LAMBDA)


def lam(params: PaperParams, algorithm: str) -> float | None:
    """Return the declared lambda on CIFAR-10; None for a method without."""
    about = params.algorithms[algorithm]
    per = about.per.get("cifar10")
    value = ((per and per.model_extra) or about.model_extra or {}).get("lambda")
    return None if value is None else float(value)


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return the runs of each method and value."""
    return {
        (name, column): Query("cross_device", "cifar10", "sim0", name, changes)
        for name in METHODS
        for column, changes in points(params, name).items()
    }


def draw(found: Found) -> Picture:
    """Draw accuracy over each parameter."""
    frame = spread.over_seeds(found.cells, spread.accuracy(found.root))
    names = frame["column"].str.rsplit("_", n=1, expand=True)
    points = frame.assign(panel=names[0], value=names[1].astype(float))
    figure, known = figures.framed(5.0), style.looks(METHODS)
    for axes, (panel, label) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        own = points[points["panel"] == panel]
        figures.curves(axes, own, known, x="value", whiskers=True, log="x")
        values = sorted(own["value"].unique())
        axes.set_xticks(values, map(_short, values))
        axes.minorticks_off()
        axes.set(xlabel=label, ylabel="test accuracy (%)")
    figures.legend(figure, known)
    said = "Mean and ± one sample standard deviation over seeds, after the last round."
    return Picture(frame, figure, (said,))


def _short(value: float) -> str:
    return f"{value:.0e}".replace("e-0", "e-") if value < 0.01 else f"{value:g}"


STUDY = Drawing(
    title="Parameter study on CIFAR-10, similarity 0%, cross-device",
    published="Fig. 9",
    queries=queries,
    draw=draw,
)
