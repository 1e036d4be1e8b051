"""DVC calls Snakemake: a second ``dvc repro`` does nothing, and an edit redoes what it touches."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from project import HOME, Project

TABLE = "reports/rfedavg/table3.tex"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    copy = Project.copy(tmp_path_factory.mktemp("project"))
    for name in ("dvc.yaml", ".dvcignore", ".dvc/config"):
        (copy.folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(HOME / name, copy.folder / name)
    (copy.folder / ".dvc" / "config").write_text(
        (HOME / ".dvc" / "config").read_text().replace("[core]", "[core]\n    no_scm = true")
    )
    shutil.copytree(HOME / "data" / "demo", copy.folder / "data" / "demo")
    copy.edit("dvc.yaml", "cmd: snakemake reports/rfedavg", f"cmd: snakemake {TABLE}")
    copy.edit("dvc.yaml", ", studies/label_skew.yaml]", "]")
    return copy


def test_repro_builds_a_paper_and_a_second_one_does_nothing(project: Project) -> None:
    project.run("dvc", "repro", "rfedavg")
    assert len(project.executed()) == 4 * 2 * 2
    assert (project.folder / TABLE).exists()
    text = project.run("dvc", "repro", "rfedavg")
    assert text.count("didn't change, skipping") == 2
    assert "Data and pipelines are up to date." in text
    assert project.executed() == []


@pytest.mark.slow
def test_an_edit_redoes_what_it_touches(project: Project) -> None:
    project.run("dvc", "repro", "rfedavg")
    project.executed()
    before = (project.folder / TABLE).read_text()
    project.edit("params.yaml", "lambda: 0.0001", "lambda: 0.001")
    project.run("dvc", "repro", "rfedavg")
    executed = project.executed()
    assert len(executed) == 2 * 2
    assert all("mnist-sim0/rfedavg-" in folder for folder in executed)
    assert (project.folder / TABLE).read_text() == before, "as many bytes are sent"


def test_no_data_leaves_the_machine() -> None:
    text = (HOME / ".dvc" / "config").read_text()
    assert "analytics = false" in text
    assert "remote" not in text
    assert Path(HOME, ".dvcignore").exists()
