"""The side of the command: hand it over, wait, end as it ended. Imports little, so that it starts at once."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys

from fedcore.warm import VARIABLE, place

KILLED = 137
DECLINED = b"declined"


def delegate(arguments: list[str]) -> int | None:
    """Let the warm process execute a ``fedcore`` command.

    Returns:
        Its exit code, or None if there is no warm process for this command.
    """
    path, _, rest = os.environ.get(VARIABLE, "").partition("|")
    owner, _, where = rest.partition("|")
    if not owner or where != place():
        return None
    try:
        connection = _connection(path, owner)
        _send(connection, arguments)
        reply = b"".join(iter(lambda: connection.recv(64), b""))
    except OSError:
        return None
    if reply == DECLINED:
        return None
    if not reply:
        print("error: the process that executed the command was killed (out of memory?)", file=sys.stderr)
    return int(reply or KILLED)


def begin() -> None:
    """Start the warm process before there is a command for it."""
    path, _, rest = os.environ[VARIABLE].partition("|")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with contextlib.suppress(OSError):
        _start(path, rest.partition("|")[0])


def decisive() -> dict[str, str | None]:
    """Return what decides how a process turns out when it imports fedcore."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONPATH", "FEDCORE_PLUGINS")
    return {"prefix": sys.prefix, "folder": os.getcwd(), **{name: os.environ.get(name) for name in names}}


def _send(connection: socket.socket, arguments: list[str]) -> None:
    request = {
        "arguments": arguments,
        "decisive": decisive(),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
    }
    payload = json.dumps(request).encode()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    socket.send_fds(connection, [len(payload).to_bytes(8, "big")], [0, 1, 2])
    connection.sendall(payload)


def _connection(path: str, owner: str) -> socket.socket:
    """Connect to the warm process, and start it if this is the first command."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if os.stat(os.path.dirname(path)).st_uid != os.getuid():
            raise
        with open(f"{path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                connection.connect(path)
            except (FileNotFoundError, ConnectionRefusedError):
                _start(path, owner)
                connection.connect(path)
    return connection


def _start(path: str, owner: str) -> None:
    """Listen, and hand the listening socket to a new process, so that nobody has to wait for it."""
    if os.path.exists(path):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(1024)
        subprocess.Popen(
            [sys.executable, "-P", "-m", "fedcore.warm.server", str(listening.fileno()), owner, path],
            pass_fds=[listening.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
