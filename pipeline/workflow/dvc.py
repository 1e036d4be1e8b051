"""dvc.yaml, generated from the catalogue: a stage for the data, one per paper, one for the site.

Each is a call of Snakemake. Tables are metrics, curves are plots, other figures are images. A paper's numbers
are one small JSON file, which DVC shows and compares: {table: {row: {column: mean}}}.
"""

import csv
import json
from collections.abc import Iterable
from pathlib import Path

from pipeline.papers import catalogue_of
from pipeline.reports.render import rendered

METRICS = "metrics.json"


def dvc_yaml(params: Path) -> str:
    """Return dvc.yaml for the papers of a params.yaml; a study's stage depends on its file in its place."""
    catalogue = catalogue_of(params)
    targets, studies = catalogue.targets(), catalogue.params.files
    values = {"papers": [*catalogue.papers], "studies": studies, "targets": [*targets], "metrics": METRICS}
    return rendered("dvc.yaml", values, Path(__file__).parent)


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
