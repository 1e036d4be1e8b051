"""The whole demo, built again: other folders, other numbers of jobs, the same results and reports.

Figure 10 shows measured seconds, and so do the pages that repeat them. Dates are left out, but for those that
are drawn into pictures: where midnight comes between the two, pictures may differ.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from project import HOME, contents, copy_sources

HOURS = 3600
TIMED = ("reports/rfedavg/fig10.", "reports/fig10.", "reports/fidelity", "reports/site/")
DRAWN = (".svg", ".pdf", ".png")
AGAIN = ("comfed", "fedomw")


def copied(folder: Path) -> Path:
    """Copy the project."""
    folder.mkdir()
    copy_sources(folder)
    shutil.copytree(HOME / "data" / "demo", folder / "data" / "demo")
    return folder


def built(folder: Path, cores: int) -> dict[str, bytes]:
    """Build every report; return what must be the same wherever that is done."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {key: value for key, value in os.environ.items() if key != "FEDCORE_MIRROR"}
    with (folder / "said.txt").open("w") as log:
        process = subprocess.run(
            ["snakemake", "--cores", str(cores), "reports/all"],
            cwd=folder,
            env=environment | {"PATH": path, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
            check=False,
        )
    assert process.returncode == 0, (folder / "said.txt").read_text()[-4000:]
    parts = {part: contents(folder / part) for part in ("results", "reports")}
    return {f"{part}/{name}": content for part, files in parts.items() for name, content in files.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes], date]:
    """Return a folder with the whole demo, what it holds, and the day when it was begun."""
    folder, began = copied(tmp_path_factory.mktemp("whole") / "one"), date.today()
    return folder, built(folder, 2), began


def differing(whole: tuple[Path, dict[str, bytes], date], other: dict[str, bytes]) -> list[str]:
    """Return which files of two demos differ, and demand that dates and measured seconds alone make them."""
    _, first, began = whole
    assert first.keys() == other.keys()
    drawn = () if date.today() == began else DRAWN
    names = [name for name in sorted(first) if first[name] != other[name]]
    assert [name for name in names if not name.startswith(TIMED) and not name.endswith(drawn)] == []
    return names


@pytest.mark.slow
@pytest.mark.timeout(4 * HOURS)
def test_two_demos_are_the_same_but_for_dates_and_times(
    whole: tuple[Path, dict[str, bytes], date], tmp_path: Path, record_property: Callable[[str, int], None]
) -> None:
    second = built(copied(tmp_path / "other"), 3)
    record_property("trials", len(second) - len(differing(whole, second)))


@pytest.mark.slow
@pytest.mark.timeout(4 * HOURS)
def test_two_papers_trained_again_beside_the_others_results_give_the_same_reports(
    whole: tuple[Path, dict[str, bytes], date], tmp_path: Path
) -> None:
    """Results of the other papers are laid beside, as by DVC; hashes alone say that they need no training."""
    folder = copied(tmp_path / "other")
    for results in sorted((whole[0] / "results").iterdir()):
        if results.is_dir() and results.name not in AGAIN:
            shutil.copytree(results, folder / "results" / results.name)
    laid = {path: path.read_bytes() for path in folder.glob("results/**/timing.json")}
    assert laid
    differing(whole, built(folder, 3))
    assert {path: path.read_bytes() for path in laid} == laid, "what was laid beside is not trained again"
    trained = {path.parts[-6] for path in folder.glob("results/*/*/*/*/*/timing.json") if path not in laid}
    assert trained == {*AGAIN}
