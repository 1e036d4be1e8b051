"""The fidelity board for readers: one content, as a page of the site, as a page alone and as Markdown."""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fedcore.base.files import write_text
from fedcore.base.lazy import DataFrame
from pipeline.fidelity import board as comparing
from pipeline.fidelity.board import Board
from pipeline.papers import papers
from pipeline.reports import render, style
from pipeline.reports.agreement import RULE
from pipeline.reports.captions import watermark
from pipeline.reports.kept import REFERENCE
from pipeline.reports.results import REPRODUCTION
from pipeline.reports.significance import CONFIDENCE
from pipeline.reports.style import Labels
from pipeline.site.format import ASSETS, TEMPLATES, with_std
from pipeline.site.survey import Survey
from pipeline.site.tables import LEVELS, distance

Names = Mapping[tuple[str, str], Labels]


def page(survey: Survey, root: Path) -> dict[str, Any]:
    """Return what the site shows of the kept results."""
    board = comparing.board(REPRODUCTION, root / REFERENCE)
    known = {shown.paper for shown in survey.targets}
    frames = (frame[frame["paper"].isin(known)] for frame in (board.cells, board.tables, board.claims))
    names = {(shown.paper, shown.name): shown.labels for shown in survey.reference}
    return content(Board(board.scale, *frames), names) | {"linked": [*names]}


def write(board: Board, names: Names, folder: Path = Path("reports")) -> tuple[Path, ...]:
    """Write the board's files, its page without need of another one, and return their paths."""
    inline = {name: Markup((ASSETS / name).read_text(encoding="utf-8")) for name in ("site.css", "site.js")}
    shown = content(board, names) | {"inline": inline}
    texts = {
        "fidelity.csv": render.csv(board.cells.astype({"n": "Int64", "seeds": "Int64"})),
        "fidelity-claims.csv": render.csv(board.claims),
        **{name: render.rendered(name, shown, TEMPLATES) for name in ("fidelity.md", "fidelity.html")},
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return tuple(folder / name for name in texts)


def content(board: Board, names: Names) -> dict[str, Any]:
    """Return what the board shows; ``names`` are the printed labels of rows and columns, where known."""
    cells, tables = board.cells, board.tables.to_dict("records")
    verdicts = sorted({*cells["verdict"], *board.claims["verdict"]})
    marks = [(kind, f"{mark} {kind.replace('-', ' ')}") for kind, mark, _ in LEVELS.values()]
    return {
        "linked": (),
        "cited": {name: f"{name}: {paper.citation}" for name, paper in papers().items()},
        "watermark": watermark(board.scale),
        "scale": board.scale,
        "published": int((cells["target"] == cells["beside"]).sum()),
        "compared": int(cells["difference"].notna().sum()),
        "lines": len(cells),
        "verdicts": {"Cells": _counted(cells), "Claims": _counted(board.claims)},
        "tables": tables,
        "claims": {key: frame.to_dict("records") for key, frame in board.claims.groupby("paper", sort=False)},
        "cells": {
            key: [_cell(line, names) for line in frame.to_dict("records")]
            for key, frame in cells.groupby(["paper", "target"], sort=False)
        },
        "rule": RULE,
        "confidence": f"{CONFIDENCE:.0%}",
        "choices": {
            "table": ("Table", [(name, name) for name in map("{paper}/{target}".format_map, tables)]),
            "verdict": ("Verdict", [(word.replace(" ", "_"), word) for word in verdicts]),
            "level": ("Difference", [*marks, ("none", "not measured")]),
        },
    }


def _cell(line: Mapping[Hashable, Any], names: Names) -> dict[Hashable, Any]:
    row, column = line["row"], line["column"]
    rows, columns = names.get((line["paper"], line["beside"]), ({}, {}))
    return {
        **line,
        "row": rows.get(row, style.label(row)),
        "column": columns.get(column, column),
        "published": with_std(line["published_mean"], line["published_std"]),
        "ours": with_std(line["mean"], line["std"]),
        "distance": distance(line, line["unit"]),
        "keys": f"{line['paper']}/{line['target']} {row} {column}",
    }


def _counted(frame: DataFrame) -> str:
    counts = frame["verdict"].value_counts().sort_index().sort_values(ascending=False, kind="stable")
    return ", ".join(f"{verdict} ({count})" for verdict, count in counts.items())
