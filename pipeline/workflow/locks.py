"""Locks that a killed Snakemake left behind, which would keep the next one out."""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import suppress
from pathlib import Path

SIGN = "alive"


def forget_dead(folder: Path = Path(".snakemake")) -> None:
    """Show that this process lives, and remove locks if no other process does.

    The sign is a lock that the system takes back when the process ends, however it ends. Snakemake's own
    locks, which keep two processes from the same files, are left alone as long as anyone may hold them.

    Args:
        folder: where Snakemake keeps what it knows.
    """
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
        sign = os.open(folder / SIGN, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(sign, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            _remove(folder / "locks")
        fcntl.flock(sign, fcntl.LOCK_SH)


def _remove(locks: Path) -> None:
    left = sorted(locks.glob("*.lock"))
    for path in left:
        path.unlink(missing_ok=True)
    if left:
        print("A Snakemake was killed in this folder; its locks are removed.", file=sys.stderr)
