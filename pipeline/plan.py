"""What results/ should hold: the runs of params.yaml, for ``fedcore status``."""

from __future__ import annotations

from pathlib import Path

from fedcore.base.files import canonical_json, sha256_text
from pipeline.catalogue.targets import PlannedRun
from pipeline.papers import catalogue_of


def planned(params: Path, report: str = "") -> dict[str, dict[str, str]]:
    """Return what provenance.json should state of each run, by folder.

    Args:
        params: a params.yaml; its own scale counts.
        report: only the runs of this report, such as ``reports/rfedavg/table1.tex``.

    Raises:
        SpecError: params.yaml is wrong, or there is no such report.
    """
    catalogue = catalogue_of(params)
    runs = catalogue.index.values()
    if not report:
        return {run.folder: stated(run) for run in runs}
    parts = Path(report).with_suffix("").parts[-2:]
    paper, target = (
        parts if len(parts) == 2 and parts[0] != "reports" else (catalogue.params.primary, parts[-1])
    )
    catalogue.target(paper, target)
    return {run.folder: stated(run) for run in catalogue.needed(paper, target)}


def stated(run: PlannedRun) -> dict[str, str]:
    """Return what provenance.json should state of a run besides its files."""
    return {"code": run.code, "spec_sha256": sha256_text(canonical_json(run.spec))}
