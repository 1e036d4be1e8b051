"""docs/add-a-dataset.md does what it says: the file on the page is a data set."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

from fedcore.download import inventory

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "add-a-dataset.md"


def block(language: str, place: int = 0) -> str:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[place]


def test_the_page_s_data_set_is_verified_and_trained_on(tmp_path: Path) -> None:
    for name, text in {"plugins/datasets/rings.py": block("python"), "rings.yaml": block("yaml")}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "rings.csv.gz").write_bytes(gzip.compress(block("csv").encode()))
    environment = {**os.environ, "FEDCORE_PLUGINS": "plugins", "PYTHONPATH": str(ROOT)}

    def fedcore(line: str) -> str:
        command = [sys.executable, "-m", "fedcore.cli.main", *line.split()[1:]]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "ok      1      rows=8" in fedcore(block("sh").splitlines()[1])
    fedcore(block("sh", 1).strip())
    assert (tmp_path / "out/rings/history.csv").read_text().count("\n") == 5


def test_the_data_page_names_every_edition() -> None:
    text = (ROOT / "docs" / "data.md").read_text()
    for name, entry in inventory.entries().items():
        for edition in entry.declaration.editions:
            assert f"`{edition}`" in text, f"{name}: {edition}"
