"""The stage of tables of words: parameters or recipes in, csv, Markdown, HTML and LaTeX out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedcore.errors import DataError
from fedcore.files import write_text
from fedcore.lazy import pd
from pipeline.catalogue import Catalogue
from pipeline.report import captions, render
from pipeline.report.captions import Caption
from pipeline.report.collect import published_cells
from pipeline.report.grid import Grid, PrintedCell, groups
from pipeline.targets import Listing, Paper

COLUMNS = ("paper", "target", "row", "column", "value", "published_mean", "scale", "variant")


def build(
    catalogue: Catalogue, paper: str, target: str, outputs: Mapping[str, Path], root: Path = Path()
) -> None:
    """Write a table of words in all its forms.

    Args:
        catalogue: whose parameters it shows.
        paper, target: which table.
        outputs: a path for each of ``csv``, ``md``, ``html``, ``tex`` and ``standalone``.
        root: not needed; the other stages read results below it.

    Raises:
        DataError: the target is no listing, or a line of it has too few or too many cells.
    """
    del root
    listing = catalogue.target(paper, target)
    if not isinstance(listing, Listing):
        raise DataError(f"reports/{paper}/{target}: is no table of words")
    params = catalogue.params.papers[paper]
    columns, entries = listing.columns(params), listing.entries(params)
    for entry in entries:
        if len(entry.words) != len(columns):
            raise DataError(
                f"reports/{paper}/{target}: line '{entry.key}' has {len(entry.words)} cells, "
                f"expected {len(columns)}"
            )
    known = {cell: own.mean for cell, own in published_cells(catalogue.papers[paper].numbers, target).items()}
    scale, variant = catalogue.params.scale, params.variant
    frame = pd.DataFrame(
        [
            (paper, target, entry.key, column.key, word, known.get((entry.key, column.key)), scale, variant)
            for entry in entries
            for column, word in zip(columns, entry.words, strict=True)
        ],
        columns=list(COLUMNS),
    )
    grid = Grid(
        name=f"{paper}-{target}",
        unit="",
        groups=groups(columns),
        columns=tuple(column.label for column in columns),
        rows=tuple(
            (
                entry.label,
                tuple(
                    PrintedCell(word, published=_number(known.get((entry.key, column.key))))
                    for column, word in zip(columns, entry.words, strict=True)
                ),
            )
            for entry in entries
        ),
        caption=caption(listing, catalogue.papers[paper], scale, variant),
        corner=listing.heading,
        words=True,
    )
    write_text(outputs["csv"], frame.to_csv(index=False, lineterminator="\n", float_format="%.6g"))
    write_text(outputs["md"], render.markdown(grid))
    write_text(outputs["html"], render.html(grid))
    write_text(outputs["tex"], render.latex(grid))
    write_text(outputs["standalone"], render.standalone(grid))


def caption(listing: Listing, paper: Paper, scale: str, variant: str) -> Caption:
    """Say what the table shows, and at which scale where that makes a difference."""
    sentences = (
        f"{listing.title}.",
        listing.note,
        captions.scale_and_variant(scale, variant) if listing.scaled else "",
        captions.origin(listing.published, paper),
    )
    return Caption(captions.watermark(scale) if listing.scaled else "", tuple(filter(None, sentences)))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
