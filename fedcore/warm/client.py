"""The side of the command: hand it over, wait, end as it ended. Imports little, so that it starts at once."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from fedcore.base.errors import FedcoreError, say
from fedcore.warm import VARIABLE, VARIABLES, place, private, refuse_others

KILLED = 137
DECLINED = b"declined"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def delegate(arguments: list[str]) -> int | None:
    """Let the warm process execute a ``fedcore`` command.

    Returns:
        Its exit code, or None if there is no warm process for this command.
    """
    path, _, rest = os.environ.get(VARIABLE, "").partition("|")
    owner, _, where = rest.partition("|")
    if not owner or where != place() or sys.platform != "linux":
        return None
    began, kills = time.time(), memory_kills()
    try:
        connection = _connection(path, owner)
        _send(connection, arguments)
        reply = b"".join(iter(lambda: connection.recv(64), b""))
    except FedcoreError as error:
        say(f"{path}: not used as the shared process: {error}", error=True)
        return None
    except OSError:
        return None
    if reply == DECLINED:
        return None
    if not reply:
        _tell(arguments, began, memory_kills() > kills)
    return int(reply or KILLED)


def memory_kills() -> int:
    """Return how many processes the system has killed for want of memory; 0 where it doesn't say."""
    with contextlib.suppress(OSError), open("/proc/vmstat") as counters:
        return next((int(line.split()[1]) for line in counters if line.startswith("oom_kill ")), 0)
    return 0


def _tell(arguments: list[str], began: float, memory: bool) -> None:
    """Say that the process was killed, on standard error and in the folder of the run that it was at."""
    from fedcore.execution.progress import lost

    why = "out of memory: the system killed the process" if memory else "the process was killed"
    hint = "" if memory else " (out of memory?)"
    say(f"error: {why}{hint}; repeat the command to go on from the checkpoint", error=True)
    if arguments[0] == "run-batch":
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            with open(arguments[1]) as batch:
                folders = [Path(item["out"]) for item in json.load(batch)]
            lost(folders, began, why)


def begin() -> None:
    """Start the warm process before there is a command for it: for commands of one thread, as runs are."""
    path, _, rest = os.environ[VARIABLE].partition("|")
    with contextlib.suppress(OSError, FedcoreError):
        private(os.path.dirname(path))
        _start(path, rest.partition("|")[0], **dict.fromkeys(THREADS, "1"))


def decisive() -> dict[str, str | None]:
    """Return what decides how a process turns out when it imports fedcore."""
    names = (*THREADS, "PYTHONPATH", "FEDCORE_PLUGINS")
    return {"prefix": sys.prefix, "folder": os.getcwd(), **{name: os.environ.get(name) for name in names}}


def _send(connection: socket.socket, arguments: list[str]) -> None:
    request = {
        "arguments": arguments,
        "decisive": decisive(),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }
    payload = json.dumps(request).encode()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    socket.send_fds(connection, [len(payload).to_bytes(8, "big")], [0, 1, 2])
    connection.sendall(payload)


def _connection(path: str, owner: str) -> socket.socket:
    """Connect to the warm process, and start it if this is the first command.

    Raises:
        FedcoreError: the socket's folder, or the process that listens, is not this user's alone.
    """
    private(os.path.dirname(path))
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        with open(f"{path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                connection.connect(path)
            except (FileNotFoundError, ConnectionRefusedError):
                _start(path, owner)
                connection.connect(path)
    refuse_others(connection)
    return connection


def _start(path: str, owner: str, **environment: str) -> None:
    """Listen, and hand the listening socket to a new process, so that nobody has to wait for it."""
    if os.path.exists(path):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(1024)
        subprocess.Popen(
            [sys.executable, "-P", "-m", "fedcore.warm.server", str(listening.fileno()), owner, path],
            env=os.environ | environment,
            pass_fds=[listening.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
