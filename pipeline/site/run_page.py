"""A run's page: curves, results, who held what, and where it all comes from."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

from fedcore.base.files import read_or_empty
from fedcore.base.options import validate
from fedcore.execution.integrity import PROVENANCE, STATISTICS, SUMMARY, TIMING
from pipeline.catalogue.targets import PlannedRun
from pipeline.reports import style
from pipeline.site import charts
from pipeline.site.survey import Evidence, dotted
from pipeline.site.words import flat

LINES, TICKS = 200, 10
WIDTH, CELLS, BARS = 640.0, 220.0, 70.0


class Sizes(BaseModel):
    """The numbers of rows that clients hold."""

    model_config = ConfigDict(strict=True)

    min: int
    max: int
    mean: float


class Statistics(BaseModel):
    """What a partition's statistics say of its clients; ``label_counts``, [clients, classes], where few."""

    model_config = ConfigDict(strict=True)

    clients: int
    sizes: Sizes
    empty_clients: list[int]
    c_score: float
    label_counts: list[Annotated[list[NonNegativeInt], Field(min_length=1)]] | None = None


def page(one: Evidence, root: Path) -> dict[str, Any]:
    """Return what a run's page shows.

    Raises:
        DataError: its history holds something else than numbers.
        SpecError: its partition's statistics are not as they were written.
    """
    run, folder = one.run, root / one.run.folder
    summary, times, made = (read_or_empty(folder / name) for name in (SUMMARY, TIMING, PROVENANCE))
    hashes = {key: value for key, value in summary.items() if key.endswith("sha256")}
    statistics = _statistics(run, root)
    history, spec = folder / "history.csv", folder / "spec.yaml"
    return {
        "run": run,
        "label": style.label(run.algorithm),
        "status": one.facts["status"],
        "used": one.used,
        "charts": charts.of_history(history, run.algorithm) if history.exists() else [],
        "result": flat({key: value for key, value in summary.items() if key not in hashes}),
        "times": flat(times),
        "picture": picture_name(run) if statistics and statistics.label_counts else "",
        "holds": statistics and _words(statistics),
        "tables": [_table(path) for path in sorted(folder.glob("*.csv")) if path != history],
        "provenance": [
            ("folder", run.folder),
            ("partition", run.partition),
            *flat(hashes),
            *flat({key: value for key, value in made.items() if key not in summary}),
        ],
        "spec": spec.read_text(encoding="utf-8") if spec.exists() else yaml.safe_dump(dict(run.spec)),
    }


def picture_name(run: PlannedRun) -> str:
    """Return where the picture of a run's partition goes."""
    return f"partitions/{dotted(run.partition)}.svg"


def picture(run: PlannedRun, root: Path) -> dict[str, Any] | None:
    """Return what the picture of a run's partition shows; None where no labels were counted.

    Raises:
        SpecError: the statistics are not as they were written.
    """
    statistics = _statistics(run, root)
    return drawn(statistics.label_counts) if statistics and statistics.label_counts else None


def drawn(counts: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the share of each class in each client's rows as shades, and the clients' sizes as bars.

    Args:
        counts: rows of each class on each client, [clients, classes].

    Returns:
        What the template draws: rectangles (x, y, width, height[, opacity]) and ticks (place, text).
    """
    sizes = [sum(own) for own in counts]
    wide, high = WIDTH / len(counts), CELLS / len(counts[0])
    largest = max(*sizes, 1)
    heights = [BARS * size / largest for size in sizes]
    return {
        "cells": [
            (*_rounded(client * wide, label * high, wide, high), round(rows / sizes[client], 3))
            for client, own in enumerate(counts)
            for label, rows in enumerate(own)
            if rows
        ],
        "bars": [
            _rounded((client + 0.05) * wide, BARS - height, 0.9 * wide, height)
            for client, height in enumerate(heights)
        ],
        "clients": _ticks(len(counts), wide),
        "classes": _ticks(len(counts[0]), high),
        "largest": largest,
    }


def _statistics(run: PlannedRun, root: Path) -> Statistics | None:
    path = root / run.partition / STATISTICS
    found = read_or_empty(path)
    return validate(Statistics, found, str(path)) if found else None


def _words(statistics: Statistics) -> str:
    """Say in a sentence what the picture shows."""
    sizes, empty = statistics.sizes, len(statistics.empty_clients)
    held = f"{sizes.min} to {sizes.max} rows, {sizes.mean:.1f} on average"
    none = f"; {empty} hold none" if empty else ""
    scale = "0: all have the same labels; towards 2: no two share any"
    return f"{statistics.clients} clients hold {held}{none}. C-score {statistics.c_score:.3f} ({scale})."


def _ticks(number: int, size: float) -> list[tuple[float, int]]:
    return [(round((place + 0.5) * size, 2), place) for place in range(0, number, -(-number // TICKS))]


def _rounded(*values: float) -> tuple[float, ...]:
    return tuple(round(value, 2) for value in values)


def _table(path: Path) -> tuple[str, list[str], list[list[str]], int]:
    with path.open(encoding="utf-8", newline="") as handle:
        heading, *lines = list(csv.reader(handle)) or [[]]
    return path.name, heading, lines[:LINES], max(0, len(lines) - LINES)
