"""``fedcore doctor``: what this machine and environment have of what is needed, and how to get the rest."""

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

from fedcore.base.errors import columns, reason
from fedcore.base.lazy import torch
from fedcore.cli.options import Json, Mirror, Root, extensions, show

CHECKS = "fedcore.doctor"
PROJECT = "fedrepro"
INSTALL = "uv sync, or pip install fedrepro"
SPACE = 7.0  # GB


@dataclass(frozen=True)
class Check:
    """One thing that was looked at, what is here, what it is for, and how to get it or mend it."""

    name: str
    state: Literal["ok", "absent", "wrong"]  # without what is absent something can't be done, else little can
    found: str
    purpose: str
    how: str

    def cells(self) -> tuple[str, ...]:
        """Return it in words, the last of which say how to get what is not fine."""
        mended = "" if self.state == "ok" else f"; to get it: {self.how}"
        return self.state, self.name, f"{self.found}; for {self.purpose}{mended}"


def doctor(root: Root = Path("data"), mirror: Mirror = None, as_json: Json = False) -> None:
    """Look at Python, packages, devices, disk, data and tools: what is here, what for, and how to get it.

    The exit code is 1 if something is wrong; what is only absent limits what can be done.

    Example: fedcore doctor
    """
    checks = [*machine(root, mirror), *packages(requires(PROJECT) or (), "the library", INSTALL)]
    for contributed in extensions(CHECKS):
        checks += contributed
    show(as_json, list(map(asdict, checks)), columns([check.cells() for check in checks]).split("\n"))
    if any(check.state == "wrong" for check in checks):
        raise typer.Exit(1)


def look(name: str, fine: object, found: str, purpose: str, how: str, *, needed: bool = False) -> Check:
    """Return what was looked at; what is not fine is wrong if it is needed, else absent."""
    return Check(name, "ok" if fine else "wrong" if needed else "absent", found, purpose, how)


def machine(root: Path, mirror: str | None) -> Iterator[Check]:
    """Look at Python, devices, threads, disk, folders that are written to, and the mirror of data."""
    python, spec = platform.python_version(), metadata(PROJECT)["Requires-Python"]
    right = Requirement(f"python{spec}").specifier.contains(python, prereleases=True)
    yield look("python", right, f"{python} (tested: {spec})", "everything", "uv python install", needed=True)
    try:
        gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        devices = ", ".join(["cpu", *gpus])
    except Exception as error:
        devices = f"torch can't be loaded ({reason(error)})"
    yield look("devices", devices.startswith("cpu"), devices, "training", INSTALL, needed=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = f"{cores} cores, OMP_NUM_THREADS {os.environ.get('OMP_NUM_THREADS', 'not set')}"
    yield look("threads", True, found, "runs at once, one thread each", "--cores, --threads")
    free, enough = shutil.disk_usage(Path()).free / 1e9, f"an environment with demo results takes {SPACE:.0f}"
    yield look("disk", free >= SPACE, f"{free:.1f} GB free ({enough})", "data and results", "work elsewhere")
    temporary = Path(tempfile.gettempdir())
    purposes = {Path(): "results and reports", root: "fetched data", temporary: "temporary files"}
    for folder, purpose in purposes.items():
        place = folder.resolve()
        writable = os.access(next(path for path in (place, *place.parents) if path.exists()), os.W_OK)
        found = f"{place} is {'' if writable else 'not '}writable"
        yield look("folder", writable, found, purpose, f"chmod u+w {place}, or work elsewhere", needed=True)
    usable = mirror and ("://" in mirror or Path(mirror).is_dir())
    found = f"{mirror}{'' if usable else ': no such folder'}" if mirror else "not set"
    how = "FEDCORE_MIRROR=FOLDER_OR_URL; without it `fedcore data fetch` downloads"
    yield look("mirror", usable, found, "full data without downloads from their sources", how)


def packages(names: Iterable[str], purpose: str, how: str) -> Iterator[Check]:
    """Compare the installed packages with requirements, such as ``pydantic>=2.12``; extras are left out."""
    for package in map(Requirement, names):
        if package.marker and not package.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(package.name)
        except PackageNotFoundError:
            installed = ""
        tested = f" (tested: {package.specifier})" if package.specifier else ""
        fine = installed and package.specifier.contains(installed, prereleases=True)
        yield look(package.name, fine, f"{installed or 'not installed'}{tested}", purpose, how, needed=True)
