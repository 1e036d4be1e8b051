"""Commands without their start-up: a process that has imported torch forks a child for each.

A workflow calls ``share`` once. The first ``fedcore`` command below it starts the warm process (``server``),
and this and all later commands (``client``) hand over arguments, ``VARIABLES`` and standard streams, wait,
and end with the child's exit code. Results are the same bytes as without; where anything that decides what
an import gives differs, or the warm process can't be had, a command does its work itself.

Both sides speak to processes of their own user alone; the socket is in a folder that is this user's alone.
The rest of the environment is not sent: the warm process keeps that of the workflow's first command.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys

from fedcore.base.errors import FedcoreError

VARIABLE = "FEDCORE_WARM"
VARIABLES = (  # what a command reads while it works, and what may differ between the commands of a workflow
    "FEDCORE_MIRROR",  # where data come from
    "FEDCORE_ACCEPT_TERMS",  # which data may be downloaded
    "CUDA_VISIBLE_DEVICES",  # which GPUs are its own
    "SLURM_JOB_ID",  # whether a scheduler has chosen them, and for which job and step
    "SLURM_STEP_ID",
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
    "PBS_JOBID",
    "LSB_JOBID",
)


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


def private(folder: str | os.PathLike[str]) -> None:
    """Make a folder for this user alone, unless it is there.

    Raises:
        FedcoreError: something else is there: a link, another user's folder, or one that others may use.
    """
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            what = f"{stat.filemode(found.st_mode)} of user {found.st_uid}"
            raise FedcoreError(
                f"{folder}: got {what}, expected a folder that user {os.getuid()} alone may use; delete it"
            ) from None


def refuse_others(connection: socket.socket) -> None:
    """Refuse a connection (AF_UNIX, on Linux) whose other end is not a process of this user.

    Raises:
        FedcoreError: it is another user's.
    """
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    user = struct.unpack("iII", credentials)[1]
    if user != os.getuid():
        raise FedcoreError(f"the process at the other end belongs to user {user}, expected {os.getuid()}")


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
