"""Delayed aggregation: models travel from client to client before they are averaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fedcore.parts import Plan, Run, Schedule, State
from fedcore.parts.select.assignments import Assignments


@dataclass(frozen=True)
class Redistribution(Schedule):
    """m models start at w; in each of S inner rounds m clients are drawn and the i-th trains model i.

    Only the last models are merged. A round is an outer round, S inner ones. RADFed, Algorithm 1.
    """

    select: Assignments = field(default_factory=Assignments)
    label: str = "redistribution"

    def plan(self, run: Run, state: State) -> Plan:
        """Plan S stages; each is drawn when the one before it is done, so that scores can steer it."""
        first = self.select.draw(run, state, 0)
        return Plan(
            cohort=first,
            starts=tuple(state.model for _ in first),
            stages=self._stages(run, state),
            groups=tuple(0 for _ in first),
        )

    def trainings(self, cohort: int) -> int:
        """Return S times the cohort."""
        return cohort * self.select.redistributions

    def columns(self, state: State) -> dict[str, float]:
        """Report the inner rounds done, which other algorithms' rounds compare with."""
        return {"inner_rounds": state.round * self.select.redistributions}

    def _stages(self, run: Run, state: State) -> Iterator[tuple[tuple[int, int], ...]]:
        for inner in range(self.select.redistributions):
            yield tuple(enumerate(self.select.draw(run, state, inner)))
