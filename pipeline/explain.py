"""Looks into the catalogue: what can be asked for, and what a cell was made of."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from fedcore.errors import SpecError
from fedcore.files import canonical_json, sha256_text
from pipeline.catalogue import Catalogue, Run
from pipeline.params import load


def catalogue_of(params: Path, scale: str | None = None) -> Catalogue:
    """Return the catalogue of a params.yaml, at its own scale or another.

    Raises:
        SpecError: the file can't be read or is wrong.
    """
    try:
        config = yaml.safe_load(params.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise SpecError(f"{params}: cannot be read ({' '.join(str(error).split())})") from None
    if not isinstance(config, dict):
        raise SpecError(f"{params}: expected keys and values")
    return Catalogue(load(config | ({"scale": scale} if scale else {})))


def listing(params: Path) -> str:
    """Return a line for each report: its path, its title, how many runs it needs."""
    catalogue = catalogue_of(params)
    lines = [f"scale {catalogue.params.scale}"]
    for name in catalogue.names():
        paper, target = name.split("/")
        about = catalogue.target(paper, target)
        runs = len(catalogue.needed(paper, target))
        lines.append(f"reports/{name:24} {runs:5} runs  {about.published}: {about.title}")
    return "\n".join(lines)


def cell(params: Path, report: str, row: str, column: str) -> str:
    """Return what a report's cell was made of, one line a run.

    Raises:
        SpecError: no such report, row or column.
    """
    catalogue = catalogue_of(params)
    parts = Path(report).with_suffix("").parts
    paper, target = (
        parts[-2:] if len(parts) > 1 and parts[-2] != "reports" else (catalogue.params.primary, parts[-1])
    )
    cells = catalogue.cells(paper, target)
    if not cells:
        raise SpecError(f"{report}: no cell of it is made of runs; it follows from parameters and recipes")
    if (row, column) not in cells:
        rows, columns = (", ".join(dict.fromkeys(names)) for names in zip(*cells, strict=True))
        raise SpecError(
            f"{report}: no cell at row '{row}', column '{column}'; rows: {rows}; columns: {columns}"
        )
    return "\n".join(_lines(run) for run in cells[row, column])


def _lines(run: Run) -> str:
    known = {
        "seed": run.seed,
        "spec": sha256_text(canonical_json(run.spec)),
        "code": run.code,
        "partition": run.partition,
    }
    folder = Path(run.folder)
    if not (folder / "summary.json").exists():
        return "\n".join([run.folder, *_indented(known | {"status": "not run yet"})])
    summary = json.loads((folder / "summary.json").read_text())
    timing = json.loads((folder / "timing.json").read_text())
    keys = ("status", "final", "data_note", "data_state", "data_sha256", "partition_sha256")
    times = {key: timing[key] for key in ("seconds", "finished", "device") if key in timing}
    return "\n".join([run.folder, *_indented(known | {key: summary[key] for key in keys} | times)])


def _indented(values: dict[str, object]) -> list[str]:
    return [f"  {key:17} {value}" for key, value in values.items()]
