"""From finished runs to the files of tables and figures: built, sealed, and found sound or not."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedcore.base.errors import DataError
from fedcore.base.files import digest, read_object, sha256_file, write_json
from fedcore.execution.integrity import PROVENANCE, STATISTICS, file_changes, read_sealed, sealed
from pipeline.catalogue import Catalogue
from pipeline.catalogue.targets import PlannedRun
from pipeline.reports.kept import line_of
from pipeline.reports.results import made

REPORTS = Path("reports")
FROM_ALL_RUNS = ("pdf", PROVENANCE)
OLD = 86400.0


def build_report(catalogue: Catalogue, paper: str, target: str) -> list[Path]:
    """Write and return all files of a target, last its provenance, which says what they were made of.

    Raises:
        SpecError: there is no such target.
        DataError: a run that the target needs can't be used.
    """
    reports = catalogue.target(paper, target).paths(REPORTS / paper, target)
    provenance = REPORTS / paper / f"{target}.{PROVENANCE}"
    catalogue.build(paper, target, reports)
    seal_report(catalogue, paper, target, reports.values(), provenance)
    return [*reports.values(), provenance]


def seal_report(
    catalogue: Catalogue, paper: str, target: str, outputs: Iterable[Path], path: Path, root: Path = Path()
) -> None:
    """Write a report's provenance: its plan, what it was made of, and the hashes of its files."""
    files = {output.name: sha256_file(output) for output in outputs}
    plan = {"plan": catalogue.plan(paper, target), "made_of": made_of(catalogue, paper, target, root)}
    write_json(path, sealed({**plan, "files": files}))


def made_of(catalogue: Catalogue, paper: str, target: str, root: Path = Path()) -> str:
    """Return a hash of the results that a report shows.

    Raises:
        OSError, ValueError: one of them is missing or damaged.
    """
    needed = catalogue.needed(paper, target)
    if catalogue.target(paper, target).needs == "partitions":
        return digest({run.partition: sha256_file(root / run.partition / STATISTICS) for run in needed})
    return digest({run.folder: _hashes(run, root) for run in needed})


def _hashes(run: PlannedRun, root: Path) -> Mapping[str, str]:
    """Return the hashes of a run's files, or what is kept of a run that is not here."""
    return line_of(run, root) or read_object(root / run.folder / PROVENANCE)["files"]


def owners(catalogue: Catalogue, paper: str, target: str) -> list[str]:
    """Return the folders of what a report is made of."""
    partitions = catalogue.target(paper, target).needs == "partitions"
    return [run.partition if partitions else run.folder for run in catalogue.needed(paper, target)]


def is_sound(catalogue: Catalogue, paper: str, target: str, root: Path) -> bool:
    """Whether a report is unchanged and its plan and all that it was made of are those of now."""
    folder = root / REPORTS / paper
    try:
        stated = read_sealed(folder / f"{target}.{PROVENANCE}")
        same = all(sha256_file(folder / name) == was for name, was in stated["files"].items())
        now = made_of(catalogue, paper, target, root)
    except (OSError, ValueError, KeyError, AttributeError):
        return False
    return same and stated["plan"] == catalogue.plan(paper, target) and stated["made_of"] == now


def report_changes(path: Path) -> list[str]:
    """Say which files of a report are not as its provenance, at this path, states."""
    try:
        files = read_sealed(path)["files"]
        return list(file_changes(path.parent, files, path.name))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return [f"{path.name} is changed or damaged"]


def write_partial(catalogue: Catalogue, paper: str, target: str, root: Path = Path()) -> list[Path]:
    """Write a table in all its forms; a cell without any run says ``out of memory``, ``failed`` or nothing.

    What only a complete table has, its PDF and its provenance, is deleted, and the files look older than any
    run: Snakemake then completes the table when it is asked for it. Returns the files' paths.

    Raises:
        SpecError: there is no such target.
        DataError: it is no table, a run is changed or damaged, or none is finished.
    """
    folder = root / REPORTS / paper
    about = catalogue.target(paper, target)
    if about.kind != "table":
        raise DataError(f"reports/{paper}/{target}: is no table")
    outputs = about.paths(folder, target)
    runs = catalogue.needed(paper, target)
    if not any(made(run, root) for run in runs):
        raise DataError(f"reports/{paper}/{target}: none of its {len(runs)} runs is finished")
    catalogue.build(paper, target, outputs, root)
    for ending in FROM_ALL_RUNS:
        (folder / f"{target}.{ending}").unlink(missing_ok=True)
    for path in outputs.values():
        os.utime(path, (OLD, OLD))
    return list(outputs.values())
