"""The fidelity board's page: published and measured numbers, table by table, and the papers' claims."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from fedcore.base.errors import DataError
from pipeline.fidelity.board import Board, board
from pipeline.reports import style
from pipeline.reports.style import Labels, labels
from pipeline.site import tables
from pipeline.site.survey import Survey
from pipeline.site.words import number

UNITS = {"percent": "%", "relative_percent": "%", "f1_percent": "%", "auc_percent": "%", "score": ""}
Line = Mapping[Hashable, Any]


def page(found: Survey, root: Path) -> dict[str, Any]:
    """Return what the page shows; where reports of several scales lie side by side, only that they do."""
    try:
        made = board(found.scale, root / "reports")
    except DataError as error:
        return _page(found, None, str(error))
    return _page(found, made, "")


def _page(found: Survey, made: Board | None, problem: str) -> dict[str, Any]:
    known = {(shown.paper, shown.name) for shown in found.targets}
    lines, claims, summary = (
        ([], [], [])
        if made is None
        else [frame.to_dict("records") for frame in (made.cells, made.claims, made.tables)]
    )
    names = {
        (shown.paper, shown.name): labels(shown.home.sources(shown.paper, shown.name))
        for shown in found.targets
    }
    cells = [_cell(line, known, names) for line in lines if line["paper"] in found.papers]
    levels = zip(tables.CLASSES.values(), tables.MARKS.values(), strict=True)
    return {
        "problem": problem,
        "tables": [_agreement(line, known) for line in summary if line["paper"] in found.papers],
        "claims": [_claim(line, known) for line in claims if line["paper"] in found.papers],
        "cells": cells,
        "choices": {
            "table": _choices(cell["table"] for cell in cells),
            "verdict": _choices(cell["verdict"] for cell in cells),
            "level": [
                *((kind, f"{mark} {kind.replace('-', ' ')}") for kind, mark in levels),
                ("none", "not measured"),
            ],
        },
    }


def _choices(values: Any) -> list[tuple[str, str]]:
    return [(value.replace(" ", "_"), value) for value in dict.fromkeys(values)]


def _link(paper: str, target: str, known: set[tuple[str, str]]) -> str:
    """Return the address of a target, empty where the site has none."""
    return f"{paper}.html#{target}" if (paper, target) in known else ""


def _agreement(line: Line, known: set[tuple[str, str]]) -> dict[str, Any]:
    tau = line["tau"]
    return {
        "table": f"{line['paper']}/{line['target']}",
        "link": _link(line["paper"], line["target"], known),
        "cells": int(line["cells"]),
        "compared": int(line["compared"]),
        "near": _share(line["within_margin"]),
        "inside": _share(line["within_interval"]),
        "order": f"{tau:+.2f}".replace("-", "−") if tau == tau else "–",
    }


def _share(value: float) -> str:
    return f"{value:.0%}" if value == value else "–"


def _claim(line: Line, known: set[tuple[str, str]]) -> dict[str, Any]:
    link = _link(line["paper"], line["target"], known)
    return {**{str(key): value for key, value in line.items()}, "link": link}


def _cell(line: Line, known: set[tuple[str, str]], names: Mapping[tuple[str, str], Labels]) -> dict[str, Any]:
    table = f"{line['paper']}/{line['target']}"
    row, column, verdict = str(line["row"]), str(line["column"]), str(line["verdict"])
    rows, columns = names.get((str(line["paper"]), str(line["beside"])), ({}, {}))
    row_label, column_label = rows.get(row, style.label(row)), columns.get(column, column)
    unit = UNITS.get(str(line["unit"]), str(line["unit"]))
    far = tables.distance(line, str(line["unit"]))
    return {
        "table": table,
        "link": _link(line["paper"], line["target"], known) or _link(line["paper"], line["beside"], known),
        "row": row_label,
        "column": column_label,
        "published": number(float(line["published_mean"]), unit),
        "ours": number(float(line["mean"]), unit) or "–",
        "difference": far.text if far else "–",
        "mark": far.mark if far else "",
        "kind": far.kind if far else "none",
        "verdict": verdict,
        "text": " ".join([table, row, row_label, column, column_label, verdict]).lower(),
    }
