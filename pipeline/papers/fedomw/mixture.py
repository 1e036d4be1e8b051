"""Fig. 2: how DL-opt's mixture weights move in central training on letter."""

from __future__ import annotations

from functools import partial

from fedcore.base.errors import DataError
from fedcore.base.lazy import pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, Query
from pipeline.papers.fedomw.tables import RELEASED, Variant, asked
from pipeline.reports import figures
from pipeline.reports.drawings import Drawing, Found, Picture
from pipeline.reports.style import Look

METHOD, DATASET = "dl_opt", "letter"
SHOWN = 5
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
MARKERS = "os^DP"


def queries(params: PaperParams, variant: Variant | None = None) -> dict[Cell, Query]:
    """Return DL-opt's runs on letter, in the paper's reading unless a variant is given."""
    return {(METHOD, DATASET): asked(variant, "dl", DATASET, METHOD)}


def draw(found: Found) -> Picture:
    """Draw the weights of the clients that started with the most rows, over passes of central training.

    Raises:
        DataError: the run wrote no mixture.csv.
    """
    run = found.cells[METHOD, DATASET][0]
    path = found.root / run.folder / "mixture.csv"
    if not path.exists():
        raise DataError(f"{path}: missing, but the figure needs it; build the run again")
    weights = pd.read_csv(path).set_index("pass")
    largest = weights.iloc[0].sort_values(ascending=False, kind="stable").index[:SHOWN]
    lines = weights[list(largest)].rename_axis("round").reset_index()
    lines = lines.melt("round", var_name="row", value_name="mean")
    known = {
        name: Look(f"client {name.removeprefix('p_')}", colour, marker)
        for name, colour, marker in zip(largest, COLOURS, MARKERS, strict=False)
    }
    figure = figures.framed(3.5, figures.NARROW)
    axes = figure.subplots()
    figures.curves(axes, lines.assign(std=0.0), known)
    for name, one in known.items():
        axes.axhline(weights[name].iloc[0], color=one.colour, linestyle=":", linewidth=0.8)
    axes.set(xlabel="pass of central training", ylabel="mixture weight")
    figures.legend(figure, known, across=3)
    sentences = (
        f"The {len(largest)} clients with the most rows, seed {run.seed}.",
        "Dotted: the start, a client's share of the rows, which uniform mixing keeps.",
    )
    return Picture(lines.assign(column=DATASET, n=1, seeds=1), figure, sentences)


def _figure(variant: Variant | None = None) -> Drawing:
    return Drawing(
        title=f"Mixture weights of DL-opt in central training on letter{RELEASED if variant else ''}",
        published="Fig. 2",
        queries=partial(queries, variant=variant),
        draw=draw,
    )


MIXTURE = {"fig2": _figure(), "fig2_released": _figure("released")}
