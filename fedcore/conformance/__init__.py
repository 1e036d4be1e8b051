"""What a check found, in words for whoever wrote the plug-in."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fedcore.base.errors import FedcoreError

Check = Callable[[], str]


class Skipped(Exception):
    """Raised by a check that says nothing about this plug-in, with the reason."""


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
        checks: what is demanded, and a function that returns what is wrong, or nothing.
    """
    for demand, check in checks:
        wrong = skipped = ""
        try:
            wrong = check()
        except Skipped as reason:
            skipped = str(reason)
        except FedcoreError as error:
            wrong = f"refused: {error}"
        except Exception as error:
            wrong = raised(error)
        yield Finding(demand, wrong, skipped)


def raised(error: Exception) -> str:
    """Say which error was raised, and by which line."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    message = " ".join(str(error).split())
    return f"raises {type(error).__name__} ({message}) at {place.filename}:{place.lineno}"


def disturb(seed: int) -> None:
    """Seed the random numbers that no plug-in should use."""
    random.seed(seed)
    np.random.seed(seed)
