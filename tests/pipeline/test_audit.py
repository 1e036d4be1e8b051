"""Pins against lists of weaknesses: those found are listed, and where nobody answers one line says so."""

from __future__ import annotations

import json
import os
import re
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest
from project import HOME
from typer.testing import CliRunner

from fedcore.base.errors import FedcoreError
from pipeline.__main__ import app
from pipeline.cli import doctor

STUB = """
import json, sys
mode = open({mode!r}).read()
if mode == "unreachable":
    sys.exit("Traceback\\n  more\\nrequests.ConnectionError: nobody is there")
if mode == "refused":
    print("ERROR:pip_audit:Could not connect\\nERROR:pip_audit:Tip: try another", file=sys.stderr)
    sys.exit(1)
asked = open(sys.argv[sys.argv.index("--requirement") + 1]).read().split("\\n")
names = [line.split("==")[0] for line in asked if line]
weak = [{{"id": "CVE-1", "fix_versions": ["9.9"], "aliases": [], "description": "x"}}]
found = [{{"name": n, "version": "1", "vulns": weak if n == mode else []}} for n in names]
open(sys.argv[sys.argv.index("--output") + 1], "w").write(json.dumps({{"dependencies": found, "fixes": []}}))
sys.exit(any(line["vulns"] for line in found))
"""


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for pip-audit; the file that is returned says how it behaves."""
    mode = tmp_path / "mode"
    (tmp_path / "pip_audit.py").write_text(STUB.format(mode=str(mode)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(HOME)
    return mode


def test_every_pin_is_looked_up(stub: Path) -> None:
    pins = tomllib.loads((HOME / "pyproject.toml").read_text())["tool"]["uv"]["constraint-dependencies"]
    stub.write_text("none")
    result = CliRunner().invoke(app, ["audit"])
    assert (result.exit_code, result.output) == (0, f"{len(pins)} pins, no known weaknesses\n")


def test_a_known_weakness_is_listed(stub: Path) -> None:
    stub.write_text("numpy")
    result = CliRunner().invoke(app, ["audit"])
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "numpy 1: CVE-1, mended in 9.9"


@pytest.mark.parametrize(
    ("mode", "reason"),
    [("unreachable", "requests.ConnectionError: nobody is there"), ("refused", "Could not connect")],
)
def test_where_nobody_answers_one_line_says_so(stub: Path, mode: str, reason: str) -> None:
    stub.write_text(mode)
    with pytest.raises(FedcoreError) as error:
        doctor.audit()
    assert re.fullmatch(
        r"the list of known weaknesses can't be reached, so nothing was checked \(.*\)", str(error.value)
    )
    assert reason in str(error.value)


class Osv(BaseHTTPRequestHandler):
    """Answers as OSV does: one package is weak."""

    def do_POST(self) -> None:
        package = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["package"]
        weak = {
            "id": "TOY-1",
            "summary": "made up",
            "published": "2024-01-01T00:00:00Z",
            "affected": [
                {"package": package, "ranges": [{"type": "ECOSYSTEM", "events": [{"fixed": "99.0"}]}]}
            ],
        }
        text = json.dumps({"vulns": [weak]} if package["name"] == "requests" else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *said: object) -> None:
        """Say nothing."""


@pytest.fixture
def service() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Osv)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pip_audit") is None, reason="needs `uv sync --group audit`")
def test_pip_audit_itself_asks_a_service(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HOME)
    result = CliRunner().invoke(app, ["audit", "--osv", service])
    assert re.match(r"requests [\d.]+: TOY-1, mended in 99\.0\n", result.stdout), result.output
    assert result.exit_code == 1
    with pytest.raises(FedcoreError, match="nothing was checked"):
        doctor.audit("http://127.0.0.1:9/")


@pytest.mark.parametrize(
    ("script", "state"), [("exit 0", "ok"), ("echo no accounting >&2; exit 1", "absent")]
)
def test_without_slurm_s_accounting_the_profile_needs_another_command(
    script: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {"sacct": script, "sbatch": "exit 0"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    found = next(check for check in doctor.checks() if check.name == "sacct")
    assert (found.state, "slurm-status-command" in found.how) == (state, True)
    assert found.found == ("answers" if state == "ok" else "no accounting")
