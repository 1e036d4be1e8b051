"""The warm process: imports what runs need, then forks a child for each command, until its owner ends."""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback

from fedcore.base.errors import FedcoreError
from fedcore.base.lazy import torch
from fedcore.base.registry import PACKAGES, plugins
from fedcore.cli.groups import command
from fedcore.cli.main import COMMANDS, main
from fedcore.execution.forkserver import DECLINED, VARIABLES, alive, decisive, refuse_others

OWNER_SECONDS = 1.0


def serve(listening: socket.socket, owner: int, path: str) -> None:
    """Fork a child for each connection as long as the process ``owner`` lives."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system takes care of children that have ended
    while alive(owner):
        if select.select([listening], [], [], OWNER_SECONDS)[0]:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(FedcoreError):
                refuse_others(connection)
                if os.fork() == 0:
                    listening.close()
                    signal.signal(signal.SIGINT, signal.default_int_handler)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    _child(connection)
    for name in (path, f"{path}.lock"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _child(connection: socket.socket) -> None:
    """Execute the command that comes in over the connection, answer with its exit code, and end."""
    code = 1
    try:
        head, streams, _, _ = socket.recv_fds(connection, 8, 3)
        with connection.makefile("rb") as incoming:
            request = json.loads(incoming.read(int.from_bytes(head, "big")))
        if request["decisive"] != decisive():
            connection.sendall(DECLINED)
            os._exit(0)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", 1, closefd=False)
        for name in VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(request["environment"])
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        code = _execute(request["arguments"])
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        with contextlib.suppress(OSError):
            connection.sendall(str(code).encode())
        os._exit(code)


def _execute(arguments: list[str]) -> int:
    sys.argv = ["fedcore", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _end_with(connection: socket.socket) -> None:
    """Wait until the command that asked is gone, and end then too."""
    with contextlib.suppress(OSError):
        connection.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)


def preload() -> None:
    """Import what most commands need. Nothing here may start a thread or touch a GPU: children are forked."""
    torch.is_tensor(None)  # its first use loads it
    for kind in PACKAGES:
        plugins(kind)
    places = {name: place for panel in COMMANDS.values() for name, place in panel.items()}
    for name in ("run-batch", "partition"):  # what the first reading of their options imports and keeps
        command(name, places[name]).make_context(name, ["-"], resilient_parsing=True)


if __name__ == "__main__":  # python -m fedcore.cli.serve FILENO OWNER PATH
    preload()
    serve(socket.socket(fileno=int(sys.argv[1])), owner=int(sys.argv[2]), path=sys.argv[3])
