"""Commands without their start-up: a process that has imported torch forks a child for each.

A workflow calls ``share`` once. The first ``fedcore`` command below it starts the warm process (``server``),
and this and all later commands (``client``) hand over arguments, ``VARIABLES`` and standard streams, wait,
and end with the child's exit code. Results are the same bytes as without; where anything that decides what
an import gives differs, or the warm process can't be had, a command does its work itself.

Both sides speak to processes of their own user alone; the socket is in a folder that is this user's alone.
The rest of the environment is not sent: the warm process keeps that of the workflow's first command.
"""

import contextlib
import fcntl
import json
import os
import socket
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path

from fedcore.base import MIRROR
from fedcore.base.errors import FedcoreError, say

VARIABLE = "FEDCORE_WARM"
VARIABLES = (  # what a command reads while it works, and what may differ between the commands of a workflow
    MIRROR,
    "FEDCORE_ACCEPT_TERMS",  # which data may be downloaded
    "CUDA_VISIBLE_DEVICES",  # which GPUs are its own
    "SLURM_JOB_ID",  # whether a scheduler has chosen them, and for which job and step
    "SLURM_STEP_ID",
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
    "PBS_JOBID",
    "LSB_JOBID",
)
KILLED = 137
DECLINED = b"declined"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def share() -> None:
    """Let the ``fedcore`` commands below this process be found, and share a warm one, which ends with this.

    They lie beside this Python, also where its environment is not activated. Nothing is shared where a
    process above has said so already, where ``FEDCORE_WARM=off`` turns it off, or where fork is unsafe. In a
    job of Slurm the warm process is started at once: a step of the job, which ends with all that it started,
    then finds it there.
    """
    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{os.path.dirname(sys.executable)}"
    _, owner, serves = _warm()
    if sys.platform != "linux" or os.environ.get(VARIABLE) == "off" or (serves and alive(int(owner))):
        return
    import tempfile

    folder = os.path.join(tempfile.gettempdir(), f"fedcore-{os.getuid()}")
    path = os.path.join(folder, str(os.getpid()))
    os.environ[VARIABLE] = f"{path}|{os.getpid()}|{place()}"
    if "SLURM_JOB_ID" in os.environ and "SLURM_STEP_ID" not in os.environ:
        with contextlib.suppress(OSError, FedcoreError):
            private(folder)
            _start(path, str(os.getpid()), **dict.fromkeys(THREADS, "1"))  # for runs, of one thread each


def private(folder: str | os.PathLike[str]) -> None:
    """Make a folder that only this user may use; refuse a link, or a folder that others own or may use."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        access = f"{stat.filemode(status.st_mode)} of user {status.st_uid}"
        raise FedcoreError(
            f"{folder}: got {access}, expected a folder that user {os.getuid()} alone may use; delete it"
        )


def refuse_others(connection: socket.socket) -> None:
    """Refuse a connection (AF_UNIX, on Linux) whose other end is not a process of this user."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    user = struct.unpack("iII", credentials)[1]
    if user != os.getuid():
        raise FedcoreError(f"the process at the other end belongs to user {user}, expected {os.getuid()}")


def alive(process: int) -> bool:
    """Whether a process of this machine, anyone's, still lives."""
    try:
        with contextlib.suppress(PermissionError):
            os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _warm() -> tuple[str, str, bool]:
    """Return the socket and the owner of the warm process that is named, and whether it serves here."""
    path, _, rest = os.environ.get(VARIABLE, "").partition("|")
    owner, _, where = rest.partition("|")
    return path, owner, bool(owner) and where == place()


def place() -> str:
    """Return where this process is: a warm process serves its own machine and its own cluster job."""
    return f"{socket.gethostname()} {os.environ.get('SLURM_JOB_ID', '')}"


def delegate(arguments: list[str]) -> int | None:
    """Let the warm process execute a command; return its exit code, or None if there is none for it."""
    path, owner, serves = _warm()
    if not serves or sys.platform != "linux":
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
        _report_kill(arguments, began, memory_kills() > kills)
    return int(reply or KILLED)


def memory_kills() -> int:
    """Return how many processes the system has killed for want of memory; 0 where it doesn't say."""
    with contextlib.suppress(OSError), open("/proc/vmstat") as counters:
        return next((int(line.split()[1]) for line in counters if line.startswith("oom_kill ")), 0)
    return 0


def _report_kill(arguments: list[str], began: float, memory: bool) -> None:
    """Say that the process was killed, on standard error and in the folder of the run that it was at."""
    from fedcore.execution.progress import lost

    why = "out of memory: the system killed the process" if memory else "the process was killed"
    hint = "" if memory else " (out of memory?)"
    say(f"error: {why}{hint}; repeat the command to go on from the checkpoint", error=True)
    if arguments[0] == "run-batch":
        for path in filter(os.path.isfile, arguments[1:]):  # options may stand before the batch
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError), open(path) as batch:
                lost([Path(item["out"]) for item in json.load(batch)], began, why)


def decisive() -> dict[str, str | None]:
    """Return what decides how a process turns out when it imports fedcore."""
    names = (*THREADS, "PYTHONPATH", "FEDCORE_PLUGINS")
    return {"prefix": sys.prefix, "folder": os.getcwd(), **{name: os.environ.get(name) for name in names}}


def _send(connection: socket.socket, arguments: list[str]) -> None:
    environment = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    request = {"arguments": arguments, "decisive": decisive(), "environment": environment}
    payload = json.dumps(request).encode()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    socket.send_fds(connection, [len(payload).to_bytes(8, "big")], [0, 1, 2])
    connection.sendall(payload)


def _connection(path: str, owner: str) -> socket.socket:
    """Connect to the warm process of this user alone, and start it if this is the first command."""
    private(os.path.dirname(path))
    connection = socket.socket(socket.AF_UNIX)
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
            [sys.executable, "-P", "-m", "fedcore.cli.serve", str(listening.fileno()), owner, path],
            env=os.environ | environment,
            pass_fds=[listening.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
