"""docs/add-an-algorithm.md does what it says: the file on the page is an algorithm."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

PAGE = Path(__file__).parents[2] / "docs" / "add-an-algorithm.md"
ROOT = PAGE.parents[1]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def fedcore(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fedcore.cli.main", *arguments]
    environment = {**os.environ, "FEDCORE_PLUGINS": "plugins", "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_page_s_algorithm_runs_by_name(tmp_path: Path) -> None:
    plugin = tmp_path / "plugins/algorithms/fedclip.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(blocks("python")[0])
    spec = yaml.safe_load(blocks("yaml")[0])
    (tmp_path / "fedclip.yaml").write_text(yaml.safe_dump(spec))
    arguments = blocks("sh")[1].split()[1:]

    done = fedcore(tmp_path, *arguments, "--root", str(ROOT / "data"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/fedclip/history.csv").read_text().count("\n") == 5

    spec["algorithm"]["length"] = -1
    (tmp_path / "fedclip.yaml").write_text(yaml.safe_dump(spec))
    refused = fedcore(tmp_path, *arguments)
    assert refused.returncode == 2
    assert "algorithm.length: got -1, expected greater than 0" in refused.stderr
    assert refused.stderr.split(": ", 1)[1].split(": ", 1)[1].strip() in PAGE.read_text()


def test_a_broken_plugin_file_is_named(tmp_path: Path) -> None:
    plugin = tmp_path / "plugins/algorithms/broken.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("import no_such_module\n")
    (tmp_path / "s.yaml").write_text(blocks("yaml")[0])
    done = fedcore(tmp_path, "run", "s.yaml", "--out", "out")
    assert done.returncode == 2
    assert "broken.py: cannot be loaded (ModuleNotFoundError" in done.stderr
