"""The report stage as one call: from finished runs to all files of a table or figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pipeline.adopt import REPORTS, seal_report
from pipeline.catalogue import Catalogue
from pipeline.report import build_curves, build_drawing, build_listing, build_table
from pipeline.targets import FIGURE_FILES, TABLE_FILES, Curves, Drawing, Listing, Table

BUILDERS: Mapping[type, Callable[..., None]] = {
    Table: build_table.build,
    Curves: build_curves.build,
    Drawing: build_drawing.build,
    Listing: build_listing.build,
}


def build(catalogue: Catalogue, paper: str, target: str) -> list[Path]:
    """Write all files of a target, and last its provenance, which says what they were made of.

    Returns:
        The files.

    Raises:
        SpecError: there is no such target.
        DataError: a run that the target needs can't be used.
    """
    about = catalogue.target(paper, target)
    endings = TABLE_FILES if isinstance(about, Table | Listing) else FIGURE_FILES
    reports = {ending.partition(".")[0]: REPORTS / paper / f"{target}.{ending}" for ending in endings}
    provenance = REPORTS / paper / f"{target}.provenance.json"
    BUILDERS[type(about)](catalogue, paper, target, reports)
    seal_report(catalogue, paper, target, reports.values(), provenance)
    return [*reports.values(), provenance]
