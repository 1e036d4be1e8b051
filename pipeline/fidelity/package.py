"""A description of the kept tables as a Data Package (specs.frictionlessdata.io), columns included."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcore.base import core_yaml
from fedcore.base.errors import DataError
from fedcore.base.files import sha256_file, write_text
from fedcore.base.lazy import pd
from pipeline.claims.points import points
from pipeline.claims.readings import ENDING
from pipeline.papers import papers
from pipeline.reports.kept import HISTORIES, RUNS

PACKAGE = "datapackage.json"
COLUMNS = Path(__file__).with_name("columns.yaml")


def package(folder: Path) -> dict[str, Any]:
    """Return what ``datapackage.json`` holds of a folder of kept results.

    It raises DataError if neither columns.yaml nor an open point of its paper explains a file's column.
    """
    paths = sorted(path for name in ("*.csv", RUNS, HISTORIES) for path in folder.rglob(name))
    fields = {
        name: {"name": name, "type": kind, "description": text}
        for kind, texts in core_yaml.read(COLUMNS, "columns").items()
        for name, text in texts.items()
    }
    return {
        "name": "fedrepro-reference",
        "title": "Tables and figures of federated-learning papers, measured at the papers' own scale",
        "licenses": [{"name": "MIT"}],
        "resources": [_resource(path, folder, fields) for path in paths],
    }


def write(folder: Path) -> Path:
    """Write ``datapackage.json`` beside the kept results."""
    text = json.dumps(package(folder), indent=1, ensure_ascii=False)
    write_text(folder / PACKAGE, f"{text}\n")
    return folder / PACKAGE


def _resource(path: Path, folder: Path, fields: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    inner = path.relative_to(folder).with_suffix("")
    chosen = {
        name: {"name": name, "type": "string", "description": f"a reading's choice; open is {point.open}"}
        for name, point in points(path.parent.name).items()
    }
    fields = {**fields, **(chosen if path.stem.endswith(ENDING) else {})}
    columns = [*(pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, nrows=0))]
    if unknown := [name for name in columns if name not in fields]:
        raise DataError(f"{path}: {', '.join(unknown)}: no such column in {COLUMNS.name}; explain it there")
    paper = papers().get(path.parent.name)
    target = paper.targets.get(path.stem) if paper else None
    return {
        "name": "-".join(inner.parts).lower(),
        "path": path.relative_to(folder).as_posix(),
        "title": target.title if target else f"{path.stem} of {path.parent.name}",
        "format": path.suffix.removeprefix("."),
        **({"encoding": "utf-8", "bytes": path.stat().st_size} if path.suffix == ".csv" else {}),
        "hash": f"sha256:{sha256_file(path)}",
        "schema": {"fields": [fields[name] for name in columns]},
    }
