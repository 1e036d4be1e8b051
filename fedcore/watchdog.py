"""The end of a process that makes no progress, so that whoever started it can start it again."""

from __future__ import annotations

import faulthandler
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STANDARD_ERROR = 2


@contextmanager
def watched(seconds: float) -> Iterator[Callable[[], None]]:
    """Yield a function to call at each sign of progress; without one for so long, the process ends.

    It ends with exit code 1, whatever it is stuck in, and leaves "Timeout" and where it was stuck on
    standard error. Finished files and the last checkpoint stay as they are.

    Args:
        seconds: the longest time between two signs; 0 for any.
    """

    def alive() -> None:
        if seconds:
            faulthandler.dump_traceback_later(seconds, exit=True, file=STANDARD_ERROR)

    alive()
    try:
        yield alive
    finally:
        if seconds:
            faulthandler.cancel_dump_traceback_later()
