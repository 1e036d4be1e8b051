"""Errors that a user can cause and faults of the machine, each one line, and how foreign text is printed."""

import errno
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

SHOWN, DIGITS = 200, 300
CREDENTIALS = re.compile(r"(\w:/+)\S*@")
AGAIN = "repeat the command; a run goes on from its last checkpoint"
DISK = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than the limit",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "not allowed to read or write here",
    errno.EPERM: "not allowed to read or write here",
    errno.EIO: "the disk can't be read or written",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EISDIR: "there is a folder of that name",
}
MEMORY = ("out of memory", "can't allocate memory", "unable to allocate", "cannot allocate memory")
DEVICE = ("CUDA error", "CUDA driver error", "cuDNN error", "CUBLAS_STATUS", "NCCL error", "no CUDA GPUs")


def plain(text: object) -> str:
    """Return text, which may hold foreign names, as one line that is safe to show.

    Control characters, line ends and characters that reverse the direction of writing become escapes;
    the user and password of an address become ``***``.
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in CREDENTIALS.sub(r"\1***@", str(text)))


def say(*lines: object, error: bool = False) -> None:
    """Print lines, made ``plain``, on standard output or on standard error."""
    for line in lines:
        print(plain(line), file=sys.stderr if error else sys.stdout, flush=True)


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as text in aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return "\n".join("  ".join(row).rstrip() for row in padded)


def shown(value: Any) -> str:
    """Return a wrong value as an error shows it: the beginning of a long one, without making the rest."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > SHOWN:
            return f"{text[:SHOWN]}..."
    return text


def _pieces(value: Any) -> Iterator[str]:
    """Yield the parts of ``repr(value)``, in order."""
    if isinstance(value, dict | list) and value:
        keyed = isinstance(value, dict)
        for place, item in enumerate(value):
            yield ", " if place else "{" if keyed else "["
            if keyed:
                yield from (*_pieces(item), ": ")
            yield from _pieces(value[item] if keyed else item)
        yield "}" if keyed else "]"
    elif isinstance(value, int) and value.bit_length() > 4 * SHOWN:
        yield f"an integer of some {round(value.bit_length() * 0.30103)} digits"
    else:
        yield repr(value[: SHOWN + 1] if isinstance(value, str | bytes) else value)


class FedcoreError(Exception):
    """Anything the command line reports as one line with exit code 2; its message is made ``plain``."""

    def __init__(self, message: object = "") -> None:
        super().__init__(plain(message))


class SpecError(FedcoreError):
    """A key of a specification is missing, unknown or out of range."""


class BrokenContract(SpecError):
    """What a plug-in returned is not what its kind has to return."""


class DataError(FedcoreError):
    """A data file is missing, damaged, unverified or not what its format says."""


class MissingPackage(DataError):
    """A format needs a package that is not installed."""


class CheckpointError(FedcoreError):
    """A checkpoint can't be used: it belongs to another run, or is damaged."""


class DamagedCheckpoint(CheckpointError):
    """A checkpoint is damaged, or not as it was written."""


def user_message(error: BaseException) -> str | None:
    """Return a user's error or a fault of the machine as one line; None for any other, which is a defect."""
    return str(error) if isinstance(error, FedcoreError) else fault_message(error)


def fault_message(error: BaseException) -> str | None:
    """Return a fault of the machine as one line; None for any other error."""
    if out_of_memory(error):
        return f"out of memory ({reason(error)}); give it more, then {AGAIN}"
    if device_lost(error):
        return f"the device failed ({reason(error)}); {AGAIN}"
    if isinstance(error, OSError) and error.errno in DISK:
        return f"{DISK[error.errno]}: {error.filename or reason(error)}; {AGAIN}"
    return None


def out_of_memory(error: BaseException) -> bool:
    """Whether there was not enough memory, of the machine or of its GPU."""
    stated = isinstance(error, RuntimeError) and any(words in str(error).lower() for words in MEMORY)
    return stated or isinstance(error, MemoryError)


def device_lost(error: BaseException) -> bool:
    """Whether a GPU failed, so that this process can't use it any more."""
    failed = isinstance(error, RuntimeError) and any(words in str(error) for words in DEVICE)
    return failed and not out_of_memory(error)


def reason(error: BaseException) -> str:
    """Say in one line what a library's error says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
