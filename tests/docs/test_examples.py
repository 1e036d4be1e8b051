"""The worked examples do what they say, at small size; docs/examples.md itself is executed elsewhere."""

from __future__ import annotations

import ast
import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from blocks import ROOT

EXAMPLES = ROOT / "examples"


def environment(folder: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FEDCORE_")}
    return kept | {"PATH": path, "PYTHONPATH": str(folder), **more}


def call(folder: Path, command: str, told: dict[str, str]) -> str:
    done = subprocess.run(command.split(), cwd=folder, env=told, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_comparison_takes_twenty_lines() -> None:
    text = (EXAMPLES / "own_data" / "compare.py").read_text()
    tree = ast.parse(text)
    first = tree.body[1].lineno
    lines = [line for line in text.splitlines()[first - 1 :] if line.strip()]
    assert 10 < len(lines) <= 20


def study(folder: Path) -> Path:
    """Copy the study, with a grid of two points, two seeds and two rounds."""
    home = folder / "study"
    shutil.copytree(EXAMPLES / "slurm_study", home, ignore=shutil.ignore_patterns("out", ".snakemake"))
    values = yaml.safe_load((home / "study.yaml").read_text())
    values["base"]["training"]["rounds"] = 2
    values |= {"grid": {"algorithm.mu": [0.0, 0.1], "training.lr": [0.1]}, "seeds": [0, 1]}
    values["data"] = str(ROOT / "data")
    (home / "study.yaml").write_text(yaml.safe_dump(values))
    return home


def test_a_study_s_jobs_are_planned_for_a_cluster(tmp_path: Path) -> None:
    planned = call(study(tmp_path), "snakemake --profile profile --dry-run", environment(ROOT))
    counts = dict(re.findall(r"^(\w+)\s+(\d+)$", planned, re.MULTILINE))
    assert counts == {"all": "1", "spec": "4", "table": "1", "train": "4", "total": "10"}


@pytest.mark.slow
def test_a_study_ends_in_a_table_and_a_new_value_trains_its_runs_alone(tmp_path: Path) -> None:
    home, told = study(tmp_path), environment(ROOT)
    call(home, "snakemake --cores 2", told)
    rows = list(csv.DictReader((home / "out" / "study.csv").open()))
    assert {float(row["algorithm.mu"]) for row in rows} == {0.0, 0.1}
    assert [row["count"] for row in rows] == ["2", "2"]
    assert float(rows[0]["mean"]) >= float(rows[1]["mean"]) > 10
    values = yaml.safe_load((home / "study.yaml").read_text())
    values["grid"]["algorithm.mu"].append(1.0)
    (home / "study.yaml").write_text(yaml.safe_dump(values))
    assert re.search(r"^train\s+2$", call(home, "snakemake --cores 2 --dry-run", told), re.MULTILINE)
