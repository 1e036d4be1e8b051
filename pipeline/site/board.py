"""The fidelity board: every published cell beside ours, table by table, and what became of the claims."""

from __future__ import annotations

import csv
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.report import agreement
from pipeline.site.survey import Survey, read_csv
from pipeline.site.tables import Distance, distance
from pipeline.targets import Table

CELLS, CLAIMS = "fidelity.csv", "fidelity-claims.csv"
Line = Mapping[Hashable, Any]


@dataclass(frozen=True)
class Compared:
    """A published cell beside ours."""

    line: Line
    distance: Distance | None
    unit: str


@dataclass(frozen=True)
class Board:
    """What the page shows.

    Attributes:
        tables: a summary of each table, as ``agreement.summary`` gives it.
        cells: all cells that have a published number.
        claims: the lines of the claims' file; none if there is no such file.
    """

    tables: tuple[Line, ...]
    cells: tuple[Compared, ...]
    claims: tuple[Mapping[str, str], ...]


def board(found: Survey, reports: Path) -> Board:
    """Return the board of fidelity.csv in ``reports``; of the tables that were built where there is none."""
    path = reports / CELLS
    frames = [
        shown.frame for shown in found.targets if shown.frame is not None and "published_mean" in shown.frame
    ]
    frame = (
        read_csv(path)
        if path.exists()
        else pd.concat(frames, ignore_index=True)
        if frames
        else pd.DataFrame()
    )
    if frame.empty or "published_mean" not in frame:
        return Board((), (), _claims(reports / CLAIMS))
    units = {
        f"{one.paper}/{one.name}": one.about.unit for one in found.targets if isinstance(one.about, Table)
    }
    own = frame[frame["published_mean"].notna()]
    cells = []
    for line in own.to_dict("records"):
        unit = units.get(f"{line['paper']}/{line['target']}", "%")
        cells.append(Compared(line, distance(line, unit == "%"), unit))
    return Board(tuple(agreement.summary(frame).to_dict("records")), tuple(cells), _claims(reports / CLAIMS))


def _claims(path: Path) -> tuple[Mapping[str, str], ...]:
    if not path.exists():
        return ()
    with path.open(encoding="utf-8", newline="") as handle:
        return tuple(csv.DictReader(handle))
