"""Commands without their start-up: a process that has imported torch forks a child for each.

A workflow calls ``share`` once. The first ``fedcore`` command below it starts the warm process (``server``),
and this and all later commands (``client``) hand over arguments, environment, folder and standard streams,
wait, and end with the child's exit code. Results are the same bytes as without; where anything that decides
what an import gives differs, or the warm process can't be had, a command does its work itself.
"""

from __future__ import annotations

import os
import socket
import sys

VARIABLE = "FEDCORE_WARM"


def share() -> None:
    """Let the ``fedcore`` commands below this process share one warm process, which ends with this one.

    Does nothing where a process above has said so already, where ``FEDCORE_WARM=off`` turns it off, or where
    fork is unsafe. In a job of Slurm the warm process is started at once: a step of the job, which ends with
    all that it started, then finds it there.
    """
    if sys.platform != "linux" or os.environ.get(VARIABLE) == "off" or _shared():
        return
    import tempfile

    folder = os.path.join(tempfile.gettempdir(), f"fedcore-{os.getuid()}")
    os.environ[VARIABLE] = f"{os.path.join(folder, str(os.getpid()))}|{os.getpid()}|{place()}"
    if "SLURM_JOB_ID" in os.environ and "SLURM_STEP_ID" not in os.environ:
        from fedcore.warm.client import begin

        begin()


def _shared() -> bool:
    """Whether a process above this one, that still lives, shares a warm process here."""
    owner, _, where = os.environ.get(VARIABLE, "").partition("|")[2].partition("|")
    if not owner or where != place():
        return False
    try:
        os.kill(int(owner), 0)
    except OSError:
        return False
    return True


def place() -> str:
    """Return where this process is: a warm process serves its own machine and its own cluster job."""
    return f"{socket.gethostname()} {os.environ.get('SLURM_JOB_ID', '')}"
