"""A paper's page: its tables and figures, and the runs of each cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.catalogue.targets import PlannedRun
from pipeline.reports import captions, style
from pipeline.reports.curves import Curves
from pipeline.reports.drawings import Drawing
from pipeline.reports.listings import Listing
from pipeline.reports.results import lost
from pipeline.reports.style import Labels, labels
from pipeline.reports.tables import Table
from pipeline.site import charts, tables
from pipeline.site.survey import MEANING, Evidence, Survey, TargetStatus
from pipeline.site.words import accuracy, heading, number

SHORT = 12
LINES = 200
EXPLAIN = "fedcore explain"


def page(found: Survey, key: str, root: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the blocks of a paper's page and the data for its script."""
    own = [shown for shown in found.targets if shown.paper == key]
    runs = {run.folder: run for shown in own for run in shown.runs}
    places = {folder: place for place, folder in enumerate(runs)}
    data: dict[str, Any] = {
        "runs": [_behind(found.evidence.get(folder), run) for folder, run in runs.items()],
        "cells": {},
        "charts": {},
        "series": {},
    }
    blocks = []
    for shown in own:
        block = _block(shown, found, root)
        data["cells"][shown.name] = _cells(shown, places)
        if block["charts"]:
            data["charts"][shown.name] = block["charts"]
            data["series"][shown.name] = block["series"]
        blocks.append(block)
    return blocks, data


def _block(shown: TargetStatus, found: Survey, root: Path) -> dict[str, Any]:
    gone = lost(shown.cells, found.diverged)
    block: dict[str, Any] = {
        "name": shown.name,
        "heading": heading(shown),
        "title": shown.about.title,
        "state": shown.state,
        "standing": _standing(shown),
        "changed": "; ".join(shown.changed),
        "unknown": _unknown(shown),
        "downloads": [(form, f"files/{shown.paper}/{path.name}") for form, path in shown.files.items()],
        "picture": f"files/{shown.paper}/{shown.name}.svg" if "svg" in shown.files else "",
        "places": {cell: place for place, cell in enumerate(shown.cells)},
        "view": None,
        "grid": None,
        "charts": [],
        "series": [],
        "numbers": None,
        "caption": None,
        "about": {},
        "columns": [],
        "matrix": [],
    }
    about, frame = shown.about, shown.frame
    if isinstance(about, Table) and frame is not None:
        try:
            view = tables.view(shown, about, frame)
        except KeyError:
            return block | {"numbers": tables.plain(frame, LINES)}
        lines = {(line["row"], line["column"]): line for line in frame.to_dict("records")}
        return block | {"view": view, "about": {cell: _about(line) for cell, line in lines.items()}}
    if isinstance(about, Listing):
        return block if frame is None else block | {"grid": tables.words(shown, about, frame)}
    block |= _matrix(shown)
    if isinstance(about, Curves) and frame is not None:
        with style.marking(row for row, _ in gone):
            drawn = {"charts": charts.of_figure(frame, about), "series": charts.series(frame)}
        return block | drawn | {"caption": about.caption(shown.sources(root), gone, frame, shown.runs)}
    if isinstance(about, Drawing) and frame is not None:
        caption = about.caption(shown.sources(root), gone)
        block |= {"numbers": tables.plain(frame, LINES), "caption": caption}
    return block


def _unknown(shown: TargetStatus) -> str:
    """Return the rows of a report that params.yaml doesn't ask for any more, in print."""
    if shown.frame is None or "row" not in shown.frame or not shown.cells:
        return ""
    return ", ".join(map(style.label, sorted({*shown.frame["row"]} - {row for row, _ in shown.cells})))


def _standing(shown: TargetStatus) -> str:
    needed = len(shown.runs)
    told = [MEANING[shown.state] if needed else "built" if shown.files else "not built"]
    told.append(f"{shown.finished} of {needed} {shown.about.needs} finished" if needed else "it needs no run")
    told += [f"{shown.scale} scale"] if shown.scaled else []
    said = f"{'; '.join(told).capitalize()}."
    if shown.state == "made":
        return said
    form = "svg" if shown.drawn else "html"
    return f"{said} To build it: snakemake --cores 2 reports/{shown.paper}/{shown.name}.{form}"


def _about(line: tables.Line) -> str:
    """Return the text shown on hovering: n, deviation, published number."""
    n, seeds, std = line["n"], line.get("seeds", math.nan), line["std"]
    parts = [f"n = {n:g}" + (f" of {seeds:g}" if seeds == seeds else "")]
    parts.append(f"sd {std:.3g}" if std == std else "no sd")
    if line["published_mean"] == line["published_mean"]:
        spread = f" ± {line['published_std']:g}" if line["published_std"] == line["published_std"] else ""
        parts.append(f"published {line['published_mean']:g}{spread}")
    if line.get("verdict"):
        parts.append(str(line["verdict"]))
    return "; ".join(parts)


def _matrix(shown: TargetStatus) -> dict[str, Any]:
    """Return a button for each cell of a figure that has runs, as rows and columns."""
    rows, columns = _labels(shown)
    places = {cell: place for place, cell in enumerate(shown.cells)}
    what = shown.about.needs.removesuffix("s")

    def entry(cell: tuple[str, str]) -> tuple[int | None, str]:
        number = len(shown.cells.get(cell, ()))
        return places.get(cell), f"{number} {what}{'s' if number != 1 else ''}"

    used = {column: None for _, column in shown.cells}
    matrix = [(rows[row], [entry((row, column)) for column in used]) for row in rows]
    return {"columns": [columns[column] for column in used], "matrix": matrix}


def _labels(shown: TargetStatus) -> Labels:
    return labels(shown.sources())


def _cells(shown: TargetStatus, places: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the runs of each cell, in the cells' order."""
    rows, columns = _labels(shown)
    lines: dict[tuple[str, str], Any] = {}
    if shown.frame is not None and shown.about.kind == "table":
        lines = {(line["row"], line["column"]): line for line in shown.frame.to_dict("records")}
    return [
        {
            "title": f"{rows[row]}, {columns[column]}",
            "facts": [
                ["table", f"{shown.paper}, {heading(shown)}: {shown.about.title}"],
                ["scale", f"{shown.scale}. {captions.watermark(shown.scale)}".strip()],
                *(_measured(lines[row, column], shown) if (row, column) in lines else []),
            ],
            "runs": list(dict.fromkeys(places[run.folder] for run in runs)),
            "partitions": shown.about.needs == "partitions",
            "command": f"{EXPLAIN} reports/{shown.paper}/{shown.name}.csv --row {row} --column {column}",
        }
        for (row, column), runs in shown.cells.items()
    ]


def _measured(line: tables.Line, shown: TargetStatus) -> list[list[str]]:
    unit = shown.about.unit
    facts = [
        ["mean", number(line["mean"], unit) or "–"],
        ["standard deviation", number(line["std"], unit) or "–"],
    ]
    runs = f"{line['n']:g} of {line['seeds']:g}" + (
        f", {line['diverged']:g} diverged" if line["diverged"] else ""
    )
    facts.append(["runs in the mean", runs + (f"; {failed}" if (failed := line.get("failed")) else "")])
    if published := number(line["published_mean"], unit):
        spread = number(line["published_std"], "")
        facts.append(["published", published + (f" ± {spread}" if spread else "")])
        facts.append(["difference", number(line["difference"], unit).replace("-", "−") or "–"])
    for name in ("verdict", "variant", "data", "data_state"):
        if line.get(name):
            facts.append([name.replace("_", " "), str(line[name])])
    return facts


def _behind(one: Evidence | None, run: PlannedRun) -> dict[str, Any]:
    """Return a run in the words of the list behind a cell."""
    known = {"run": f"{run.setting} {style.label(run.algorithm)}", "seed": run.seed, "divided": run.partition}
    if one is None:
        return known
    facts = one.facts
    return known | {
        "status": facts.get("status"),
        "accuracy": accuracy(facts),
        "spec": str(facts.get("spec", ""))[:SHORT],
        "data": str(facts.get("data_sha256", ""))[:SHORT],
        "partition": str(facts.get("partition_sha256", ""))[:SHORT],
        "code": facts.get("code"),
        "commit": facts.get("commit"),
        "finished": facts.get("finished"),
        "seconds": facts.get("seconds"),
        "page": one.name if one.finished else None,
    }
