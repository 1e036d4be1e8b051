"""Means of methods on the runs that all of them have: folds and seeds differ by more than methods do."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from statistics import fmean
from typing import Any

from pipeline.checks import Cell
from pipeline.reports.agreement import CHANGE
from pipeline.reports.significance import parsed

Lines = Mapping[Cell, Mapping[Any, Any]]


def shared_means(cells: Lines) -> dict[Cell, float]:
    """Return each cell's mean over the pairs of partition and seed that all given cells of its column have.

    A cell that is a change against a row can't be taken apart, so it is left out if it rests on other pairs
    too. Lines without ``values``, as those of a figure, keep their means.
    """
    found: dict[Cell, float] = {}
    for _, own in groupby(sorted(cells, key=lambda cell: cell[1]), key=lambda cell: cell[1]):
        samples = {cell: parsed(cells[cell].get("values")) for cell in own}
        shared = set.intersection(*(set(sample) for sample in samples.values()))
        for cell, sample in samples.items():
            if sample.keys() == shared:
                found[cell] = float(cells[cell]["mean"])
            elif shared and cells[cell].get("published_unit") != CHANGE:
                found[cell] = fmean(sample[pair] for pair in sorted(shared))
    return found
