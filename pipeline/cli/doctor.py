"""What the papers' pipeline adds to ``fedcore doctor``: its packages, the tested versions, and tools.

`fedcore audit` compares the pins with the public lists of known weaknesses, which pip-audit asks.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path
from typing import Annotated

import typer
from packaging.requirements import Requirement

from fedcore.base.errors import FedcoreError, say
from fedcore.cli.doctor import PROJECT, Check, look, packages
from fedcore.cli.options import Json, show

HOME = Path(__file__).parents[2]
EXTRA = 'extra == "pipeline"'
INSTALL = "uv sync, or pip install -e '.[pipeline]'"
TEX = "apt-get install texlive-latex-recommended preview-latex-style"
TOOLS = {
    "snakemake": ("building reports", INSTALL, True),
    "dvc": ("versions of data and results", INSTALL, False),
    "fedcore": ("the jobs of a build, which find it on PATH", "uv run in front of the command", True),
    "pdflatex lualatex xelatex tectonic": ("tables as PDF", TEX, False),
    "pdftoppm": ("pictures of reports for the documentation", "apt-get install poppler-utils", False),
    "dot": ("`fedcore rulegraph`", "apt-get install graphviz", False),
    "sbatch": ("profiles/slurm alone", "a login node of a cluster", False),
    "git": ("the commit in captions", "apt-get install git", False),
}


def checks() -> Iterator[Check]:
    """Look at the extra's packages, at all packages against the tested versions, and at tools on PATH."""
    extra = [package for package in map(Requirement, requires(PROJECT) or ()) if EXTRA in str(package.marker)]
    yield from packages((f"{package.name}{package.specifier}" for package in extra), "the papers", INSTALL)
    yield tested(HOME / "pyproject.toml")
    for name, (purpose, how, needed) in TOOLS.items():
        place = next(filter(None, map(shutil.which, name.split())), None)
        yield look(name.split()[0], place, place or "not on PATH", purpose, how, needed=needed)
    if shutil.which("sbatch") and shutil.which("sacct"):  # without the second, Snakemake takes squeue
        yield accounting()


def accounting() -> Check:
    """Ask Slurm's accounting for jobs: without it, Snakemake never learns that one has ended."""
    command = ["timeout", "10", "sacct", "--noheader", "--allocations"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    knows, answer = ended.returncode == 0, (ended.stderr.strip().splitlines() or ["no answer"])[-1]
    how = "accounting, or else slurm-status-command: squeue in profiles/slurm/config.yaml"
    return look("sacct", knows, "answers" if knows else answer, "profiles/slurm alone", how, needed=False)


def tested(pyproject: Path) -> Check:
    """Compare the installed packages with the versions that the tests run with, which pyproject.toml pins."""
    packaged = packages(pins(pyproject), "", INSTALL)
    installed = [check for check in packaged if not check.found.startswith("not installed")]
    others = [f", {check.name} {check.found}" for check in installed if check.state != "ok"]
    summary = f"{len(installed) - len(others)} of {len(installed)} packages as tested{''.join(others)}"
    return look("versions", not others, summary, "the same last digits as the tests", "uv sync")


def pins(pyproject: Path) -> list[str]:
    """Return the versions that the tests run with, as uv's constraints."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    return list(project["tool"]["uv"]["constraint-dependencies"])


ASKED = ("--strict", "--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json")
MISSING = "No module named pip_audit"
NO_AUDIT = "pip-audit is not installed here; expected: uv run --group audit fedcore audit"


def audit(
    osv: Annotated[str, typer.Option(help="Address of a service like OSV; pip-audit's own by default.")] = "",
    as_json: Json = False,
) -> None:
    """Compare all pins with the public list of known vulnerabilities; exit code 1 if there are any.

    Example: uv run --group audit fedcore audit
    """
    service = ("--vulnerability-service", "osv", "--osv-url", osv) if osv else ()
    with tempfile.TemporaryDirectory() as name:
        requirements, answer = Path(name, "pins.txt"), Path(name, "answer.json")
        requirements.write_text("\n".join(pins(Path("pyproject.toml"))) + "\n", encoding="utf-8")
        files = ("--requirement", str(requirements), "--output", str(answer))
        command = [sys.executable, "-m", "pip_audit", *ASKED, *files, *service]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if not answer.exists() or process.returncode not in (0, 1):
            raise FedcoreError(NO_AUDIT if MISSING in process.stderr else _why(process.stderr))
        looked_up = json.loads(answer.read_text(encoding="utf-8"))["dependencies"]
    weaknesses = [
        f"{package['name']} {package['version']}: {weakness['id']}, "
        + (
            f"mended in {', '.join(weakness['fix_versions'])}"
            if weakness["fix_versions"]
            else "not mended yet"
        )
        for package in looked_up
        for weakness in package["vulns"]
    ]
    show(as_json, {"pins": len(looked_up), "weaknesses": weaknesses}, weaknesses)
    say(f"{len(looked_up)} pins, {len(weaknesses) or 'no'} known weaknesses", error=True)
    if weaknesses:
        raise typer.Exit(1)


def _why(output: str) -> str:
    lines = [line for line in map(str.strip, output.splitlines()) if line]
    errors = [line for line in lines if line.startswith("ERROR") and "Tip:" not in line]
    reason = (errors or lines or ["it said nothing"])[-1]
    return f"the list of known weaknesses can't be reached, so nothing was checked ({reason})"
