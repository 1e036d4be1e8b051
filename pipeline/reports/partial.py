"""A table of the runs that there are, while others are still to come or can't be had."""

from __future__ import annotations

import os
from pathlib import Path

from fedcore.base.errors import DataError
from pipeline.catalogue import Catalogue

FROM_ALL_RUNS = ("pdf", "provenance.json")
OLD = 86400.0


def write(catalogue: Catalogue, paper: str, target: str, root: Path = Path()) -> list[Path]:
    """Write a table in all its forms; a cell without any run says ``out of memory``, ``failed`` or nothing.

    What only a complete table has, its PDF and its provenance, is deleted, and the files look older than any
    run: Snakemake then completes the table when it is asked for it.

    Returns:
        The paths of the files.

    Raises:
        SpecError: there is no such target.
        DataError: it is no table, a run is changed or damaged, or none is finished.
    """
    folder = root / "reports" / paper
    about = catalogue.target(paper, target)
    if about.kind != "table":
        raise DataError(f"reports/{paper}/{target}: is no table")
    outputs = about.paths(folder, target)
    runs = catalogue.needed(paper, target)
    if not any((root / run.folder / "summary.json").exists() for run in runs):
        raise DataError(f"reports/{paper}/{target}: none of its {len(runs)} runs is finished")
    catalogue.build(paper, target, outputs, root)
    for ending in FROM_ALL_RUNS:
        (folder / f"{target}.{ending}").unlink(missing_ok=True)
    for path in outputs.values():
        os.utime(path, (OLD, OLD))
    return list(outputs.values())
