"""The errors that a user can cause, each one line, and how text that comes from elsewhere is printed."""

from __future__ import annotations

import re
import sys

CREDENTIALS = re.compile(r"(\w:/+)\S*@")


def plain(text: object) -> str:
    """Return text that names and files may be part of as one line that is safe to show.

    Control characters, line ends and characters that reverse the direction of writing become escapes;
    the user and password of an address become ``***``.
    """
    masked = CREDENTIALS.sub(r"\1***@", str(text))
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in masked)


def say(*lines: object, error: bool = False) -> None:
    """Print lines, made ``plain``, on standard output or on standard error."""
    for line in lines:
        print(plain(line), file=sys.stderr if error else sys.stdout, flush=True)


class FedcoreError(Exception):
    """Anything the command line reports as one line with exit code 2; its message is made ``plain``."""

    def __init__(self, message: object = "") -> None:
        super().__init__(plain(message))


class SpecError(FedcoreError):
    """A key of a specification is missing, unknown or out of range."""


class DataError(FedcoreError):
    """A data file is missing, damaged, unverified or not what its format says."""


class CheckpointError(FedcoreError):
    """A checkpoint belongs to another specification."""


class DamagedCheckpoint(CheckpointError):
    """A checkpoint is damaged, or not as it was written."""
