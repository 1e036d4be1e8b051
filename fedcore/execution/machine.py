"""The machine at hand: processor, device, threads, the commit of its code, and the end of a stuck process."""

import faulthandler
import os
import platform
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from fedcore.base.errors import SpecError, shown
from fedcore.base.lazy import Device, torch
from fedcore.base.registry import VARIABLE

KEYS = ("vendor_id", "cpu family", "model")
HOME = Path(__file__).parents[2]
CODE = ("fedcore", "pipeline", "studies")
STANDARD_ERROR = 2
MOST_THREADS = 1024
LONGEST = 1e9  # seconds, 32 years: near the most that a timer takes


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return vendor, family and model of the first processor, or the architecture if they are unknown."""
    try:
        block = cpuinfo.read_text("utf-8").split("\n\n", 1)[0]
    except OSError:
        block = ""
    pairs = (line.partition(":") for line in block.splitlines())
    facts = {key.strip(): value.strip() for key, _, value in pairs}
    if all(facts.get(key) for key in KEYS):
        return " ".join(facts[key] for key in KEYS)
    return platform.processor() or platform.machine()


@cache
def commit(home: Path = HOME) -> str:
    """Return the short hash of a working tree's commit, with ``+`` where it doesn't hold all that runs.

    That are changes of tracked files, and new files of the code, of studies and of plug-ins below ``home``.
    Empty where there is no git, or where ``home`` is not the top of a working tree.
    """
    top = _git(home, "rev-parse", "--show-toplevel")
    head = _git(home, "rev-parse", "--short=10", "HEAD")
    if not top or not head or Path(top).resolve() != home.resolve():
        return ""
    named = filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))
    folders = (Path(folder).resolve() for folder in named)
    places = [*CODE, *(str(folder) for folder in folders if folder.is_relative_to(home.resolve()))]
    changed = _git(home, "status", "--porcelain", "--untracked-files=no")
    changed = changed or _git(home, "status", "--porcelain", "--untracked-files=normal", "--", *places)
    return head + ("+" if changed else "")


def _git(home: Path, *arguments: str) -> str:
    """Return what git says, or nothing where it refuses or is not there."""
    try:
        completed = subprocess.run(
            ["git", "--no-optional-locks", *arguments], cwd=home, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return completed.stdout.strip() if completed.returncode == 0 else ""


@contextmanager
def watched(seconds: float) -> Iterator[Callable[[], None]]:
    """Yield a function to call at each sign of progress; ``seconds`` without one (0: never) end the process.

    It ends with exit code 1, whatever it is stuck in, and leaves "Timeout" and where it was stuck on
    standard error. Finished files and the last checkpoint stay as they are.
    """
    if seconds < 0:
        raise SpecError(f"stall_seconds: got {shown(seconds)}, expected 0 or more")

    def alive() -> None:
        if seconds:
            faulthandler.dump_traceback_later(min(LONGEST, seconds), exit=True, file=STANDARD_ERROR)

    alive()
    try:
        yield alive
    finally:
        if seconds:
            faulthandler.cancel_dump_traceback_later()


def usable_device(name: str) -> Device:
    """Return the device of a name: cpu, cuda, or auto for a GPU if there is one; SpecError: it isn't here."""
    if name not in {"auto", "cpu", "cuda"}:
        raise SpecError(f"device: got {name!r}, expected auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise SpecError("device: 'cuda' asked for, but this machine has no usable GPU; use cpu or auto")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    torch.backends.cudnn.allow_tf32 = False  # else convolutions keep 10 bits of float32's 23
    torch.backends.cudnn.deterministic = True
    return torch.device("cuda")


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Compute with ``count`` threads (SpecError: too many or none), then restore the former number."""
    if not isinstance(count, int) or not 1 <= count <= MOST_THREADS:
        raise SpecError(f"threads: got {shown(count)}, expected a whole number from 1 to {MOST_THREADS}")
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
