"""A build in a real terminal: a line for each job, and the table where it fits."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pexpect
import pytest
from project import Project

TABLE = "reports/rfedavg/table3.md"
STYLES = re.compile(r"\x1b\[[\d;]*m")


def built(project: Project, columns: int) -> str:
    """Return what a build of the table writes to a terminal so many columns wide."""
    environment = project.environment(TERM="xterm-256color", FEDCORE_WARM="0")
    child = pexpect.spawn(
        str(Path(sys.executable).with_name("snakemake")),
        ["--cores", "2", TABLE],
        cwd=project.folder,
        env={key: value for key, value in environment.items() if key != "COLUMNS"},  # pytest sets it
        dimensions=(50, columns),
        encoding="utf-8",
        timeout=300,
    )
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.before
    return str(child.before)


@pytest.mark.slow
def test_a_build_ends_with_the_table_if_the_terminal_is_wide_enough(tmp_path: Path) -> None:
    project = Project.copy(tmp_path)
    wide = built(project, 120)
    lines = STYLES.sub("", wide).splitlines()
    job = re.compile(r" ?\d+/17  rFedAvg\+? on MNIST \(sim0, cross device\), seeds 0, 1  \(.*\)")
    assert len([*filter(job.fullmatch, lines)]) == 2
    (head,) = [line for line in lines if "Cross-silo CNN" in line]
    rows = [line for line in lines if re.match(r"  rFedAvg\+? ", line)]
    assert len({len(line) for line in (head, *rows)}) == 1, "columns are aligned"
    assert len(head) < 120
    assert "\x1b[1mreports/rfedavg/table3.md\x1b[0m" in wide
    (coming,) = [line for line in lines if line.startswith("Next: ")]
    assert coming.endswith("reports/rfedavg/table3.html --config scale=quick")
    (project.folder / TABLE).unlink()
    narrow = built(project, 60)
    assert "\x1b[1mreports/rfedavg/table3.md\x1b[0m" in narrow
    assert "Cross-silo CNN" not in narrow
