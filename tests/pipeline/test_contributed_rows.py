"""A plug-in file names the papers whose tables it joins, and nothing else has to be edited."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from project import HOME, Project, parameters
from wording import one_line

from fedcore.base.errors import SpecError
from fedcore.base.registry import plugins
from pipeline.papers import build_catalogue

EXAMPLE = HOME / "examples" / "new_algorithm"


@pytest.fixture
def contributed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Let a folder's plug-ins be found, until the test ends."""

    def put(folder: Path) -> None:
        monkeypatch.setenv("FEDCORE_PLUGINS", str(folder))
        plugins.cache_clear()

    yield put
    monkeypatch.undo()
    sys.modules.pop("fedcore_plugins.algorithms.fedmedian", None)
    plugins.cache_clear()


def algorithms(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the algorithms of all runs of Table I."""
    return [run.spec["algorithm"] for run in build_catalogue(config).needed("rfedavg", "table1")]


def test_the_example_s_file_is_a_row_with_runs_of_its_own(contributed: Callable[[Path], None]) -> None:
    before = Counter(algorithm["name"] for algorithm in algorithms(parameters()))
    contributed(EXAMPLE)
    after = Counter(algorithm["name"] for algorithm in algorithms(parameters()))
    assert after - before == {"fedmedian": before["fedavg"]}
    assert before - after == {}


def test_what_params_yaml_says_wins(contributed: Callable[[Path], None]) -> None:
    contributed(EXAMPLE)
    config = parameters()
    config["papers"]["rfedavg"]["algorithms"]["fedmedian"] = {"weighted_by_size": True}
    medians = [algorithm for algorithm in algorithms(config) if algorithm["name"] == "fedmedian"]
    assert medians
    assert all(algorithm["weighted_by_size"] for algorithm in medians)


@pytest.mark.parametrize(
    ("papers", "said"),
    [
        ('{"rfedvag": {}}', "PAPERS has the paper 'rfedvag', which is not defined (did you mean 'rfedavg'?)"),
        ('["rfedavg"]', "PAPERS is ['rfedavg'], expected keys by paper"),
        ('{"rfedavg": {"wieghted": 1}}', "unknown key"),
    ],
)
def test_a_wrong_wish_is_one_line(
    tmp_path: Path, contributed: Callable[[Path], None], papers: str, said: str
) -> None:
    text = (EXAMPLE / "algorithms" / "fedmedian.py").read_text()
    (tmp_path / "algorithms").mkdir()
    (tmp_path / "algorithms" / "fedmedian.py").write_text(text.replace('{"rfedavg": {}}', papers))
    contributed(tmp_path)
    with pytest.raises(SpecError) as caught:
        algorithms(parameters())
    assert said in str(caught.value)
    one_line(caught.value)


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
    assert "FedMedian" in (tmp_path / "reports/site/own/rfedavg.html").read_text()
