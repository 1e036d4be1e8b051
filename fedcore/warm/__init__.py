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
import tempfile

VARIABLE = "FEDCORE_WARM"


def share() -> None:
    """Let the ``fedcore`` commands below this process share one warm process, which ends with this one.

    Does nothing where the variable is set already (``FEDCORE_WARM=off`` turns it off) or fork is unsafe.
    """
    if sys.platform != "linux" or os.environ.get(VARIABLE) == "off":
        return
    folder = os.path.join(tempfile.gettempdir(), f"fedcore-{os.getuid()}")
    os.environ[VARIABLE] = f"{os.path.join(folder, str(os.getpid()))}|{os.getpid()}|{place()}"


def place() -> str:
    """Return where this process is: a warm process serves its own machine and its own cluster job."""
    return f"{socket.gethostname()} {os.environ.get('SLURM_JOB_ID', '')}"
