"""What Snakemake keeps in .snakemake: its records of jobs, and locks that a killed one leaves behind."""

import fcntl
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

FOLDER = Path(".snakemake")


def unrecorded(root: Path = Path()) -> bool:
    """Whether Snakemake knows nothing of the files here, and isn't at work."""
    folder = root / FOLDER
    locked = any((folder / "locks").glob("*"))
    known = (folder / "metadata.db").exists() or any((folder / "metadata").rglob("*"))
    return not locked and not known


def forget(root: Path = Path()) -> None:
    """Delete Snakemake's records, so that hashes decide about all files."""
    shutil.rmtree(root / FOLDER / "metadata", ignore_errors=True)
    (root / FOLDER / "metadata.db").unlink(missing_ok=True)


def forget_dead() -> None:
    """Show that this process lives, and remove Snakemake's locks if no other process does.

    The sign is a lock that the system takes back when the process ends, however it ends. Snakemake's own
    locks, which keep two processes from the same files, are left alone as long as anyone may hold them.
    `snakemake --unlock` would remove them too, but a user has to know that nobody is at work.
    """
    with suppress(OSError):
        FOLDER.mkdir(exist_ok=True)
        sign = os.open(FOLDER / "alive", os.O_RDWR | os.O_CREAT, 0o666)
        with suppress(BlockingIOError):
            fcntl.flock(sign, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if left := list((FOLDER / "locks").glob("*.lock")):
                for path in left:
                    path.unlink(missing_ok=True)
                print("A Snakemake was killed in this folder; its locks are removed.", file=sys.stderr)
        fcntl.flock(sign, fcntl.LOCK_SH)
