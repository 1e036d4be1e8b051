"""What the peers' oracle scripts share: the cases they are given, and their answer."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = tuple[NDArray[Any], NDArray[Any]]
"""W [inputs, classes] and b [classes]."""
NOTES: dict[str, str] = {}
"""What is to be said of an algorithm beside its values."""


class NotOffered(Exception):
    """The library does not have an algorithm; the message says what it has, if anything."""


@dataclass(frozen=True)
class Case:
    """One computation: an algorithm with its values on the oracle's clients."""

    name: str
    algorithm: str
    hyper: Mapping[str, Any]
    folder: Path

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return int(self.hyper["T"])

    @property
    def lr(self) -> float:
        """Local learning rate."""
        return float(self.hyper["lr"])

    @property
    def steps(self) -> list[int]:
        """Local full-batch steps of each client."""
        return list(self.hyper["steps"])

    def equal_steps(self) -> int:
        """Return the number of local steps where all clients do the same.

        Raises:
            NotOffered: they do not.
        """
        if len(set(self.steps)) > 1:
            raise NotOffered("one number of local epochs for all clients")
        return self.steps[0]


def answer(solve: Callable[[Case], Weights]) -> None:
    """Solve the command line's cases; print the final weights, or why there are none, as a line of JSON."""
    request = json.loads(sys.argv[1])
    answers = {}
    for values in request["cases"]:
        case = Case(values["name"], values["algorithm"], values["hyper"], Path(request["folder"]))
        try:
            inputs, bias = solve(case)
            values = {"W": np.asarray(inputs).tolist(), "b": np.asarray(bias).tolist()}
            answers[case.name] = values | {"note": NOTES.get(case.algorithm, "")}
        except NotOffered as error:
            answers[case.name] = {"not_offered": str(error)}
        except Exception as error:
            traceback.print_exc()
            answers[case.name] = {"error": f"{type(error).__name__}: {error}"[:200]}
    print("\n" + json.dumps(answers), flush=True)
