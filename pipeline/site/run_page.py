"""A run's page: curves, results, who held what, and where it all comes from."""

from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, Field, NonNegativeInt

from fedcore.base.files import read_or_empty
from fedcore.base.options import validate
from fedcore.execution.integrity import HISTORY, PROVENANCE, SPEC, STATISTICS, SUMMARY, TIMING
from pipeline.reports import style
from pipeline.reports.results import read_history
from pipeline.site import charts
from pipeline.site.format import flat
from pipeline.site.survey import Evidence, read_csv
from pipeline.site.tables import MOST, plain


class Sizes(BaseModel, strict=True):
    """The numbers of rows that clients hold."""

    min: int
    max: int
    mean: float


class Statistics(BaseModel, strict=True):
    """What a partition's statistics say of its clients; ``label_counts``, [clients, classes], where few."""

    clients: int
    sizes: Sizes
    empty_clients: list[int]
    c_score: float
    label_counts: list[Annotated[list[NonNegativeInt], Field(min_length=1)]] | None = None


def page(evidence: Evidence, root: Path) -> dict[str, Any]:
    """Return what a run's page shows; ``statistics`` are those of its partition, None where there are none.

    It raises DataError if its history holds something else than numbers, and SpecError if its partition's
    statistics are not as they were written.
    """
    run, folder = evidence.run, root / evidence.run.folder
    summary, times, provenance = (read_or_empty(folder / name) for name in (SUMMARY, TIMING, PROVENANCE))
    hashes = {key: value for key, value in summary.items() if key.endswith("sha256")}
    counted = root / run.partition / STATISTICS
    divided = read_or_empty(counted)
    history, spec = folder / HISTORY, folder / SPEC
    tables = {path.name: read_csv(path) for path in sorted(folder.glob("*.csv")) if path != history}
    return {
        "run": run,
        "label": style.label(run.algorithm),
        "status": evidence.facts["status"],
        "used": evidence.used,
        "charts": charts.of_history(read_history(history), run.algorithm) if history.exists() else [],
        "result": flat({key: value for key, value in summary.items() if key not in hashes}),
        "times": flat(times),
        "statistics": validate(Statistics, divided, str(counted)) if divided else None,
        "tables": [(name, *plain(frame), max(0, len(frame) - MOST)) for name, frame in tables.items()],
        "provenance": [
            ("folder", run.folder),
            ("partition", run.partition),
            *flat(hashes),
            *flat({key: value for key, value in provenance.items() if key not in summary}),
        ],
        "spec": spec.read_text(encoding="utf-8") if spec.exists() else yaml.safe_dump(dict(run.spec)),
    }
