"""What a check found, in words for whoever wrote the plug-in."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fedcore.base.errors import FedcoreError

Check = Callable[[], "str | Skipped"]


@dataclass(frozen=True)
class Skipped:
    """A check that says nothing about this plug-in.

    Attributes:
        why: the reason.
    """

    why: str


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        demand: what is demanded.
        wrong: what was found instead and where to look; empty if the demand is met.
        skipped: why nothing could be said, or empty.
    """

    demand: str
    wrong: str = ""
    skipped: str = ""

    @property
    def word(self) -> str:
        """Return it as one word."""
        return "FAILED" if self.wrong else "skipped" if self.skipped else "ok"

    def __str__(self) -> str:
        """Return it as one line."""
        more = self.wrong or self.skipped
        return f"{self.word:7}  {self.demand}" + (f": {more}" if more else "")


def findings(checks: Iterator[tuple[str, Check]]) -> Iterator[Finding]:
    """Make checks one after another.

    Args:
        checks: what is demanded, and a function that returns what is wrong, nothing, or why it doesn't apply.
    """
    for demand, check in checks:
        try:
            found = check()
        except FedcoreError as error:
            found = f"refused: {error}"
        except Exception as error:
            found = raised(error)
        if isinstance(found, Skipped):
            yield Finding(demand, skipped=found.why)
        else:
            yield Finding(demand, found)


def raised(error: Exception) -> str:
    """Say which error was raised, and by which line."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())
    return f"raises {type(error).__name__} ({said}) at {place.filename}:{place.lineno}"
