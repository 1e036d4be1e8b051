"""A paper's numbers as one small JSON file, which DVC shows and compares: {table: {row: {column: mean}}}."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path

FILE = "metrics.json"


def means_json(tables: Iterable[Path]) -> str:
    """Return the means of tables as JSON; null where a run of the cell diverged.

    Args:
        tables: their .csv files.
    """
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for path in sorted(tables):
        with path.open(encoding="utf-8", newline="") as lines:
            for cell in csv.DictReader(lines):
                row = found.setdefault(path.stem, {}).setdefault(cell["row"], {})
                row[cell["column"]] = (
                    None if not cell["mean"] or float(cell.get("diverged") or 0) else float(cell["mean"])
                )
    return json.dumps(found, indent=2) + "\n"
