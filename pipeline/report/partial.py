"""A table of the runs that there are, while others are still to come or can't be had."""

from __future__ import annotations

from pathlib import Path

from pipeline.catalogue import Catalogue
from pipeline.report import build_table

ENDINGS = {"csv": "csv", "md": "md", "html": "html", "tex": "tex", "standalone": "standalone.tex"}
FROM_ALL_RUNS = ("pdf", "provenance.json")


def write(catalogue: Catalogue, paper: str, target: str, root: Path = Path()) -> list[Path]:
    """Write a table in all its forms; a cell without any run says ``out of memory``, ``failed`` or nothing.

    What only a complete table has, its PDF and its provenance, is deleted: Snakemake then makes all of it
    again as soon as it can.

    Returns:
        The paths of the files.

    Raises:
        SpecError: there is no such target.
        DataError: it is no table, or a run is changed or damaged.
    """
    folder = root / "reports" / paper
    outputs = {form: folder / f"{target}.{ending}" for form, ending in ENDINGS.items()}
    build_table.build(catalogue, paper, target, outputs, root)
    for ending in FROM_ALL_RUNS:
        (folder / f"{target}.{ending}").unlink(missing_ok=True)
    return list(outputs.values())
