"""The errors that a user can cause. Each is one line: what is wrong, where, and what was expected."""

from __future__ import annotations


class FedcoreError(Exception):
    """Anything the command line reports as one line with exit code 2.

    Control characters in it, which names and files may hold, are written as escapes.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in str(message)))


class SpecError(FedcoreError):
    """A key of a specification is missing, unknown or out of range."""


class DataError(FedcoreError):
    """A data file is missing, damaged, unverified or not what its format says."""


class CheckpointError(FedcoreError):
    """A checkpoint is damaged or belongs to another specification."""
