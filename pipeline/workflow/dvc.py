"""dvc.yaml, generated from the catalogue: a stage for the data, one per paper, one for the site.

Each is a call of Snakemake. Tables are metrics, curves are plots, other figures are images. A paper's numbers
are one small JSON file, which DVC shows and compares: {table: {row: {column: mean}}}.
"""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedcore.base.registry import VARIABLE
from pipeline.catalogue.targets import OWN_FILES
from pipeline.papers import catalogue_of
from pipeline.reports.render import rendered

METRICS = "metrics.json"
OWN_KEYS = {key for _, key in OWN_FILES}


def dvc_yaml(params: Path) -> str:
    """Return dvc.yaml for the papers of a params.yaml; a study's stage depends on its file in its place.

    A stage also depends on the user's own files that its section names, and on folders of plug-ins beside it.
    """
    catalogue = catalogue_of(params)
    root = params.resolve().parent
    roots = (Path(folder).resolve() for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder)
    folders = [path.relative_to(root).as_posix() for path in roots if path.is_relative_to(root)]
    sections = {
        paper: section.model_dump(by_alias=True) for paper, section in catalogue.params.papers.items()
    }
    values = {
        "papers": {
            paper: [*dict.fromkeys(_own_files(sections[paper], root)), *folders] for paper in sections
        },
        "studies": catalogue.params.files,
        "targets": [*catalogue.targets()],
        "metrics": METRICS,
    }
    return rendered("dvc.yaml", values, Path(__file__).parent)


def _own_files(section: Any, root: Path) -> Iterator[str]:
    """Yield the files and folders below ``root`` that keys of the user's own files name."""
    if isinstance(section, list | tuple):
        section = dict(enumerate(section))
    for key, value in section.items() if isinstance(section, Mapping) else ():
        if key not in OWN_KEYS or not isinstance(value, str):
            yield from _own_files(value, root)
        elif not Path(value).is_absolute() and (root / value).exists():
            yield value


def means_json(tables: Iterable[Path]) -> str:
    """Return the means of tables, which are .csv files, as JSON; null where a run of the cell diverged.

    A table that has no means, such as the board of a benchmark, is one of numbers: a row for each of its own.
    """
    means: dict[str, dict[str, dict[str, float | None]]] = {}
    for path in sorted(tables):
        with path.open(encoding="utf-8", newline="") as lines:
            for cell in csv.DictReader(lines):
                row = means.setdefault(path.stem, {}).setdefault(cell["row"], {})
                if "mean" in cell:
                    diverged = float(cell.get("diverged") or 0)
                    row[cell["column"]] = None if diverged else _number(cell["mean"])
                else:
                    row |= {key: value for key, text in cell.items() if (value := _number(text)) is not None}
    return json.dumps(means, indent=2) + "\n"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
