"""The synchronous round: each client of the cohort trains the server's model, then all are merged."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.errors import SpecError
from fedcore.parts import Plan, Run, Schedule, State


@dataclass(frozen=True)
class Synchronous(Schedule):
    """One slot a client of the cohort, each starting from the global model. FedAvg."""

    label: str = "synchronous"

    def start(self, run: Run, state: State) -> None:
        """Refuse asynchronous events."""
        if run.spec.participation.events is not None:
            name = run.spec.algorithm["name"]
            raise SpecError(f"participation.events: '{name}' is synchronous; give cohorts")

    def plan(self, run: Run, state: State) -> Plan:
        """Plan one stage in which every client of the cohort trains."""
        cohort = run.recipe.select.cohort(run, state)
        slots = range(len(cohort))
        return Plan(
            cohort=cohort,
            starts=tuple(state.model for _ in slots),
            stages=(tuple(zip(slots, cohort, strict=True)),),
            groups=tuple(0 for _ in slots),
        )
