"""From finished runs to the files of tables and figures: built, sealed, and found sound or not."""

import os
from collections.abc import Iterable
from pathlib import Path

from fedcore.base.errors import DataError
from fedcore.base.files import digest, read_object, sha256_file, write_json
from fedcore.execution.integrity import PROVENANCE, STATISTICS, file_changes, read_sealed, sealed
from pipeline.catalogue.targets import Sources
from pipeline.reports.kept import line_of
from pipeline.reports.results import is_made

REPORTS = Path("reports")
OLD = 86400.0


def build_report(sources: Sources) -> list[Path]:
    """Write and return all files of a target, last its provenance, which says what they were made of.

    It raises DataError if a run that the target needs can't be used.
    """
    partitions = sources.target.needs == "partitions"
    for run, folder in zip(sources.runs, sources.owners, strict=True):
        if not is_made(run, sources.root, partitions):
            raise DataError(f"{folder}: not made, but reports/{sources.paper}/{sources.name} needs it")
    outputs = sources.target.paths(_folder(sources), sources.name)
    sources.build(outputs)
    return [*outputs.values(), seal_report(sources, outputs.values())]


def seal_report(sources: Sources, outputs: Iterable[Path]) -> Path:
    """Write a report's provenance: its plan, what it was made of, and the hashes of its files."""
    files = {output.name: sha256_file(output) for output in outputs}
    stated = {"plan": sources.plan, "made_of": made_of(sources), "files": files}
    write_json(path := _folder(sources) / f"{sources.name}.{PROVENANCE}", sealed(stated))
    return path


def made_of(sources: Sources) -> str:
    """Return a hash of the results that a report shows; what is kept of a run stands for one that isn't here.

    It raises OSError or ValueError if one of them is missing or damaged.
    """
    root = sources.root
    if sources.target.needs == "partitions":
        return digest({folder: sha256_file(root / folder / STATISTICS) for folder in sources.owners})
    kept = {run.folder: line_of(run, root) for run in sources.runs}
    return digest({key: line or read_object(root / key / PROVENANCE)["files"] for key, line in kept.items()})


def is_sound(sources: Sources) -> bool:
    """Whether a report is unchanged and its plan and all that it was made of are those of now."""
    path = _folder(sources) / f"{sources.name}.{PROVENANCE}"
    try:
        stated, expected = read_sealed(path), (sources.plan, made_of(sources))
        return not report_changes(path) and (stated["plan"], stated["made_of"]) == expected
    except (OSError, ValueError, KeyError, AttributeError):
        return False


def is_partial(files: Iterable[Path]) -> bool:
    """Whether these are the files of a table that ``write_partial`` wrote and nobody touched."""
    return {path.stat().st_mtime for path in files} == {OLD}


def _folder(sources: Sources) -> Path:
    return sources.root / REPORTS / sources.paper


def report_changes(path: Path) -> list[str]:
    """Say which files of a report are not as its provenance, at this path, states."""
    try:
        files = read_sealed(path)["files"]
        return list(file_changes(path.parent, files, path.name))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return [f"{path.name} is changed or damaged"]


def write_partial(sources: Sources) -> list[Path]:
    """Write a report of the runs that are here.

    A table's cell without any says ``out of memory``, ``failed`` or nothing. What only a complete report has,
    its provenance and a table's PDF, is deleted, and the files look older than any run: Snakemake then
    completes it when it is asked for it. Returns the files' paths. It raises DataError if it is a figure that
    needs all of its runs, a run is changed or damaged, or none is finished.
    """
    folder, name = _folder(sources), f"reports/{sources.paper}/{sources.name}"
    if sources.target.needs == "partitions":
        raise DataError(f"{name}: needs partitions and no run")
    if not sources.runs:
        raise DataError(f"{name}: needs no run; `fedcore build {sources.paper}/{sources.name}` makes it")
    if sources.target.kind != "table" and not sources.target.partial:
        raise DataError(f"{name}: needs all of its runs, being no table")
    if not any(is_made(run, sources.root) for run in sources.runs):
        raise DataError(f"{name}: none of its {len(sources.runs)} runs is finished")
    outputs = sources.target.paths(folder, sources.name)
    sources.build(outputs)
    for ending in {"pdf", PROVENANCE} - {*sources.target.files}:
        (folder / f"{sources.name}.{ending}").unlink(missing_ok=True)
    for path in outputs.values():
        os.utime(path, (OLD, OLD))
    return list(outputs.values())
