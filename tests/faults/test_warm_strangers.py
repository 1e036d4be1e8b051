"""The warm process and other users of the machine: neither side speaks to them, and the work is done."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from fedcore.base.errors import FedcoreError
from fedcore.execution import forkserver, gpus

STRANGER = 65432
ORDER = b'[{"spec": {}, "out": "out"}]'
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user as well")


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a folder in which everybody may make files, as /tmp."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def another_user(work: Callable[[], None]) -> Iterator[None]:
    """Let another user do something in a process of its own, which ends with the block."""
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            work()
        finally:
            os._exit(0)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def listener(path: Path, heard: Path) -> Callable[[], None]:
    """Return a server that says that every command went well, and notes what it was sent."""

    def work() -> None:
        os.umask(0)
        if not path.parent.exists():
            path.parent.mkdir()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen()
            heard.touch()
            while True:
                connection, _ = listening.accept()
                data, streams, _, _ = socket.recv_fds(connection, 1 << 16, 8)
                heard.write_text(f"{len(data)} bytes, {len(streams)} streams")
                connection.sendall(b"0")
                connection.close()

    return work


def until(found: Callable[[], bool]) -> None:
    for _ in range(500):
        if found():
            return
        time.sleep(0.02)
    raise AssertionError("nothing happened")


def told(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Say that a warm process is at a path."""
    monkeypatch.setenv(forkserver.VARIABLE, f"{path}|{os.getpid()}|{forkserver.place()}")


@needs_root
@pytest.mark.parametrize("how", ["its folder", "our folder", "a link to its folder", "a link to its socket"])
def test_nothing_is_sent_to_another_user_and_its_answer_is_not_believed(
    how: str, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    theirs, ours, heard = place / "theirs" / "socket", place / "ours" / "socket", place / "heard"
    with another_user(listener(theirs, heard)):
        until(heard.exists)
        if how == "a link to its folder":
            ours.parent.symlink_to(theirs.parent)
        elif how != "its folder":
            ours.parent.mkdir(mode=0o700)
            theirs.rename(ours) if how == "our folder" else ours.symlink_to(theirs)
        told(monkeypatch, theirs if how == "its folder" else ours)
        assert forkserver.delegate(["run-batch", "order.json"]) is None
        time.sleep(0.2)
        assert heard.read_text() in {"", "0 bytes, 0 streams"}
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "not used as the shared process" in err
    assert (str(STRANGER) in err) == (how != "a link to its folder")


def test_a_folder_that_others_may_write_to_is_not_used(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as held:
        for mode in (0o777, 0o770, 0o755):
            path = place / f"{mode:o}" / "socket"
            path.parent.mkdir()
            path.parent.chmod(mode)
            listening = held.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(str(path))
            listening.listen()
            told(monkeypatch, path)
            assert forkserver.delegate(["list"]) is None
            assert capfd.readouterr().err.count("alone may use") == 1
            listening.setblocking(False)
            with pytest.raises(BlockingIOError):
                listening.accept()


def test_the_folder_is_made_for_this_user_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv(gpus.VARIABLE, "0")
    for name in ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "PBS_JOBID", "LSB_JOBID"):
        monkeypatch.delenv(name, raising=False)
    with gpus.claimed(100):
        folder = place / f"fedcore-{os.getuid()}"
        assert folder.stat().st_mode & 0o777 == 0o700
        forkserver.private(folder)
    folder.chmod(0o755)
    with pytest.raises(FedcoreError, match="alone may use"), gpus.claimed(100):
        pass


@pytest.fixture
def served(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Start a warm process that lives as long as a process of this test."""
    owner = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    path = place / "ours" / "socket"
    forkserver.private(path.parent)
    monkeypatch.setenv(forkserver.VARIABLE, f"{path}|{owner.pid}|{forkserver.place()}")
    forkserver._start(str(path), str(owner.pid))
    yield path
    owner.communicate()
    until(lambda: not path.exists())


@needs_root
def test_the_warm_process_executes_nothing_for_another_user(served: Path, place: Path) -> None:
    assert forkserver.delegate(["list", "models"]) == 0, "ours is answered"
    served.parent.chmod(0o777)
    served.chmod(0o777)
    answer = place / "answer"

    def ask() -> None:
        reply = b""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(served))
            with suppress(ConnectionError):
                forkserver._send(connection, ["list", "models"])
                reply = connection.recv(64)
        answer.write_bytes(b"got:" + reply)

    with another_user(ask):
        until(lambda: answer.exists() and answer.read_bytes() != b"")
    assert answer.read_bytes() == b"got:"
    served.parent.chmod(0o700)
    assert forkserver.delegate(["list", "models"]) == 0, "it goes on"


def test_only_the_variables_on_the_list_cross_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret-value")
    monkeypatch.setenv("FEDCORE_MIRROR", "/mirror")
    sender, receiver = socket.socketpair(socket.AF_UNIX)
    with sender, receiver:
        forkserver._send(sender, ["list"])
        head, streams, _, _ = socket.recv_fds(receiver, 8, 3)
        sent = receiver.recv(int.from_bytes(head, "big"))
        for stream in streams:
            os.close(stream)
    assert b"secret-value" not in sent
    request = json.loads(sent)
    assert set(request) == {"arguments", "decisive", "environment"}
    assert set(request["environment"]) <= set(forkserver.VARIABLES)
    assert request["environment"]["FEDCORE_MIRROR"] == "/mirror"


def test_the_page_on_security_names_what_crosses_the_socket() -> None:
    text = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    listed = text.partition("between commands of one workflow:")[2].partition("No other variable is sent")[0]
    assert tuple(re.findall(r"`(\w+)`", listed)) == forkserver.VARIABLES


def test_a_command_sees_its_own_variables_in_a_warm_process(
    served: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The mirror that is given differs from the one of the process, which has none."""
    for name in ("one", "two"):
        mirror = served.parent / name
        mirror.mkdir()
        for file in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
            (mirror / f"{file}-ubyte").write_bytes(b"junk")
        monkeypatch.setenv("FEDCORE_MIRROR", str(mirror))
        assert forkserver.delegate(["data", "verify", "mnist", "--root", str(served.parent / "data")]) == 1
        assert str(mirror) in capfd.readouterr().out
