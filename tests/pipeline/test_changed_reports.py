"""Reports changed by hand: every form is named by ``fedcore verify``, and the site says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from pretended import catalogue, finish
from project import parameters
from typer.testing import CliRunner

from fedcore.base.errors import DataError
from fedcore.cli.main import app
from pipeline.catalogue.targets import TABLE_FILES
from pipeline.reports import build_report
from pipeline.site import build

CONFIG = parameters("fedomw") | {"primary_paper": "fedomw", "scale": "demo"}
SAID = "These files are not as they were built"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with one table, sealed."""
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False))
    monkeypatch.chdir(tmp_path)
    planned = catalogue("fedomw")
    for run in planned.needed("fedomw", "table2"):
        finish(run, tmp_path, 0.5)
    build_report(planned.sources("fedomw", "table2"))
    return tmp_path


def verified() -> list[str]:
    return [line for line in CliRunner().invoke(app, ["verify"]).stdout.splitlines() if "reports" in line]


@pytest.mark.parametrize("ending", TABLE_FILES)
def test_a_changed_form_is_named(home: Path, ending: str) -> None:
    assert verified() == []
    path = home / f"reports/fedomw/table2.{ending}"
    path.write_text(path.read_text().replace("50", "99", 1))
    (line,) = verified()
    assert line.endswith(
        f"reports/fedomw: table2.{ending} is changed (its SHA-256 is not the one in table2.provenance.json)"
    )


def test_a_missing_form_and_a_changed_provenance_are_named(home: Path) -> None:
    (home / "reports/fedomw/table2.csv").unlink()
    assert verified()[0].endswith("table2.csv is missing")
    path = home / "reports/fedomw/table2.provenance.json"
    path.write_text(path.read_text().replace("table2.md", "table2.mb"))
    assert verified()[0].endswith("table2.provenance.json is changed or damaged")


@pytest.mark.slow
def test_the_site_says_which_report_was_changed(home: Path) -> None:
    build(CONFIG)
    assert SAID not in (home / "reports/site/own/fedomw.html").read_text()
    path = home / "reports/fedomw/table2.csv"
    path.write_text(path.read_text().replace(",50,", ",99,"))
    build(CONFIG)
    assert f"{SAID}: table2.csv is changed" in (home / "reports/site/own/fedomw.html").read_text()


def test_a_report_of_a_run_that_is_gone_is_left_as_it_is(home: Path) -> None:
    planned = catalogue("fedomw")
    run = planned.needed("fedomw", "table2")[0]
    before = {path.name: path.read_bytes() for path in (home / "reports/fedomw").iterdir()}
    shutil.rmtree(home / run.folder)
    with pytest.raises(DataError, match=f"^{run.folder}: not made, but reports/fedomw/table2 needs it$"):
        build_report(planned.sources("fedomw", "table2"))
    assert {path.name: path.read_bytes() for path in (home / "reports/fedomw").iterdir()} == before
