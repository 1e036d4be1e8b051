"""What results/ should hold by params.yaml: for `fedcore status`, to check what is there and to prune it."""

import os
import shutil
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from fedcore.base.errors import DataError, SpecError
from fedcore.base.files import digest, read_or_empty
from fedcore.execution.integrity import PARTITION, PROVENANCE, SUMMARY, IntegrityIssue, Report, code_of
from fedcore.partitions.file import load
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import EDITIONS, STUDY, configuration, study_names
from pipeline.catalogue.targets import RESULTS, PlannedRun
from pipeline.papers import catalogue_of
from pipeline.reports import REPORTS, report_changes
from pipeline.reports.kept import line_of
from pipeline.workflow.reports import runs_of


def planned(
    params: Path, report: str = "", scale: str | None = None, over: Path | None = None
) -> dict[str, dict[str, str]]:
    """Return what provenance.json should state of each run of a params.yaml, by folder; none of kept ones.

    ``report`` takes only the runs of a report, paper or other name that a user types; ``scale`` is another
    than params.yaml's own, ``over`` a file laid over it. SpecError if one of them is wrong.
    """
    catalogue = catalogue_of(params, scale, over)
    runs = runs_of(catalogue, report or "all")
    return {run.folder: stated(run) for run in runs if line_of(run, Path()) is None}


def stated(run: PlannedRun) -> dict[str, str]:
    """Return what provenance.json should state of a run besides its files."""
    return {"code": run.code, "spec_sha256": run.spec_sha256}


def check(report: Report, params: Path) -> list[IntegrityIssue]:
    """Compare runs with a params.yaml, or raise SpecError if it is wrong, and reports with their files."""
    catalogue_of(params)  # refuses wrong parameters
    home, scales = params.resolve().parent, {*configuration(params)["scales"], STUDY}
    known: dict[str, Mapping[str, PlannedRun]] = {}
    problems = []
    for folder in report.runs:
        relative = Path(os.path.relpath(folder.resolve(), home))
        if len(relative.parts) != 6 or relative.parts[0] != RESULTS or _of_other_study(relative, params):
            continue
        scale = relative.parts[2]
        if scale not in known:
            laid = _laid_over(params, scale) if scale in scales else []
            known[scale] = ChainMap(*(dict(catalogue.index) for catalogue in laid))
        run = known[scale].get(relative.as_posix())
        problems += [IntegrityIssue(folder, what) for what in _differences(folder, run, home, params, scale)]
    for path in sorted((home / REPORTS).glob(f"*/*.{PROVENANCE}")):
        problems += [IntegrityIssue(path.parent, what) for what in report_changes(path)]
    return problems


def _differences(folder: Path, run: PlannedRun | None, home: Path, params: Path, scale: str) -> Iterator[str]:
    if run is None:
        study = scale == STUDY
        no = "no study describes such a run" if study else f"{params} describes no such run at {scale} scale"
        yield f"{no} (`fedcore prune` lists such)"
        return
    summary = read_or_empty(folder / SUMMARY)
    if summary.get("spec_sha256") != run.spec_sha256:
        yield f"its specification is not the one that {params} describes"
    if code_of(folder) != run.code:
        yield f"made by other code or data files ({code_of(folder)[:12] or 'unknown'}, now {run.code[:12]})"
    partition = home / run.partition / PARTITION
    if partition.is_file() and _rows(partition) not in {"", summary.get("partition_sha256")}:
        yield f"made with another partition than {run.partition}/{PARTITION}"


@cache
def _rows(path: Path) -> str:
    """Return the hash of a partition's rows as runs state it; nothing for a damaged file."""
    try:
        partition, _ = load(path)
    except DataError:
        return ""
    return digest([rows.tolist() for rows in partition.clients])


def _of_other_study(folder: Path, params: Path) -> bool:
    """Whether results/<paper>/<scale>/... belongs to a study whose file is not beside a params.yaml."""
    paper, scale = folder.parts[1:3]
    return scale == STUDY and paper not in study_names(params.parent)


def _laid_over(params: Path, scale: str, over: Path | None = None) -> list[Catalogue]:
    """Return the catalogue of a params.yaml, and with the editions beside it or ``over`` laid over it."""
    paper_scale = None if scale == STUDY else scale
    catalogues = [catalogue_of(params, paper_scale, file) for file in dict.fromkeys((None, over))]
    with suppress(SpecError):  # of data sets that were renamed in it, say: these editions describe no run
        if (params.parent / EDITIONS).is_file():
            catalogues.append(catalogue_of(params, paper_scale, params.parent / EDITIONS))
    return catalogues


def orphans(params: Path, results: Path, over: Path | None = None) -> list[Path]:
    """Return the seed folders below ``results`` that belong to no target at any scale of ``params``.

    Nor do they belong to one with data/editions.yaml, or ``over``, laid over it. Those of studies whose file
    is not in studies/ are left out: they may lie anywhere. It raises SpecError if a file can't be read.
    """
    if over is not None:
        configuration(over)  # refuses a file that can't be read
    catalogue_of(params)  # refuses wrong parameters
    folders = {path.relative_to(results.parent): path for path in results.glob("*/*/*/*/seed*/")}
    scales = {folder.parts[2] for folder in folders} & {*configuration(params)["scales"], STUDY}
    catalogues = [catalogue for scale in sorted(scales) for catalogue in _laid_over(params, scale, over)]
    needed = {folder for catalogue in catalogues for folder in (*catalogue.index, *catalogue.partitions)}
    return sorted(
        path
        for folder, path in folders.items()
        if folder.as_posix() not in needed and not _of_other_study(folder, params)
    )


def remove(folders: list[Path]) -> None:
    """Delete folders, and their parents once they are empty."""
    for folder in folders:
        shutil.rmtree(folder)
        with suppress(OSError):  # of the first that isn't empty
            for parent in list(folder.parents)[:3]:
                parent.rmdir()
