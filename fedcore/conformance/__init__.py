"""What a check found, in words for whoever wrote the plug-in."""

import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fedcore.base.errors import FedcoreError
from fedcore.base.lazy import torch

Check = Callable[[], None]


class Unmet(Exception):
    """Raised by a check whose demand is not met, with what was found instead."""


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

    def __str__(self) -> str:
        word = "FAILED" if self.wrong else "skipped" if self.skipped else "ok"
        more = self.wrong or self.skipped
        return f"{word:7}  {self.demand}" + (f": {more}" if more else "")


def findings(checks: Iterator[tuple[str, Check]]) -> Iterator[Finding]:
    """Make checks, of what is demanded by a function that raises ``Unmet``, one after another."""
    for demand, check in checks:
        wrong = skipped = ""
        try:
            check()
        except Skipped as reason:
            skipped = str(reason)
        except Unmet as found:
            wrong = str(found)
        except FedcoreError as error:
            wrong = f"refused: {error}"
        except Exception as error:
            place, said = traceback.extract_tb(error.__traceback__)[-1], " ".join(str(error).split())
            wrong = f"raises {type(error).__name__} ({said}) at {place.filename}:{place.lineno}"
        yield Finding(demand, wrong, skipped)


def require(met: object, otherwise: str) -> None:
    """Raise ``Unmet`` with the words ``otherwise`` unless a demand is met."""
    if not met:
        raise Unmet(otherwise)


def disturb(seed: int) -> None:
    """Seed the random numbers that no plug-in should use."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
