"""The report stage as one call: from finished runs to all files of a table or figure."""

from __future__ import annotations

from pathlib import Path

from pipeline.adopt import REPORTS, seal_report
from pipeline.catalogue import Catalogue


def build(catalogue: Catalogue, paper: str, target: str) -> list[Path]:
    """Write all files of a target, and last its provenance, which says what they were made of.

    Returns:
        The files.

    Raises:
        SpecError: there is no such target.
        DataError: a run that the target needs can't be used.
    """
    reports = catalogue.target(paper, target).paths(REPORTS / paper, target)
    provenance = REPORTS / paper / f"{target}.provenance.json"
    catalogue.build(paper, target, reports)
    seal_report(catalogue, paper, target, reports.values(), provenance)
    return [*reports.values(), provenance]
