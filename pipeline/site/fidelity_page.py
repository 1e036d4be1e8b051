"""The fidelity board's page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.report import style
from pipeline.site import tables
from pipeline.site.board import Compared, board
from pipeline.site.survey import Survey
from pipeline.site.words import number


def page(found: Survey, root: Path) -> dict[str, Any]:
    """Return what the page shows.

    Raises:
        DataError: a file of the board can't be read.
    """
    made = board(found, root / "reports")
    cells = [_compared(one) for one in made.cells]
    texts = {
        kind: f"{mark} {kind.replace('-', ' ')}"
        for kind, mark in zip(tables.CLASSES.values(), tables.MARKS.values(), strict=True)
    }
    return {
        "tables": [_agreement(line) for line in made.tables],
        "claims": made.claims,
        "claim_columns": list(made.claims[0]) if made.claims else [],
        "cells": cells,
        "choices": {
            "table": [(name, name) for name in dict.fromkeys(cell["table"] for cell in cells)],
            "level": [*texts.items(), ("none", "not measured")],
        },
    }


def _agreement(line: tables.Line) -> dict[str, Any]:
    def share(value: Any) -> str:
        return f"{100 * float(value):.0f}%" if value == value and value is not None else "–"

    tau = line["tau"]
    return {
        "paper": line["paper"],
        "target": line["target"],
        "cells": line["cells"],
        "compared": line["compared"],
        "near": share(line["within_margin"]),
        "inside": share(line["within_interval"]),
        "order": f"{tau:+.2f}" if tau == tau else "–",
    }


def _compared(one: Compared) -> dict[str, Any]:
    line = one.line
    table = f"{line['paper']}/{line['target']}"
    row, column, verdict = str(line["row"]), str(line["column"]), str(line.get("verdict", ""))
    distance = one.distance
    return {
        "table": table,
        "link": f"{line['paper']}.html#{line['target']}",
        "row": style.label(row),
        "column": column,
        "published": number(float(line["published_mean"]), one.unit),
        "ours": number(float(line["mean"]), one.unit) or "–",
        "difference": distance.text if distance else "–",
        "mark": distance.mark if distance else "",
        "kind": distance.kind if distance else "",
        "level": distance.kind if distance else "none",
        "verdict": verdict,
        "text": " ".join([table, row, style.label(row), column, verdict]).lower(),
    }
