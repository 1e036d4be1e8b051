"""`fedcore audit`: the pins against the public lists of known weaknesses, which pip-audit asks."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fedcore.base.errors import FedcoreError, say
from fedcore.cli.options import Json, show
from pipeline.cli.doctor import pins

ASKED = ("--strict", "--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json")
MISSING = "No module named pip_audit"
INSTALL = "pip-audit is not installed here; expected: uv run --group audit fedcore audit"


class NotAudited(FedcoreError):
    """The check could not be made, so its result is unknown."""


def command(
    osv: Annotated[
        str, typer.Option(help="Address of a service that answers as OSV does; pip-audit's own by default.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Compare all pins with the public list of known weaknesses; exit code 1 if there are any.

    Example: uv run --group audit fedcore audit
    """
    service = ("--vulnerability-service", "osv", "--osv-url", osv) if osv else ()
    asked, found = audit(Path("pyproject.toml"), service)
    show(as_json, {"pins": asked, "weaknesses": found}, found)
    say(f"{asked} pins, {len(found) or 'no'} known weaknesses", error=True)
    if found:
        raise typer.Exit(1)


def audit(pyproject: Path, service: Sequence[str] = ()) -> tuple[int, list[str]]:
    """Look the pins of a pyproject.toml up: how many there are, and a line for each known weakness.

    ``service``: further arguments of pip-audit, which say whom it asks.

    Raises:
        NotAudited: a pin could not be looked up, or pip-audit is not installed; one line says why.
    """
    with tempfile.TemporaryDirectory() as name:
        asked, answer = Path(name, "pins.txt"), Path(name, "answer.json")
        asked.write_text("\n".join(pins(pyproject)) + "\n", encoding="utf-8")
        files = ("--requirement", str(asked), "--output", str(answer))
        command = [sys.executable, "-m", "pip_audit", *ASKED, *files, *service]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not answer.exists() or done.returncode not in (0, 1):
            raise NotAudited(INSTALL if MISSING in done.stderr else _why(done.stderr))
        packages = json.loads(answer.read_text(encoding="utf-8"))["dependencies"]
    found = []
    for package in packages:
        for weakness in package["vulns"]:
            mended = ", ".join(weakness["fix_versions"])
            what = f"{package['name']} {package['version']}: {weakness['id']}"
            found.append(f"{what}, mended in {mended}" if mended else f"{what}, not mended yet")
    return len(packages), found


def _why(said: str) -> str:
    """Return the reason that pip-audit gave, from its own words or the end of its traceback."""
    lines = [line for line in map(str.strip, said.splitlines()) if line]
    own = [line for line in lines if line.startswith("ERROR") and "Tip:" not in line]
    reason = (own or lines or ["it said nothing"])[-1]
    return f"the list of known weaknesses can't be reached, so nothing was checked ({reason})"
