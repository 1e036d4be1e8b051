"""dvc.yaml, generated from the catalogue: a stage for the data, one per paper, one for the site.

Each is a call of Snakemake. Tables are metrics, curves are plots, other figures are images. A paper's numbers
are one small JSON file, which DVC shows and compares: {table: {row: {column: mean}}}.
"""

import csv
import json
from collections.abc import Iterable
from pathlib import Path

from fedcore.base.errors import DataError, reason
from fedcore.base.registry import folders
from fedcore.data.files import images_of, named_in
from pipeline.catalogue import Catalogue
from pipeline.papers import catalogue_of
from pipeline.reports.render import rendered

METRICS = "metrics.json"


def dvc_yaml(params: Path) -> str:
    """Return dvc.yaml for the papers of a params.yaml; a study's stage depends on its file in its place.

    A stage also depends on the user's own files that its section names, and on folders of plug-ins beside it.
    """
    catalogue = catalogue_of(params)
    root = params.resolve().parent
    roots = (folder.parent.resolve() for folder in folders("algorithm"))
    plugins = [path.relative_to(root).as_posix() for path in roots if path.is_relative_to(root)]
    values = {
        "papers": {paper: [*_own_files(catalogue, paper, root), *plugins] for paper in catalogue.papers},
        "studies": catalogue.params.files,
        "targets": [*catalogue.targets()],
        "metrics": METRICS,
    }
    return rendered("dvc.yaml", values, Path(__file__).parent)


def _own_files(catalogue: Catalogue, paper: str, root: Path) -> list[str]:
    """Return the user's files and folders below ``root`` that a paper's runs read: of images, the folders."""
    runs, _, partitions = catalogue.planned(paper)
    specs = (*(run.spec for run in runs.values()), *(partition.spec for partition in partitions.values()))
    sections = [spec[key] for spec in specs for key in ("data", "model")]
    named = [path for section in sections for path in named_in(section)]
    images = [path for section in sections for path in images_of(section)]
    named += [path.parent if path.parent.parts else path for path in images]
    below = (path for path in dict.fromkeys(named) if not path.is_absolute() and (root / path).exists())
    return [path.as_posix() for path in below]


def means_json(tables: Iterable[Path]) -> str:
    """Return the means of tables, which are .csv files, as JSON; null where a run of the cell diverged.

    A table that has no means, such as the board of a benchmark, is one of numbers: a row for each of its own.
    """
    means: dict[str, dict[str, dict[str, float | None]]] = {}
    for path in sorted(tables):
        try:
            with path.open(encoding="utf-8", newline="") as lines:
                for cell in csv.DictReader(lines):
                    if None in cell.values():
                        raise ValueError("a line has no value in some column")
                    row = means.setdefault(path.stem, {}).setdefault(cell["row"], {})
                    if "mean" in cell:
                        diverged = float(cell.get("diverged") or 0)
                        row[cell["column"]] = None if diverged else _number(cell["mean"])
                    else:
                        row |= {
                            key: value for key, text in cell.items() if (value := _number(text)) is not None
                        }
        except (KeyError, TypeError, ValueError, csv.Error) as error:
            raise DataError(f"{path}: no table of a report: {reason(error)}") from None
    return json.dumps(means, indent=2) + "\n"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
