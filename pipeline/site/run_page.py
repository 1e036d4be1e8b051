"""A run's page: curves, results, who held what, and where it all comes from."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import yaml

from fedcore.base.files import read_or_empty
from pipeline.catalogue.targets import PlannedRun
from pipeline.reports import captions, style
from pipeline.site import charts, partitions
from pipeline.site.survey import Evidence
from pipeline.site.words import flat

LINES = 200
OWN_FILES = ("history.csv",)


def page(one: Evidence, root: Path) -> tuple[dict[str, Any], list[charts.Chart]]:
    """Return what a run's page shows, and its curves."""
    run, folder = one.run, root / one.run.folder
    summary = read_or_empty(folder / "summary.json")
    statistics = read_or_empty(root / run.partition / "stats.json")
    history = folder / "history.csv"
    curves = charts.of_history(history, run.algorithm) if history.exists() else []
    spec = folder / "spec.yaml"
    provenance = read_or_empty(folder / "provenance.json")
    sources = {key: value for key, value in provenance.items() if key not in summary}
    shown = {
        "run": run,
        "label": style.label(run.algorithm),
        "status": one.facts["status"],
        "used": one.used,
        "charts": curves,
        "result": flat({key: value for key, value in summary.items() if not key.endswith("sha256")}),
        "times": flat(read_or_empty(folder / "timing.json")),
        "picture": picture(run) if statistics.get("label_counts") else "",
        "holds": partitions.words(statistics) if statistics.get("sizes") else "",
        "tables": [_table(path) for path in sorted(folder.glob("*.csv")) if path.name not in OWN_FILES],
        "provenance": [
            ("folder", run.folder),
            ("partition", run.partition),
            *flat({key: value for key, value in summary.items() if key.endswith("sha256")}),
            *flat(sources),
        ],
        "spec": spec.read_text(encoding="utf-8") if spec.exists() else yaml.safe_dump(dict(run.spec)),
        "watermark": captions.watermark(run.scale),
    }
    return shown, curves


def picture(run: PlannedRun) -> str:
    """Return where the picture of a run's partition goes."""
    return f"partitions/{run.partition.split('/', 1)[1].replace('/', '.')}.svg"


def _table(path: Path) -> tuple[str, list[str], list[list[str]], int]:
    with path.open(encoding="utf-8", newline="") as handle:
        heading, *lines = list(csv.reader(handle)) or [[]]
    return path.name, heading, lines[:LINES], max(0, len(lines) - LINES)
