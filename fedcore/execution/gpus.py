"""One GPU, or a share of one, for each process of a machine.

Shares are held by locks on files, which the system takes back when a process ends, however it ends. GPUs
that a cluster's scheduler gave to a job are shared by the processes of that job, which number them in their
own way; all others by the processes of a machine and user.
"""

import fcntl
import math
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from fedcore.base.errors import say
from fedcore.base.lazy import torch
from fedcore.execution.forkserver import private

VARIABLE = "CUDA_VISIBLE_DEVICES"
PERCENT_A_SLOT = 5
SLOTS = 100 // PERCENT_A_SLOT
WAIT_SECONDS = 0.2


@contextmanager
def claimed(percent: int) -> Iterator[str | None]:
    """Hold so many percent of one GPU, and let this process see no other; wait until one has so much left.

    Call it before anything uses a GPU. The GPU with the largest free share is taken. Yields it as
    CUDA_VISIBLE_DEVICES names it, or None if there is none to claim.
    """
    if not (names := _visible()):
        yield None
        return
    folder = Path(tempfile.gettempdir(), f"fedcore-{os.getuid()}")
    private(folder)
    folder = folder / "gpus" / _file_name(_job())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}
    slots = math.ceil(percent / PERCENT_A_SLOT)
    with ExitStack() as held:
        name = _claim(names, slots, folder, held)
        if name is None:
            say("waiting for a GPU", error=True)
        while name is None:
            time.sleep(WAIT_SECONDS)
            name = _claim(names, slots, folder, held)
        os.environ[VARIABLE] = name
        held.callback(os.environ.update, before)
        held.callback(os.environ.pop, VARIABLE)
        yield name


def _claim(names: Sequence[str], slots: int, folder: Path, held: ExitStack) -> str | None:
    """Lock slots of the GPU that has most of them free, if it has enough; one process tries at a time."""
    with (folder / "lock").open("w") as mutex, ExitStack() as tried:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        free = {name: _free(folder / _file_name(name), tried) for name in names}
        best = max(free, key=lambda name: len(free[name]))
        if len(free[best]) < slots:
            return None
        for lock in free[best][:slots]:
            held.enter_context(os.fdopen(os.dup(lock.fileno()), "w"))
        return best


def _free(stem: Path, tried: ExitStack) -> list[IO[str]]:
    """Lock and return the slots of one GPU that nobody holds."""
    locks: list[IO[str]] = []
    for slot in range(SLOTS):
        lock = tried.enter_context(stem.with_name(f"{stem.name}.{slot}").open("w"))
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locks.append(lock)
    return locks


def _file_name(gpu: str) -> str:
    return gpu.replace("/", "-")


def _job() -> str:
    """Return the job of a cluster, or its step, that was given GPUs; ``shared`` where there is none."""
    if os.getenv("SLURM_JOB_GPUS") or os.getenv("SLURM_STEP_GPUS"):
        step = os.getenv("SLURM_STEP_ID", "") if os.getenv("SLURM_STEP_GPUS") else ""
        return f"{os.getenv('SLURM_JOB_ID', '')}.{step}"
    job = os.getenv("PBS_JOBID") or os.getenv("LSB_JOBID")
    return job if job and VARIABLE in os.environ else "shared"


def _visible() -> list[str]:
    """Return the GPUs that this process may use, without touching one."""
    if (value := os.environ.get(VARIABLE)) is not None:
        return [name.strip() for name in value.split(",") if name.strip() not in {"", "-1"}]
    return [str(number) for number in range(torch.cuda.device_count())]
