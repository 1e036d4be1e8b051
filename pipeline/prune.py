"""Runs and partitions that no target needs any more."""

from __future__ import annotations

import shutil
from pathlib import Path

from pipeline.catalogue.params import configuration
from pipeline.papers import catalogue_of


def orphans(params: Path, results: Path) -> list[Path]:
    """Return the seed folders below ``results`` that belong to no target at any scale of ``params``."""
    scales = configuration(params)["scales"]
    catalogues = [catalogue_of(params, scale) for scale in scales]
    needed = {folder for made in catalogues for folder in (*made.index, *made.divisions)}
    found = (path for path in results.glob("*/*/*/*/seed*") if path.is_dir())
    return sorted(path for path in found if path.relative_to(results.parent).as_posix() not in needed)


def remove(folders: list[Path]) -> None:
    """Delete folders, and their parents once they are empty."""
    for folder in folders:
        shutil.rmtree(folder)
        for parent in list(folder.parents)[:3]:
            if any(parent.iterdir()):
                break
            parent.rmdir()
