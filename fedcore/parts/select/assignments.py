"""Which client trains which model in each inner round of a redistribution schedule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import SpecError
from fedcore.parts import Run, Selection, State
from fedcore.parts.select.uniform import check_clients, cohort_size


@dataclass(frozen=True, kw_only=True)
class Assignments(Selection):
    """m different clients in each of S inner rounds, the i-th for model i: drawn uniformly, or as given.

    ``participation.assignments`` (or else ``cohorts``) lists the clients of each inner round, cycled; m is
    then its length, else the cohort's size. RADFed, Algorithm 1.
    """

    redistributions: int = 1
    label: str = "uniform"

    def start(self, run: Run, state: State) -> None:
        """Check assignments that are given.

        Raises:
            SpecError: no such client, one without data or given twice, or lists of different lengths.
        """
        for clients in _given(run):
            check_clients(run, clients, "assignments", with_data=True)
            if len(clients) != len(_given(run)[0]):
                raise SpecError(
                    f"participation.assignments: got {len(_given(run)[0])} and {len(clients)} clients, "
                    "expected as many in each inner round"
                )

    def cohort(self, run: Run, state: State) -> tuple[int, ...]:
        """Return the clients of the coming round's first inner round."""
        return self.draw(run, state, 0)

    def draw(self, run: Run, state: State, inner: int) -> tuple[int, ...]:
        """Return the clients of one of the coming round's inner rounds, model by model."""
        index = state.round * self.redistributions + inner
        given = _given(run)
        if given:
            return given[index % len(given)]
        rng = run.streams.get("assignment", index)
        p = self.probabilities(run, state)
        return tuple(int(k) for k in rng.choice(run.problem.active, cohort_size(run), replace=False, p=p))

    def probabilities(self, run: Run, state: State) -> NDArray[np.float64] | None:
        """Return the selection probabilities of the clients with data, or None for uniform ones."""
        return None


def _given(run: Run) -> tuple[tuple[int, ...], ...]:
    return run.spec.participation.assignments or run.spec.participation.cohorts or ()
