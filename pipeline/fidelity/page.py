"""The board as files: csv for machines, Markdown for a summary, a page for readers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from fedcore.base.files import write_text
from fedcore.base.lazy import jinja2, pd
from pipeline.fidelity.board import Board
from pipeline.papers import papers
from pipeline.reports import agreement
from pipeline.reports.captions import watermark
from pipeline.reports.style import Labels, label

BOARD_TEMPLATES = Path(__file__).parent / "templates"
Names = Mapping[tuple[str, str], Labels]
NAMELESS: Names = {}
STATES: Mapping[str, str] = {
    "agrees": "good",
    "differs": "bad",
    "reproduced": "good",
    "not reproduced": "bad",
}


def write(board: Board, folder: Path = Path("reports"), names: Names = NAMELESS) -> tuple[Path, ...]:
    """Write the board's files and return their paths.

    Args:
        board: what is shown.
        folder: where the files go.
        names: printed labels of rows and columns by paper and table; keys are shown without them.
    """
    texts = {
        "fidelity.csv": csv(board.cells),
        "fidelity-claims.csv": csv(board.claims),
        "fidelity.md": markdown(board),
        "fidelity.html": board_html(board, names),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return tuple(folder / name for name in texts)


def csv(frame: pd.DataFrame) -> str:
    """Return a frame as csv, with six significant digits."""
    counts = [name for name in ("n", "seeds") if name in frame]
    frame = frame.astype(dict.fromkeys(counts, "Int64"))
    return frame.to_csv(index=False, lineterminator="\n", float_format="%.6g")


def markdown(board: Board) -> str:
    """Return the summary, the tables' lines and the claims as Markdown."""
    return _board_template("fidelity.md.j2").render(_context(board))


def board_html(board: Board, names: Names = NAMELESS) -> str:
    """Return the whole board as a page that needs no other file; ``names`` as in ``write``."""
    return _board_template("fidelity.html.j2").render(_context(board, names))


def _context(board: Board, names: Names = NAMELESS) -> dict[str, Any]:
    cells = board.cells.assign(
        row_label=[_name(names, line, "row") for line in board.cells.to_dict("records")],
        column_label=[_name(names, line, "column") for line in board.cells.to_dict("records")],
    )
    compared = board.cells["difference"].notna()
    cited = {name: paper.citation for name, paper in papers().items()}
    return {
        "watermark": watermark(board.scale),
        "scale": board.scale,
        "published": len(board.cells[board.cells["target"] == board.cells["beside"]]),
        "compared": int(compared.sum()),
        "lines": len(board.cells),
        "cell_verdicts": _counted(board.cells),
        "claim_verdicts": _counted(board.claims),
        "tables": board.tables.to_dict("records"),
        "claims": [
            (paper, cited.get(paper, paper), _lines(own)) for paper, own in _each(board.claims, "paper")
        ],
        "cells": [
            (paper, cited.get(paper, paper), [(name, _lines(one)) for name, one in _each(own, "target")])
            for paper, own in _each(cells, "paper")
        ],
        "verdicts": sorted({*board.cells["verdict"], *board.claims["verdict"]}),
        "rule": agreement.RULE,
        "confidence": agreement.CONFIDENCE,
    }


def _name(names: Names, line: Mapping[Any, Any], kind: Literal["row", "column"]) -> str:
    rows, columns = names.get((line["paper"], line["beside"]), ({}, {}))
    known = rows if kind == "row" else columns
    return known.get(line[kind], label(line[kind]) if kind == "row" else str(line[kind]))


def _each(frame: pd.DataFrame, key: str) -> list[tuple[str, pd.DataFrame]]:
    return [(str(name), own) for name, own in frame.groupby(key, sort=False)]


def _lines(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in line.items()} for line in frame.to_dict("records")]


def _counted(frame: pd.DataFrame) -> list[tuple[str, int]]:
    counts = frame["verdict"].value_counts()
    return sorted(
        ((str(name), int(count)) for name, count in counts.items()), key=lambda one: (-one[1], one[0])
    )


def number_or_dash(value: Any, pattern: str = "{:.6g}") -> str:
    """Return a number in print; a dash where there is none."""
    return "–" if pd.isna(value) else pattern.format(value).replace("-", "−")


def share(value: Any) -> str:
    """Return a share in per cent; a dash where there is none."""
    return number_or_dash(value, "{:.0%}")


def answer(value: Any) -> str:
    """Return yes or no; a dash where the question can't be asked."""
    return "–" if pd.isna(value) else "yes" if value else "no"


def state(verdict: str) -> str:
    """Return how a verdict looks: ``good``, ``bad`` or ``open``."""
    return STATES.get(verdict, "open")


def cell(value: Any) -> str:
    """Return a text that can't end a cell of a Markdown table."""
    return str(value).replace("|", r"\|").replace("\n", " ")


@cache
def _board_template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(BOARD_TEMPLATES),
        autoescape=".html" in name,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    for show in (number_or_dash, share, answer, state, cell, label):
        environment.filters[show.__name__] = show
    return environment.get_template(name)
