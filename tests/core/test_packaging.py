"""What is installed: the library with what it imports, the pipeline's needs apart, one version."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pytest
import yaml
from packaging.requirements import Requirement

import fedcore
from fedcore.base import lazy

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = {"fedcore", "pipeline", "snakemake_logger_plugin_fedrepro"}
COMMANDS = {"dvc", "snakemake-executor-plugin-slurm"}  # called, or found by name
PACKAGES = {
    name: value.__name__.split(".")[0] for name, value in vars(lazy).items() if isinstance(value, lazy.Lazy)
}
MNIST = {
    "data": {"name": "mnist", "edition": "demo"},
    "partition": {"name": "dirichlet", "clients": 5, "alpha": 0.5, "convention": "by_client"},
    "model": {"name": "logistic"},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 1, "batch_size": 20, "lr": 0.1},
}
DOCS = {"mkdocs-material", "mkdocstrings"}  # named in mkdocs.yml alone


def declared(lines: list[str]) -> set[str]:
    return {Requirement(line).name for line in lines}


def imported(package: str) -> set[str]:
    """Return the distributions that a package imports anywhere but for annotations alone."""
    names: set[str] = set()
    for path in (ROOT / package).rglob("*.py"):
        tree = ast.parse(path.read_text())
        skipped = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if node in skipped:
                continue
            if isinstance(node, ast.ImportFrom) and node.module == lazy.__name__:
                names |= {PACKAGES[alias.name] for alias in node.names if alias.name in PACKAGES}
            elif isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    known = packages_distributions()
    others = names - OURS - set(sys.stdlib_module_names)
    return {re.sub(r"[-_.]+", "-", known[name][0]).lower() for name in others}


def test_the_library_asks_for_what_it_imports_and_no_more() -> None:
    through_others = {"pyarrow", "tqdm"}  # pandas reads parquet with one, pooch draws its bar with the other
    compiled = declared(PROJECT["optional-dependencies"]["compiled"])
    assert imported("fedcore") | through_others == declared(PROJECT["dependencies"]) | compiled


def test_the_pipeline_s_extra_is_what_it_needs_beside_the_library() -> None:
    extra = declared(PROJECT["optional-dependencies"]["pipeline"])
    names = imported("pipeline") | imported("snakemake_logger_plugin_fedrepro")
    assert names - declared(PROJECT["dependencies"]) == extra - COMMANDS - DOCS
    assert extra >= COMMANDS


def test_one_version_everywhere() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert fedcore.__version__ == PROJECT["version"] == cited["version"]
    assert {"cff-version", "message", "title", "authors", "license"} <= set(cited)
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] in {"Unreleased", PROJECT["version"]}


def test_the_documented_pythons_are_those_that_install() -> None:
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert PROJECT["requires-python"] == ">=3.11,<3.14"
    assert named == ["3.11", "3.12", "3.13"]
    page = (ROOT / "docs" / "platforms.md").read_text()
    assert all(f"| {version} |" in page for version in named)


def uv(*arguments: str | Path) -> None:
    process = subprocess.run(["uv", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
def test_the_wheel_is_the_library_and_runs_without_the_pipeline(tmp_path: Path) -> None:
    uv("build", "--wheel", "--out-dir", tmp_path / "dist")
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        lines = archive.read(metadata).decode().splitlines()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"fedcore"}
    facts = {str(path.relative_to(ROOT)) for path in (ROOT / "fedcore").rglob("*.yaml")}
    assert {"fedcore/py.typed", "fedcore/cli/start.py", "fedcore/data/datasets/libsvm.yaml", *facts} <= names
    assert wheel.stat().st_size < 3_000_000
    needed = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist")]
    assert declared([line for line in needed if "extra ==" not in line]) == declared(PROJECT["dependencies"])
    assert f"Version: {PROJECT['version']}" in lines
    assert any(line.startswith("License-File: LICENSE") for line in lines)

    home = tmp_path / "venv"
    uv("venv", "--python", sys.executable, home)
    uv("pip", "install", "--no-deps", "--offline", "--python", home, wheel)
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    (site / "sitecustomize.py").write_text(
        "import sys\n"
        "for name in ('pipeline', 'snakemake', 'dvc', 'plotly', 'sklearn'):\n"
        "    sys.modules[name] = None\n"
    )
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    folder = tmp_path / "work"
    (folder / "data" / "clients").mkdir(parents=True)
    generator = np.random.default_rng(0)
    for name in ("clients/a", "clients/b", "test"):
        x = generator.normal(size=(20, 3)).astype(np.float32)
        np.savez(folder / "data" / f"{name}.npz", x=x, y=(x[:, 0] > 0).astype(np.int64))
    spec = {
        "data": {"name": "npz", "path": "data"},
        "model": {"name": "logistic"},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 2, "batch_size": 5, "lr": 0.1},
    }
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    (folder / "params.yaml").write_text("")

    def fedcore_command(*arguments: str) -> str:
        process = subprocess.run(
            [home / "bin" / "fedcore", *arguments], cwd=folder, env=variables, capture_output=True, text=True
        )
        assert process.returncode == 0, process.stderr
        return process.stdout

    fedcore_command("run", "spec.yaml", "--out", "out/one")
    assert (folder / "out/one/history.csv").read_text().count("\n") == 4
    fedcore_command("verify", "out")
    assert "fedavg" in fedcore_command("list", "algorithms")
    code = "import fedcore, sys; print(fedcore.__file__)"
    place = subprocess.run(
        [home / "bin" / "python", "-c", code], cwd=folder, env=variables, capture_output=True, text=True
    )
    assert Path(place.stdout.strip()).is_relative_to(site)

    bare = tmp_path / "bare"
    bare.mkdir()
    code = f"import fedcore; print(fedcore.run({MNIST}).summary['data_note'])"
    process = subprocess.run(
        [home / "bin" / "python", "-c", code], cwd=bare, env=variables, capture_output=True, text=True
    )
    assert process.stdout.startswith("2,000 + 1,000 images"), process.stderr
    assert not list(bare.iterdir())
