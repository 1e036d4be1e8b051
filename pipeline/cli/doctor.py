"""What the papers' pipeline adds to ``fedcore doctor``: its packages, the tested versions, and tools."""

import shutil
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement

from fedcore.cli.doctor import PROJECT, Check, look, packages

HOME = Path(__file__).parents[2]
EXTRA = 'extra == "pipeline"'
INSTALL = "uv sync, or pip install -e '.[pipeline]'"
TOOLS = {
    "snakemake": ("building reports", INSTALL, True),
    "dvc": ("versions of data and results", INSTALL, False),
    "fedcore": ("the jobs of a build, which find it on PATH", "uv run in front of the command", True),
    "pdflatex": ("tables as PDF", "apt-get install texlive-latex-extra", False),
    "pdftoppm": ("pictures of reports for the documentation", "apt-get install poppler-utils", False),
    "dot": ("`fedcore rulegraph`", "apt-get install graphviz", False),
    "sbatch": ("profiles/slurm alone", "a login node of a cluster", False),
    "git": ("the commit in captions", "apt-get install git", False),
}


def checks() -> Iterator[Check]:
    """Look at the extra's packages, at all packages against the tested versions, and at tools on PATH."""
    extra = [own for own in map(Requirement, requires(PROJECT) or ()) if EXTRA in str(own.marker)]
    yield from packages((f"{own.name}{own.specifier}" for own in extra), "the papers", INSTALL)
    yield tested(HOME / "pyproject.toml")
    for name, (purpose, how, needed) in TOOLS.items():
        place = shutil.which(name)
        yield look(name, place, place or "not on PATH", purpose, how, needed=needed)


def tested(pyproject: Path) -> Check:
    """Compare the installed packages with the versions that the tests run with, which pyproject.toml pins."""
    packaged = packages(pins(pyproject), "", INSTALL)
    found = [check for check in packaged if not check.found.startswith("not installed")]
    others = [f", {check.name} {check.found}" for check in found if check.state != "ok"]
    said = f"{len(found) - len(others)} of {len(found)} packages as tested{''.join(others)}"
    return look("versions", not others, said, "the same last digits as the tests", "uv sync")


def pins(pyproject: Path) -> list[str]:
    """Return the versions that the tests run with, as uv's constraints."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    return list(project["tool"]["uv"]["constraint-dependencies"])
