"""A report's table for the site: the printed grid, each cell with its distance to the published number."""

import math
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from fedcore.base.lazy import DataFrame, pd
from pipeline.catalogue.targets import Cell, Column
from pipeline.fidelity.board import NOT_JUDGED
from pipeline.reports.agreement import ON_A_PART, Agreement
from pipeline.reports.captions import watermark
from pipeline.reports.grid import PrintedCell, missed_in
from pipeline.reports.render import in_print
from pipeline.reports.tables import Table, arrange
from pipeline.site.format import with_std
from pipeline.site.survey import TargetStatus

FAR, MOST = 5, 200
LEVELS = {
    -2: ("far-below", "▼▼", f"below by more than {FAR} margins"),
    -1: ("below", "▼", "below"),
    0: ("near", "≈", "within the margin"),
    1: ("above", "▲", "above"),
    2: ("far-above", "▲▲", f"above by more than {FAR} margins"),
    None: ("not-judged", "◦", "not judged: of fewer seeds, on a part of the data, or of a search"),
}
UNJUDGED = {"", ON_A_PART, NOT_JUDGED}  # verdicts
Line = Mapping[Hashable, Any]


class Distance(NamedTuple):
    """How far a cell is from the published number: a word of ``LEVELS`` with its sign, and the difference."""

    kind: str
    mark: str
    text: str


def view(shown: TargetStatus, table: Table, frame: DataFrame, ours: Mapping[Cell, Line]) -> dict[str, Any]:
    """Return a table that was built: its grid, its rows of cells, and the legend of their distances.

    At a reduced scale no cell has a distance, which would say nothing about the paper. ``ours`` has the lines
    of the same table as it was built here. It raises KeyError if the csv has other cells than are asked for.
    """
    columns = table.columns(shown.params)
    grid = arrange(frame, table, columns, shown.declared, table.row_labels(shown.params))
    judged = not watermark(shown.scale)

    def cell(row: str, column: Column, printed: PrintedCell) -> dict[str, Any]:
        line, our_line = shown.lines[row, column.key], ours.get((row, column.key))
        decimals = table.decimals if column.decimals is None else column.decimals
        return {
            "printed": printed,
            "distance": distance(line, line["published_unit"], decimals) if judged else None,
            "remark": _remark(line),
            "own": with_std(our_line["mean"], our_line["std"]) if our_line else "–",
            "place": shown.places.get((row, column.key)),
        }

    rows = [
        (label, [cell(row, *pair) for pair in zip(columns, cells, strict=True)])
        for row, (label, cells) in zip(dict.fromkeys(frame["row"]), grid.rows, strict=True)
    ]
    return {"grid": grid, "rows": rows, "legend": _legend(frame) if judged and grid.has_published else ()}


def distance(line: Line, unit: str, decimals: int = 2) -> Distance | None:
    """Return how far a line's mean is from its published mean: near within the margin, far beyond five.

    The published numbers' unit decides on the margin; see ``Agreement``. A cell with a run that diverged or
    never reached its target is not near.
    """
    mean, published, spread = (float(line[key]) for key in ("mean", "published_mean", "published_std"))
    agreement = Agreement(mean, published, spread, unit)
    if agreement.near is None:
        return None
    unscored = line.get("diverged", 0) + missed_in(line)
    level = 0 if agreement.near and not unscored else 1 if agreement.within(FAR) else 2
    level = level if agreement.difference > 0 else -level
    lacks_seeds = line.get("n", math.nan) + unscored < line.get("seeds", math.nan)
    kind, mark, _ = LEVELS[None if lacks_seeds or line.get("verdict") in UNJUDGED else level]
    return Distance(kind, mark, in_print(agreement.difference, f"{{:+.{decimals}f}}"))


def plain(frame: DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return heading and first lines of any csv as texts."""
    texts = frame.head(MOST).map(lambda value: "" if pd.isna(value) else str(value))
    return [*map(str, frame)], texts.to_numpy().tolist()


def _remark(line: Line) -> str:
    seeds, published = line.get("seeds", math.nan), with_std(line["published_mean"], line["published_std"])
    parts = [
        f"n = {line['n']:g}" + (f" of {seeds:g}" if pd.notna(seeds) else ""),
        f"sd {line['std']:.3g}" if pd.notna(line["std"]) else "no sd",
        f"published {published}" if published != "–" else "",
        str(line.get("verdict") or ""),
    ]
    return "; ".join(filter(None, parts))


def _legend(frame: DataFrame) -> list[tuple[str, str, str]]:
    rule = " or ".join(sorted({str(rule) for rule in frame["margin_rule"] if rule}))
    return [
        (kind, mark, f"{text} ({rule})" if level == 0 else text)
        for level, (kind, mark, text) in LEVELS.items()
    ]
