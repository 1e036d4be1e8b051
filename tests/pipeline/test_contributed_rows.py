"""A plug-in file names the papers whose tables it joins, and nothing else has to be edited."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from project import HOME, Project, parameters

EXAMPLE = HOME / "examples" / "new_algorithm"
CODE = """
import json, sys
from pipeline.catalogue import Catalogue
from pipeline.params import load
config = json.loads(sys.argv[1])
catalogue = Catalogue(load(config))
runs = catalogue.needed("rfedavg", "table1")
algorithms = {run.spec["algorithm"]["name"]: run.spec["algorithm"] for run in runs}
print(json.dumps({"runs": len(runs), "rows": list(algorithms), "fedmedian": algorithms.get("fedmedian")}))
"""


def catalogue(plugins: Path | None, config: dict) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(HOME)}
    environment.pop("FEDCORE_PLUGINS", None)
    if plugins:
        environment["FEDCORE_PLUGINS"] = str(plugins)
    command = [sys.executable, "-c", CODE, json.dumps(config)]
    return subprocess.run(command, cwd=HOME, env=environment, capture_output=True, text=True)


def told(plugins: Path | None, config: dict) -> dict:
    done = catalogue(plugins, config)
    assert done.returncode == 0, done.stderr
    found: dict = json.loads(done.stdout)
    return found


def test_the_example_s_file_is_a_row_with_runs_of_its_own() -> None:
    before, after = told(None, parameters()), told(EXAMPLE, parameters())
    assert "fedmedian" not in before["rows"]
    assert after["rows"] == [*before["rows"], "fedmedian"]
    assert after["runs"] * len(before["rows"]) == before["runs"] * len(after["rows"])


def test_what_params_yaml_says_wins() -> None:
    config = parameters()
    config["papers"]["rfedavg"]["algorithms"]["fedmedian"] = {"weighted_by_size": True}
    assert told(EXAMPLE, config)["fedmedian"]["weighted_by_size"] is True


@pytest.mark.parametrize(
    ("papers", "said"),
    [
        (
            '{"rfedvag": {}}',
            "fedmedian.py: PAPERS has the paper 'rfedvag', which is not defined (did you mean 'rfedavg'?)",
        ),
        (
            '["rfedavg"]',
            "fedmedian.py: PAPERS is ['rfedavg'], expected papers with hyperparameters",
        ),
        ('{"rfedavg": {"wieghted": 1}}', "unknown key"),
    ],
)
def test_a_wrong_wish_is_one_line(tmp_path: Path, papers: str, said: str) -> None:
    text = (EXAMPLE / "algorithms" / "fedmedian.py").read_text()
    (tmp_path / "algorithms").mkdir()
    (tmp_path / "algorithms" / "fedmedian.py").write_text(text.replace('{"rfedavg": {}}', papers))
    done = catalogue(tmp_path, parameters())
    assert done.returncode != 0
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_the_example_s_file_is_a_row_of_the_table_and_on_the_site(tmp_path: Path) -> None:
    project = Project.copy(tmp_path)
    plugins = {"FEDCORE_PLUGINS": str(EXAMPLE)}
    project.make("reports/rfedavg/table1.csv")
    before = project.executed()
    project.make("reports/rfedavg/table1.csv", **plugins)
    assert {Path(folder).parent.name.partition("-")[0] for folder in project.executed()} == {"fedmedian"}
    assert not any("fedmedian" in folder for folder in before)
    with (tmp_path / "reports/rfedavg/table1.csv").open() as handle:
        rows = [row for row in csv.DictReader(handle) if row["row"] == "fedmedian"]
    assert len(rows) == 8
    assert all(row["n"] == row["seeds"] == "2" for row in rows)
    project.run("python", "-m", "pipeline", "site", **plugins)
    assert "fedmedian" in (tmp_path / "reports/site/rfedavg.html").read_text()
