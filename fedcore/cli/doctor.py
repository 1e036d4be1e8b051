"""``fedcore doctor``: what this machine and environment have of what is needed, and how to get the rest."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Literal

import typer
from packaging.requirements import Requirement

from fedcore.base.errors import reason, say
from fedcore.base.lazy import torch
from fedcore.cli.options import Json, Mirror, Root, extensions, say_json

CHECKS = "fedcore.doctor"
PROJECT = "fedrepro"
INSTALL = "uv sync, or pip install fedrepro"
SPACE = 6 * 10**9


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what it is.
        state: ``ok``; ``absent``, where something can't be done without it; or ``wrong``, where little can.
        found: what is here.
        purpose: what it is for.
        how: how to get it or mend it.
    """

    name: str
    state: Literal["ok", "absent", "wrong"]
    found: str
    purpose: str
    how: str

    def __str__(self) -> str:
        """Return it as one line, with the way to mend it if it is not as it should be."""
        line = f"{self.state:7} {self.name:14} {self.found}; for {self.purpose}"
        return line if self.state == "ok" else f"{line}; to get it: {self.how}"


def doctor(root: Root = Path("data"), mirror: Mirror = None, as_json: Json = False) -> None:
    """Look at Python, packages, devices, disk, data and tools: what is here, what for, and how to get it.

    The exit code is 1 if something is wrong; what is only absent limits what can be done.

    Example: fedcore doctor
    """
    found = [*machine(root, mirror), *packages(requires(PROJECT) or (), "the library", INSTALL)]
    for contributed in extensions(CHECKS):
        found += contributed
    if as_json:
        say_json([asdict(check) for check in found])
    else:
        say(*found)
    if any(check.state == "wrong" for check in found):
        raise typer.Exit(1)


def machine(root: Path, mirror: str | None) -> Iterator[Check]:
    """Look at Python, devices, threads, disk, folders that are written to, and the mirror of data."""
    python, asked = platform.python_version(), metadata(PROJECT)["Requires-Python"]
    right = Requirement(f"python{asked}").specifier.contains(python)
    yield Check(
        "python", "ok" if right else "wrong", f"{python} (tested: {asked})", "everything", "uv python install"
    )
    yield _devices()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limit = os.environ.get("OMP_NUM_THREADS", "not set")
    yield Check(
        "threads",
        "ok",
        f"{cores} cores, OMP_NUM_THREADS {limit}",
        "several runs at once, one thread each",
        "--cores of snakemake, --threads of a run",
    )
    free = shutil.disk_usage(Path()).free
    yield Check(
        "disk",
        "ok" if free >= SPACE else "absent",
        f"{free / 1e9:.1f} GB free here (an environment with demo results takes about {SPACE / 1e9:.0f})",
        "data and results",
        "delete what is not needed, or work elsewhere",
    )
    for folder, purpose in (
        (Path(), "results and reports"),
        (root, "fetched data"),
        (Path(tempfile.gettempdir()), "temporary files"),
    ):
        writable = os.access(next(path for path in (folder, *folder.parents) if path.exists()), os.W_OK)
        yield Check(
            "folder",
            "ok" if writable else "wrong",
            f"{folder.resolve()} is {'' if writable else 'not '}writable",
            purpose,
            f"chmod u+w {folder.resolve()}, or work elsewhere",
        )
    here = bool(mirror) and ("://" in str(mirror) or Path(str(mirror)).is_dir())
    yield Check(
        "mirror",
        "ok" if here else "absent",
        f"{mirror}{'' if here else ': no such folder'}" if mirror else "not set",
        "full data without downloads from their sources",
        "FEDCORE_MIRROR=FOLDER_OR_URL; without it `fedcore data fetch` downloads",
    )


def _devices() -> Check:
    purpose = "training"
    try:
        gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    except Exception as error:
        return Check("devices", "wrong", f"torch can't be loaded ({reason(error)})", purpose, INSTALL)
    return Check("devices", "ok", ", ".join(["cpu", *gpus]), purpose, "--device cuda on a machine with a GPU")


def packages(asked: Iterable[str], purpose: str, how: str) -> Iterator[Check]:
    """Compare the installed packages with requirements, such as ``pydantic>=2.12``; extras are left out."""
    for wanted in map(Requirement, asked):
        if wanted.marker and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(wanted.name)
        except PackageNotFoundError:
            found = ""
        state: Literal["ok", "wrong"] = "ok" if found and wanted.specifier.contains(found) else "wrong"
        tested = f" (tested: {wanted.specifier})" if wanted.specifier else ""
        yield Check(wanted.name, state, f"{found or 'not installed'}{tested}", purpose, how)
