"""``fedcore doctor``: what is here, what is missing, and how to get it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedcore.cli import doctor as doctoring
from fedcore.cli.doctor import PROJECT, machine, packages
from fedcore.cli.main import app
from pipeline.cli import doctor as papers

RUN = CliRunner()


def named(checks: Any, name: str) -> Any:
    return next(check for check in checks if check.name == name)


def test_every_line_says_what_for_and_how_to_get_what_is_not_there() -> None:
    result = RUN.invoke(app, ["doctor", "--json"])
    checks = json.loads(result.stdout)
    assert result.exit_code == any(check["state"] == "wrong" for check in checks)
    assert {"python", "devices", "threads", "disk", "mirror", "torch", "versions", "pdflatex", "dot"} <= {
        check["name"] for check in checks
    }
    assert all(check["found"] and check["purpose"] and check["how"] for check in checks)
    lines = RUN.invoke(app, ["doctor"]).stdout.splitlines()
    assert [line.split()[1] for line in lines] == [check["name"] for check in checks]
    for line, check in zip(lines, checks, strict=True):
        assert ("to get it: " in line) == (check["state"] != "ok")


def test_packages_are_compared_with_what_is_asked() -> None:
    checks = [*packages(["numpy>=1", "numpy<1", "no-such-package", "pytest; extra == 'dev'"], "tests", "pip")]
    assert [check.state for check in checks] == ["ok", "wrong", "wrong"]
    assert checks[2].found == "not installed"
    assert "(tested: <1)" in checks[1].found


def test_another_python_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, state in (("3.9.1", "wrong"), ("3.12.0rc1", "ok")):
        monkeypatch.setattr("platform.python_version", lambda version=version: version)
        assert named(machine(Path("data"), None), "python").state == state


def test_a_mirror_is_a_folder_or_an_address(tmp_path: Path) -> None:
    states = {
        mirror: named(machine(tmp_path, mirror), "mirror").state
        for mirror in (None, str(tmp_path), str(tmp_path / "no"), "https://example.org/data")
    }
    assert list(states.values()) == ["absent", "ok", "absent", "ok"]


def test_a_full_disk_and_a_folder_that_is_locked_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10**9}))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    checks = [*machine(Path("data"), None)]
    assert named(checks, "disk").state == "absent"
    assert {check.state for check in checks if check.name == "folder"} == {"wrong"}


def test_a_torch_that_does_not_load_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise ImportError("libcuda.so: not found")

    monkeypatch.setattr(doctoring, "torch", Broken())
    check = named(machine(Path("data"), None), "devices")
    assert (check.state, "libcuda.so: not found" in check.found) == ("wrong", True)


def test_versions_are_those_of_the_pins(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text('[tool.uv]\nconstraint-dependencies = ["numpy==0.1", "no-such-package==2"]\n')
    check = papers.tested(file)
    assert check.state == "absent"
    assert check.found.startswith("0 of 1 packages as tested, numpy ")


def test_tools_that_are_not_on_path_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    states = {check.name: check.state for check in papers.checks()}
    assert states["pdflatex"] == "absent"
    assert states["sbatch"] == "absent"
    assert PROJECT == "fedrepro"
