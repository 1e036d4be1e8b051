"""The whole demo, built twice: other folders, other numbers of jobs, the same results and reports.

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


def copied(folder: Path) -> Path:
    """Copy the project."""
    folder.mkdir()
    copy_sources(folder)
    shutil.copytree(HOME / "data" / "demo", folder / "data" / "demo")
    return folder


def built(folder: Path, cores: int) -> dict[str, bytes]:
    """Build every report; return what must be the same wherever that is done."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {key: value for key, value in os.environ.items() if key != "FEDCORE_MIRROR"}
    with (folder / "said.txt").open("w") as said:
        done = subprocess.run(
            ["snakemake", "--cores", str(cores), "reports/all"],
            cwd=folder,
            env=own | {"PATH": path, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
            stdout=said,
            stderr=said,
            check=False,
        )
    assert done.returncode == 0, (folder / "said.txt").read_text()[-4000:]
    made = {part: contents(folder / part) for part in ("results", "reports")}
    return {f"{part}/{name}": content for part, own in made.items() for name, content in own.items()}


@pytest.mark.slow
@pytest.mark.timeout(4 * HOURS)
def test_two_demos_are_the_same_but_for_dates_and_times(
    tmp_path: Path, record_property: Callable[[str, int], None]
) -> None:
    one, other = copied(tmp_path / "one"), copied(tmp_path / "other")
    began = date.today()
    first, second = built(one, 2), built(other, 3)
    assert first.keys() == second.keys()
    drawn = () if date.today() == began else DRAWN
    different = [name for name in sorted(first) if first[name] != second[name]]
    assert [name for name in different if not name.startswith(TIMED) and not name.endswith(drawn)] == []
    record_property("trials", len(first) - len(different))
