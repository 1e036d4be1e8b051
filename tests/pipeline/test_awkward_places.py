"""Where the project may be: below a folder of any name, its environment in it, and without a home folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from project import HOME, copy_sources

NAME = "a b'c\"d&e$HOME{g}%hö`i;j*k"
SCRIPTS = {"snakemake": "snakemake.cli", "fedcore": "fedcore.cli.main", "dvc": "dvc.cli"}
FIGURE, TABLE = "reports/fedavgr/fig_mmd.svg", "reports/comfed/table1"
MAIN = "reports/table1.tex"


def copy(folder: Path) -> Path:
    """Copy the project as git would, with an environment in it, as uv makes one."""
    folder.mkdir(parents=True)
    copy_sources(folder)
    for name in ("data/demo", "studies"):
        shutil.copytree(HOME / name, folder / name)
    for name in ("dvc.yaml", ".dvcignore", ".gitignore", ".dvc/config"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(HOME / name, folder / name)
    settings = folder / ".dvc" / "config"
    settings.write_text(settings.read_text().replace("[core]", "[core]\n    no_scm = true"))
    shutil.copytree(HOME / ".dvc" / "plots", folder / ".dvc" / "plots")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / ".venv")], check=True)
    (site,) = (folder / ".venv").glob("lib/python*/site-packages")
    (site / "here.pth").write_text(f"{folder}\n{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    for name, module in SCRIPTS.items():
        script = folder / ".venv" / "bin" / name
        script.write_text(
            '#!/bin/sh\nexec "$(dirname "$0")/python" -c '
            f"'import sys; from {module} import main; sys.exit(main())' \"$@\"\n"
        )
        script.chmod(0o755)
    return folder


def call(folder: Path, *command: str, **environment: str) -> str:
    """Run a command as ``uv run`` does; returns what it said."""
    binaries = folder / ".venv" / "bin"
    binaries = binaries if binaries.is_dir() else Path(sys.executable).parent
    path = os.pathsep.join([str(binaries), os.environ["PATH"]])
    kept = {key: value for key, value in os.environ.items() if key != "FEDCORE_MIRROR"}
    process = subprocess.run(
        command,
        cwd=folder,
        env=kept | {"PATH": path, "OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, (process.stdout + process.stderr)[-4000:]
    return process.stdout + process.stderr


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy below a folder whose name has all the characters that a shell or a format gives a meaning."""
    return copy(tmp_path_factory.mktemp("odd") / NAME / "project")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("made", [f"{TABLE}.md", FIGURE])
def test_a_report_is_made_below_any_folder(odd: Path, made: str) -> None:
    snakemake = str(odd / ".venv" / "bin" / "snakemake")
    call(odd, snakemake, "--cores", "1", made, PATH=os.defpath)  # as of an environment that is not activated
    assert (odd / made).stat().st_size
    assert "Nothing to be done" in call(odd, "snakemake", "--cores", "1", made)


@pytest.mark.slow
def test_site_board_and_dvc_work_below_any_folder(odd: Path) -> None:
    assert "wrote reports/site/index.html" in call(odd, "python", "-m", "pipeline", "site")
    call(odd, "python", "-m", "pipeline", "fidelity")
    assert "snakemake data" in call(odd, "dvc", "repro", "--dry", "data")
    assert "changed" in call(odd, "dvc", "status", "data")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_main_command_works_below_any_folder(odd: Path) -> None:
    call(odd, "snakemake", "--cores", "2", MAIN)
    assert (odd / MAIN).read_text().startswith("%")
    assert "Nothing to be done" in call(odd, "snakemake", "--cores", "2", MAIN)


def test_no_rule_leaves_the_interpreter_to_snakemake() -> None:
    """It doesn't quote the interpreter of a ``script:`` or ``notebook:``."""
    rules = [*(HOME / "pipeline" / "rules").glob("*.smk"), HOME / "Snakefile"]
    assert len(rules) > 5
    for path in rules:
        assert not re.search(r"^\s*(script|notebook|run):", path.read_text(), re.MULTILINE), path.name


def test_a_home_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    copy_sources(project)
    nowhere = tmp_path / "file"
    nowhere.touch()
    place = {"HOME": str(nowhere / "home"), "PYTHONPATH": str(project)}
    unset = dict.fromkeys(("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "MPLCONFIGDIR"), "")
    call(project, "snakemake", "--cores", "1", f"{TABLE}.md", **place, **unset)
    assert (project / f"{TABLE}.md").exists()
