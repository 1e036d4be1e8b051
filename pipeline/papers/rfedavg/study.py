"""Fig. 9: what lambda, N, E and the sample ratio do, CIFAR-10. Fig. 12: noise on mean features, MNIST."""

from collections.abc import Mapping

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.specification import specification
from pipeline.catalogue.targets import Cell, Changes, Query
from pipeline.reports import figures, style
from pipeline.reports.drawings import Inputs, Picture, by_round, drawing, over_seeds
from pipeline.reports.style import Look

METHODS = ("fedavg", "rfedavg", "rfedavg_plus")
LAMBDA = (0.01, 0.1, 1.0, 10.0, 100.0)
CLIENTS = (0.1, 0.2, 0.4, 1.0)
STEPS = (1, 5, 10, 20)
RATIOS = (0.05, 0.1, 0.2, 0.5)
NOISED = "rfedavg_plus"
SIGMAS = (0, 1, 5, 10, 50)
COLOURS = (style.VERMILION, style.ORANGE, style.GREEN, style.BLUE, style.BLACK)
MARKERS = ("P", "o", "s", "^", "v")
PANELS = {
    "lambda": "regulariser's weight λ",
    "clients": "clients N",
    "steps": "local steps E",
    "ratio": "sample ratio SR",
}


def points(params: PaperParams, algorithm: str) -> Mapping[str, Changes]:
    """Return the changes of each column: one parameter varies, the others are the paper's.

    lambda takes multiples of the declared one, N fractions of the declared number of clients.
    """
    clients = params.regimes["cross_device"].clients
    weight = lam(params, algorithm)
    shown = lam(params, "rfedavg_plus") or 0.0 if weight is None else weight
    weights = [float(f"{shown * factor:.6g}") for factor in LAMBDA]  # free of rounding errors
    sizes = dict.fromkeys(max(2, round(clients * share)) for share in CLIENTS)
    return {
        **{f"lambda_{v:g}": () if weight is None else (("algorithm.lambda", v),) for v in weights},
        **{f"clients_{n}": (("partition.clients", n),) for n in sizes},
        **{f"steps_{e}": (("training.local_steps", e),) for e in STEPS},
        **{f"ratio_{r:g}": (("participation.fraction", r),) for r in RATIOS},
    }


def lam(params: PaperParams, algorithm: str) -> float | None:
    """Return the declared lambda on CIFAR-10; None for a method without."""
    query = Query("cross_device", "cifar10", "sim0", algorithm)
    weight: float | None = specification(params, query)["algorithm"].get("lambda")
    return weight


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return the runs of each method and value."""
    return {
        (name, column): Query("cross_device", "cifar10", "sim0", name, changes)
        for name in METHODS
        for column, changes in points(params, name).items()
    }


@drawing("Parameter study on CIFAR-10, similarity 0%, cross-device", "Fig. 9", queries)
def study(inputs: Inputs) -> Picture:
    """Draw accuracy over each parameter."""
    frame = over_seeds(inputs.cells, lambda facts: facts.accuracy)
    parts = frame["column"].str.rsplit("_", n=1, expand=True)
    points = frame.assign(column=parts[0], value=parts[1].astype(float))
    options = {"x": "value", "whiskers": True, "log": "x"}
    titles = dict.fromkeys(PANELS, "")
    figure, panels = figures.lines(points, titles, inputs.looks(METHODS), 5.0, 2, options=options)
    for panel, axes in panels.items():
        values = sorted(points[points["column"] == panel]["value"].unique())
        axes.set_xticks(values, map(_short, values))
        axes.minorticks_off()
        axes.set(xlabel=PANELS[panel], ylabel="test accuracy (%)")
    spread = inputs.spread(frame, "Mean and ± one sample standard deviation")
    return Picture(frame, figure, ("After the last round.", spread))


def _short(value: float) -> str:
    return f"{value:.0e}".replace("e-0", "e-") if value < 0.01 else f"{value:g}"


def noised(sigma: int) -> str:
    """Return the name of rFedAvg+ with noise."""
    return f"{NOISED}_sigma{sigma}" if sigma else NOISED


def noises(params: PaperParams) -> dict[Cell, Query]:
    """Return the runs of each strength of the noise."""
    changes = {sigma: (("algorithm.noise_sigma", float(sigma)),) if sigma else () for sigma in SIGMAS}
    return {
        (noised(sigma), "mnist"): Query("cross_silo", "mnist", "sim0", NOISED, change)
        for sigma, change in changes.items()
    }


@drawing(
    title="rFedAvg+ with Gaussian noise on delta, MNIST, similarity 0%, cross-silo",
    published="Fig. 12",
    queries=noises,
    rows=lambda params: {noised(sigma): f"σ = {sigma}" for sigma in SIGMAS},
)
def privacy(inputs: Inputs) -> Picture:
    """Draw accuracy over rounds, a curve for each strength."""
    frame = by_round(inputs.cells, lambda facts, column: facts.series("test_accuracy") * 100.0)
    looks = {
        noised(sigma): Look(f"σ = {sigma}", colour, marker)
        for sigma, colour, marker in zip(SIGMAS, COLOURS, MARKERS, strict=True)
    }
    labels = ("communication round", "test accuracy (%)")
    looks = style.marked(looks, inputs.marked)
    figure, _ = figures.lines(frame, {"mnist": ""}, looks, 3.5, labels=labels, width=style.COLUMN)
    return Picture(frame, figure, (inputs.spread(frame),))
