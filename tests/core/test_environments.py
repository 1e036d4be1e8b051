"""Containers and environments: one Python, one list of pins, and no registry named."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from pipeline.claims.ledger import PAPERS

HOME = PAPERS.parent.parent
RECIPES = ("Dockerfile", "apptainer.def", "environment.yaml", "pipeline/rules/envs/fedrepro.yaml")
SCRIPTS = ("pipeline/rules/envs/fedrepro.post-deploy.sh", "pyproject.toml", ".ci/run", "README.md")
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text())
HOSTS = re.compile(
    r"(pypi|pythonhosted|docker|quay|ghcr|anaconda|conda|pytorch|nvcr)\.(org|io|com)|index-url"
)


def pythons(text: str) -> set[str]:
    return set(re.findall(r"python[:=](\d+\.\d+)", text))


def test_all_name_the_same_python_and_one_that_the_project_supports() -> None:
    named = {name: pythons((HOME / name).read_text()) for name in RECIPES}
    assert len(set.union(*named.values())) == 1, named
    assert all(named.values()), named
    (version,) = set.union(*named.values())
    assert version in SpecifierSet(PROJECT["project"]["requires-python"])


@pytest.mark.parametrize("name", [*RECIPES, *SCRIPTS])
def test_no_registry_is_named(name: str) -> None:
    assert not HOSTS.search((HOME / name).read_text())


@pytest.mark.parametrize("name", ["Dockerfile", "apptainer.def", "environment.yaml"])
def test_versions_come_from_the_pins_alone(name: str) -> None:
    text = (HOME / name).read_text()
    assert "uv sync" in text
    installed = re.findall(r"pip install (?:--\S+ )*(.*)", text)
    assert all(line.split()[0].strip('"') == "uv" for line in installed)


def test_every_dependency_has_a_pin() -> None:
    pinned = [Requirement(line) for line in PROJECT["tool"]["uv"]["constraint-dependencies"]]
    exact = {requirement.name for requirement in pinned if str(requirement.specifier).startswith("==")}
    groups = (*PROJECT["dependency-groups"].values(), *PROJECT["project"]["optional-dependencies"].values())
    dependencies = [*PROJECT["project"]["dependencies"], *(line for group in groups for line in group)]
    assert {Requirement(line).name for line in dependencies} - {PROJECT["project"]["name"]} <= exact


def test_what_a_container_copies_is_there() -> None:
    copied = re.findall(r"^    (\S+) /fedrepro/\1$", (HOME / "apptainer.def").read_text(), re.MULTILINE)
    assert {"pyproject.toml", "fedcore", "pipeline"} <= set(copied)
    assert all((HOME / name).exists() for name in copied)


def test_conda_channels_are_the_same() -> None:
    first, second = (yaml.safe_load((HOME / name).read_text())["channels"] for name in RECIPES[2:])
    assert first == second
