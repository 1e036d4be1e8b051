"""A paper's page: its tables and figures, and the runs of each cell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.catalogue.targets import PlannedRun
from pipeline.reports import captions, style
from pipeline.reports.drawings import Curves, Drawing
from pipeline.reports.listings import Listing
from pipeline.reports.render import number
from pipeline.reports.results import lost
from pipeline.reports.tables import Table
from pipeline.site import charts, tables
from pipeline.site.survey import MEANING, Evidence, Survey, TargetStatus
from pipeline.site.words import SHORT, outcome, with_std

EXPLAIN = "fedcore explain"
BODIES = ("view", "grid", "charts", "series", "numbers", "caption", "columns", "matrix")


def page(found: Survey, key: str, root: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the blocks of a paper's page and the data for its script."""
    own = [shown for shown in found.targets if shown.paper == key]
    blocks = {shown.anchor: _block(shown, found, root) for shown in own}
    runs = {run.folder: run for shown in own for run in shown.runs}
    places = {folder: place for place, folder in enumerate(runs)}
    drawn = {name: block for name, block in blocks.items() if block["charts"]}
    return list(blocks.values()), {
        "runs": [_behind(found.evidence.get(folder), run) for folder, run in runs.items()],
        "cells": {shown.anchor: _cells(shown, places) for shown in own},
        "charts": {name: block["charts"] for name, block in drawn.items()},
        "series": {name: block["series"] for name, block in drawn.items()},
    }


def _block(shown: TargetStatus, found: Survey, root: Path) -> dict[str, Any]:
    return {
        **dict.fromkeys(BODIES),
        "name": shown.anchor,
        "heading": found.heading(shown),
        "title": shown.about.title,
        "state": shown.state,
        "standing": _standing(shown),
        "changed": "; ".join(shown.changed),
        "unknown": _unknown(shown),
        "downloads": [(form, f"{shown.folder}/{path.name}") for form, path in shown.files.items()],
        "picture": f"{shown.folder}/{shown.name}.svg" if "svg" in shown.files else "",
        **_body(shown, lost(shown.cells, found.diverged), root),
    }


def _body(shown: TargetStatus, gone: Mapping[Any, Any], root: Path) -> dict[str, Any]:
    """Return what a block shows of a target besides its state: a table, charts or a picture."""
    frame, sources = shown.frame, shown.sources(root)
    if frame is None:
        return {} if shown.about.kind == "words" else _matrix(shown)
    match shown.about:
        case Table() as table:
            try:
                return {"view": tables.view(shown, table, frame)}
            except KeyError:  # it was built of other rows or columns than params.yaml asks for now
                return {"numbers": tables.plain(frame)}
        case Listing() as listing:
            return {"grid": tables.words(shown, listing, frame)}
        case Curves() as curves:
            caption = curves.caption(sources, gone, frame, shown.runs)
            with style.marking(row for row, _ in gone):
                drawn = {"charts": charts.of_figure(frame, curves), "series": charts.series(frame, curves)}
            return {**_matrix(shown), **drawn, "caption": caption}
        case Drawing() as drawing:
            caption = drawing.caption(sources, gone)
            return {**_matrix(shown), "numbers": tables.plain(frame), "caption": caption}
    return _matrix(shown)


def _unknown(shown: TargetStatus) -> str:
    """Return the rows of a report that params.yaml doesn't ask for any more, in print."""
    if shown.frame is None or "row" not in shown.frame or not shown.cells:
        return ""
    return ", ".join(map(style.label, sorted({*shown.frame["row"]} - {row for row, _ in shown.cells})))


def _standing(shown: TargetStatus) -> str:
    needed = len(shown.runs)
    if shown.kept:
        return f"{MEANING['kept'].capitalize()}; {shown.numbers}."
    told = [MEANING[shown.state] if needed else "built" if shown.files else "not built"]
    told.append(f"{shown.finished} of {needed} {shown.about.needs} finished" if needed else "it needs no run")
    told += [f"{shown.scale} scale"] if shown.scaled else []
    said = f"{'; '.join(told).capitalize()}."
    if shown.state == "made":
        return said
    form = "svg" if shown.about.drawn else "html"
    return f"{said} To build it: snakemake --cores 2 reports/{shown.paper}/{shown.name}.{form}"


def _matrix(shown: TargetStatus) -> dict[str, Any]:
    """Return a button for each cell of a target that has runs, as rows and columns."""
    rows, columns = shown.labels
    what = shown.about.needs.removesuffix("s")

    def entry(cell: tuple[str, str]) -> tuple[int | None, str]:
        count = len(shown.cells.get(cell, ()))
        return shown.places.get(cell), f"{count} {what}{'s' if count != 1 else ''}"

    used = dict.fromkeys(column for _, column in shown.cells)
    matrix = [(rows[row], [entry((row, column)) for column in used]) for row in rows]
    return {"columns": [columns[column] for column in used], "matrix": matrix}


def _cells(shown: TargetStatus, places: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the runs of each cell, in the cells' order."""
    rows, columns = shown.labels
    lines = shown.lines if shown.about.kind == "table" else {}
    return [
        {
            "title": f"{rows[row]}, {columns[column]}",
            "facts": [
                ["table", f"{shown.paper}, {shown.heading}: {shown.about.title}"],
                *(
                    [["scale", f"{shown.scale}. {captions.watermark(shown.scale)}".strip()]]
                    if shown.scaled
                    else []
                ),
                *(_measured(lines[row, column], shown.about.unit) if (row, column) in lines else []),
            ],
            "runs": list(dict.fromkeys(places[run.folder] for run in runs)),
            "partitions": shown.about.needs == "partitions",
            "command": f"{EXPLAIN} reports/{shown.paper}/{shown.name}.csv --row {row} --column {column}",
        }
        for (row, column), runs in shown.cells.items()
    ]


def _measured(line: tables.Line, unit: str) -> list[list[str]]:
    form = f"{{:.6g}} {unit}".strip()
    runs = [
        f"{line['n']:g} of {line['seeds']:g}" + f", {line['diverged']:g} diverged" * bool(line["diverged"])
    ]
    facts = [
        ["mean", number(line["mean"], form)],
        ["standard deviation", number(line["std"], form)],
        ["runs in the mean", "; ".join([*runs, *filter(None, [line.get("failed")])])],
    ]
    if line["published_mean"] == line["published_mean"]:
        facts += [
            ["published", f"{with_std(line['published_mean'], line['published_std'])} {unit}".strip()],
            ["difference", number(line["difference"], form)],
        ]
    told = ("verdict", "variant", "data", "data_state")
    return facts + [[name.replace("_", " "), str(line[name])] for name in told if line.get(name)]


def _behind(one: Evidence | None, run: PlannedRun) -> dict[str, Any]:
    """Return a run in the words of the list behind a cell."""
    known = {"run": f"{run.setting} {style.label(run.algorithm)}", "seed": run.seed, "divided": run.partition}
    if one is None:
        return known
    return {
        **known,
        **outcome(one.facts),
        "data": str(one.facts.get("data_sha256", ""))[:SHORT],
        "partition": str(one.facts.get("partition_sha256", ""))[:SHORT],
        **{name: one.facts.get(name) for name in ("code", "commit", "seconds")},
        "page": one.name if one.finished else None,
    }
