"""The kept results as a Data Package: an independent library reads every file by its description."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import frictionless
import pytest

from fedcore.base.errors import DataError
from pipeline.fidelity.package import PACKAGE, package
from pipeline.reports.kept import REFERENCE


def test_the_description_is_of_the_files_that_are_kept() -> None:
    assert json.loads((REFERENCE / PACKAGE).read_text()) == package(REFERENCE), "run uv run fedcore reference"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_frictionless_reads_every_file_by_its_description() -> None:
    """Standard, types of all columns, sizes and hashes."""
    report = frictionless.validate(str(REFERENCE / PACKAGE))
    assert report.valid, report.flatten(["title", "fieldName", "rowNumber", "message"])[:5]
    assert len(report.tasks) == len([*REFERENCE.rglob("*.csv"), *REFERENCE.rglob("*.parquet")])


def test_papers_files_pass_and_a_changed_number_does_not(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "comfed").mkdir(parents=True)
    for name in ("table4_by_client.csv", "early.csv", "runs.parquet"):
        shutil.copy(REFERENCE / "comfed" / name, kept / "comfed")
    (kept / "radfed").mkdir()
    for path in REFERENCE.glob("radfed/*_readings.csv"):  # one of its choices has the name of a column
        shutil.copy(path, kept / "radfed")
    (kept / PACKAGE).write_text(json.dumps(package(kept)))
    report = frictionless.validate(str(kept / PACKAGE))
    assert report.valid, report.flatten(["title", "fieldName", "rowNumber", "message"])[:5]
    assert len(report.tasks) == len([*kept.rglob("*.csv"), *kept.rglob("*.parquet")])
    path = kept / "comfed/table4_by_client.csv"
    path.write_text(path.read_text().replace(",paper,paper,", ",Paper,paper,", 1))
    changed = frictionless.Package(str(kept / PACKAGE)).get_resource("comfed-table4_by_client")
    assert changed.validate().flatten(["type"]) == [["hash-count"]]


def test_a_column_without_an_explanation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_text("row,flavour\na,1\n")
    with pytest.raises(DataError, match=r"some\.csv: flavour: no such column in columns\.yaml"):
        package(tmp_path)
