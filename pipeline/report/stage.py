"""The report stage as one call, from the configuration that Snakemake merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.adopt import seal_report
from pipeline.catalogue import Catalogue
from pipeline.params import load
from pipeline.report import build_curves, build_drawing, build_listing, build_table
from pipeline.targets import Curves, Drawing, Listing, Table


def build(config: Mapping[str, Any], paper: str, target: str, outputs: Mapping[str, Path]) -> None:
    """Write all files of a target, and last ``provenance``, which says what they were made of.

    Raises:
        SpecError: the configuration is wrong, or there is no such target.
        DataError: a run that the target needs can't be used.
    """
    catalogue = Catalogue(load(config))
    builders: Mapping[type, Callable[..., None]] = {
        Table: build_table.build,
        Curves: build_curves.build,
        Drawing: build_drawing.build,
        Listing: build_listing.build,
    }
    reports = {name: path for name, path in outputs.items() if name != "provenance"}
    builders[type(catalogue.target(paper, target))](catalogue, paper, target, reports)
    seal_report(catalogue, paper, target, reports.values(), outputs["provenance"])
