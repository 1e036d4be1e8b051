"""The worked examples do what they say, at small size; docs/examples.md itself is executed elsewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pandas as pd
import pytest
from blocks import ROOT, blocks

from fedcore.base import core_yaml
from fedcore.base.registry import plugins
from pipeline.catalogue.params import configuration
from pipeline.cli.benchmark import SMALL, with_method
from pipeline.papers import build_catalogue
from pipeline.reports.trials import TRIALS

PAGE = ROOT / "docs/add-an-algorithm.md"
EXAMPLES = ROOT / "examples"


def test_the_comparison_takes_twenty_lines() -> None:
    text = (EXAMPLES / "own_data" / "compare.py").read_text()
    tree = ast.parse(text)
    first = tree.body[1].lineno
    lines = [line for line in text.splitlines()[first - 1 :] if line.strip()]
    assert 10 < len(lines) <= 20


def test_the_algorithm_of_the_page_is_tuned_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "algorithms/fedclip.py"
    path.parent.mkdir()
    path.write_text(
        next(block.code for block in blocks(PAGE) if block.title == "plugins/algorithms/fedclip.py")
    )
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("FEDCORE_PLUGINS", str(tmp_path))
    plugins.cache_clear()
    request.addfinalizer(plugins.cache_clear)
    study = with_method(core_yaml.read(SMALL, "study"), "fedclip")
    catalogue = build_catalogue(configuration(Path("params.yaml")) | {"studies": {str(SMALL): study}})
    runs = [run for run in catalogue.needed(SMALL.stem, TRIALS) if run.algorithm == "fedclip"]
    lengths = {run.spec["algorithm"]["length"] for run in runs}
    assert len(runs) == len(lengths) == 4 * 6
    assert 0.1 <= min(lengths) < 0.5 < 2 < max(lengths) <= 10


def test_the_page_s_rank_has_the_kept_effects_of_the_others() -> None:
    (shown,) = (block.code for block in blocks(PAGE) if "on as many data sets" in block.code)
    lines = dict(reversed(line) for line in re.findall(r"^ +([+-][\d.]+)  (\w+)$", shown, re.MULTILINE))
    board = pd.read_csv(ROOT / f"reports/reference/{SMALL.stem}/board.csv").set_index("row")["effect"]
    others = {name: f"{board[name]:+.2f}" for name in lines if name not in {"fedavg", "fedclip"}}
    assert others == {name: lines[name] for name in others}
    assert len(others) == 4
