"""A paper's page: its tables and figures, and the runs of each cell."""

from collections.abc import Collection, Mapping, Sequence
from shlex import quote
from typing import Any

from fedcore.base.lazy import pd
from pipeline.catalogue.params import EDITIONS
from pipeline.catalogue.targets import Cell, PlannedRun
from pipeline.fidelity.board import compare, printed_cells, split_reading
from pipeline.fidelity.scoreboard import NAMES
from pipeline.papers import published
from pipeline.reports import style
from pipeline.reports.agreement import AGREES, VERDICTS
from pipeline.reports.drawings import Curves
from pipeline.reports.listings import Listing
from pipeline.reports.render import in_print
from pipeline.reports.results import REPRODUCTION, lost
from pipeline.reports.tables import Table
from pipeline.site import charts, tables
from pipeline.site.format import SHORT, outcome, with_std
from pipeline.site.survey import Evidence, Survey, TargetStatus

RUNS = "uv run fedcore runs"
MANY = 12  # columns, of which more are read as rows
BODIES = ("view", "grid", "charts", "numbers", "columns", "matrix")


def page(survey: Survey, targets: Sequence[TargetStatus]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the blocks of a page of targets that have files or runs, and the data for its script."""
    present = [shown for shown in targets if shown.kept or shown.begun]
    blocks = [_block(shown, survey) for shown in present]
    runs = {run.folder: run for shown in present for run in shown.runs}
    indices = {folder: index for index, folder in enumerate(runs)}
    return blocks, {
        "runs": [_behind(survey.evidence.get(folder), run) for folder, run in runs.items()],
        "cells": {shown.name: _cells(shown, indices) for shown in present},
        "charts": {block["name"]: block["charts"] for block in blocks if block["charts"]},
    }


def _block(shown: TargetStatus, survey: Survey) -> dict[str, Any]:
    marked = {row for row, _ in lost(shown.cells, survey.diverged)}
    again = survey.own.get((shown.paper, shown.name)) if shown.kept else None
    return {
        **dict.fromkeys(BODIES),
        "name": shown.name,
        "heading": shown.heading,
        "title": shown.target.title,
        "state": shown.state,
        "standing": _standing(shown),
        "changed": "; ".join(shown.changed),
        "unknown": _unknown(shown),
        "command": _rebuilt(shown, f"reports/{shown.paper}/{shown.name}.csv"),
        "downloads": [(form, f"{shown.folder}/{path.name}") for form, path in shown.files.items()],
        "picture": f"{shown.folder}/{shown.name}.svg" if "svg" in shown.files else "",
        "caption": shown.caption,
        "again": again and again.frame is not None and again,
        **_body(shown, marked, again.lines if again else {}),
    }


def _rebuilt(shown: TargetStatus, file: str) -> str:
    scale = f" --config scale={shown.scale} --" if shown.scaled else ""
    options = f" --configfile {EDITIONS} --config scale=paper --" if shown.reference else scale
    return f"uv run snakemake --cores 2{options} {file}"


def _body(shown: TargetStatus, marked: Collection[str], lines: Mapping[Cell, tables.Line]) -> dict[str, Any]:
    frame = shown.frame
    if frame is None:
        return {} if shown.target.kind == "words" else _matrix(shown)
    match shown.target:
        case Table() as table:
            try:
                return {"view": tables.view(shown, table, frame, lines)}
            except KeyError:  # it was built of other rows or columns than params.yaml asks for now
                return {"numbers": tables.plain(frame)}
        case Listing() as listing:
            texts = {cell: str(line["value"]) for cell, line in shown.lines.items()}
            return {"grid": listing.grid(shown, texts)}
        case Curves() as curves:
            drawn = charts.of_figure(frame, curves, curves.row_labels(shown.params), marked)
            return {**_matrix(shown), "charts": drawn}
    return {**_matrix(shown), "numbers": tables.plain(frame)}


def _unknown(shown: TargetStatus) -> str:
    """Return the methods of a report that params.yaml doesn't ask for any more, in print."""
    of_methods = isinstance(shown.target, Table | Curves)
    if not of_methods or shown.frame is None or "row" not in shown.frame or not shown.cells:
        return ""
    return ", ".join(map(style.label, sorted({*shown.frame["row"]} - {row for row, _ in shown.cells})))


def _standing(shown: TargetStatus) -> str:
    if shown.reference:
        return ", ".join(filter(None, [_near(shown), shown.numbers]))
    needed = len(shown.runs)
    text = f"{shown.finished} of {needed} {shown.target.needs}" if needed else "needs no run"
    return f"{text}; {shown.scale} scale" if shown.scaled else text


def _near(shown: TargetStatus) -> str:
    """Return how many of the published cells that a target measures are near, as the board judges them."""
    printed = printed_cells(shown.paper, published(shown.paper))
    printed = printed[printed["target"] == split_reading(shown.name)[0]]
    if shown.frame is None or printed.empty:
        return ""
    cells = compare(printed, {(shown.paper, shown.name): shown.frame}, REPRODUCTION)
    words = []
    for name, part in cells.groupby("target", sort=False):
        judged = part["verdict"].isin(VERDICTS)
        near, others = part["verdict"].eq(AGREES).sum(), (part["difference"].notna() & ~judged).sum()
        reading = f"{NAMES.get(split_reading(str(name))[1], 'text')}: " if name != shown.name else ""
        words += [f"{reading}{near} of {judged.sum()} near"] if judged.any() else []
        words += [f"{reading}{others} not judged"] if others else []
    return "; ".join(words)


def _matrix(shown: TargetStatus) -> dict[str, Any]:
    """Return a button for each cell of a target that has runs, as rows and columns; many columns as rows."""
    rows, columns = shown.labels
    what = shown.target.needs.removesuffix("s")

    def entry(cell: tuple[str, str]) -> tuple[int | None, str]:
        count = len(shown.cells.get(cell, ()))
        return shown.places.get(cell), f"{count} {what}{'s' if count != 1 else ''}"

    used = dict.fromkeys(column for _, column in shown.cells)
    if len(used) > max(MANY, len(rows)):
        turned = [(columns[column], [entry((row, column)) for row in rows]) for column in used]
        return {"columns": [*rows.values()], "matrix": turned}
    matrix = [(rows[row], [entry((row, column)) for column in used]) for row in rows]
    return {"columns": [columns[column] for column in used], "matrix": matrix}


def _cells(shown: TargetStatus, indices: Mapping[str, int]) -> list[dict[str, Any]]:
    rows, columns = shown.labels
    lines = shown.lines if isinstance(shown.target, Table) else {}
    report = f"{shown.paper}/{shown.name}"
    scale = f" --scale {shown.scale}" if shown.scaled else ""
    report += f" --scale paper --overlay {EDITIONS}" if shown.reference else scale
    return [
        {
            "title": f"{rows[row]}, {columns[column]}",
            "column": column,
            "facts": [
                ["table", f"{shown.paper}, {shown.heading}: {shown.target.title}"],
                *([["scale", shown.scale]] if shown.scaled else []),
                *(_measured(lines[row, column], shown.target.unit) if (row, column) in lines else []),
            ],
            "runs": list(dict.fromkeys(indices[run.folder] for run in runs)),
            "partitions": shown.target.needs == "partitions",
            "command": _rebuilt(shown, f"$({RUNS} {report} --row {quote(row)} --column {quote(column)})"),
        }
        for (row, column), runs in shown.cells.items()
    ]


def _measured(line: tables.Line, unit: str) -> list[list[str]]:
    form = f"{{:.6g}} {unit}".strip()
    diverged = f", {line['diverged']:g} diverged" if line["diverged"] else ""
    runs = f"{line['n']:g} of {line['seeds']:g}{diverged}"
    facts = [
        ["mean", in_print(line["mean"], form)],
        ["standard deviation", in_print(line["std"], form)],
        ["runs in the mean", "; ".join(filter(None, [runs, line.get("failed")]))],
    ]
    if pd.notna(line["published_mean"]):
        facts += [
            ["published", f"{with_std(line['published_mean'], line['published_std'])} {unit}".strip()],
            ["difference", in_print(line["difference"], form.replace("%", "points"))],
        ]
    names = ("verdict", "variant", "data", "data_state")
    return facts + [[name.replace("_", " "), str(line[name])] for name in names if line.get(name)]


def _behind(evidence: Evidence | None, run: PlannedRun) -> dict[str, Any]:
    label = style.label(run.algorithm)
    known = {"run": f"{run.setting} {label}", "method": label, "seed": run.seed, "divided": run.partition}
    if evidence is None:
        return known
    return {
        **known,
        **outcome(evidence.facts),
        **{name: str(evidence.facts.get(f"{name}_sha256", ""))[:SHORT] for name in ("data", "partition")},
        **{name: evidence.facts.get(name) for name in ("code", "commit", "seconds")},
        "page": evidence.name if evidence.finished else None,
        "curves": evidence.name if evidence.finished or evidence.history is not None else None,
    }
