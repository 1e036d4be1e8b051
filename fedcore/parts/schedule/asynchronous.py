"""Asynchronous updates: one client's result at a time, trained on an old version of the server's model."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.base.lazy import Tensor
from fedcore.parts import Plan, Run, Schedule, State, Upload
from fedcore.parts.select.uniform import check_clients


@dataclass(frozen=True)
class Asynchronous(Schedule):
    """A round is one server update: one client, trained on the version ``staleness`` updates ago.

    Client and staleness are drawn, the staleness uniformly from 1 to ``max_staleness`` (0: always the newest
    version), or given by ``participation.events`` (cycled). Staleness beyond the first version is cut to it.
    FedAsync, Algorithm 1; RADFed, Section IV-E.
    """

    max_staleness: int
    label: str = "asynchronous"

    def trainings(self, cohort: int) -> int:
        """Return one, whatever the cohort is."""
        return 1

    def start(self, run: Run, state: State) -> None:
        """Check events that are given; keep the first version."""
        events = run.spec.participation.events or ()
        for client, _ in events:
            check_clients(run, (client,), "events", with_data=True)
        oldest = max((staleness for _, staleness in events), default=self.max_staleness)
        state.server["versions"] = state.model.new_zeros(oldest + 1, state.model.numel())
        state.server["versions"][0] = state.model
        state.values["staleness"] = 0

    def plan(self, run: Run, state: State) -> Plan:
        """Plan one job from the event's version of the model."""
        client, staleness = self.event(run, state)
        versions = state.server["versions"]
        start = versions[(state.round - staleness) % len(versions)].clone()
        return Plan(cohort=(client,), starts=(start,), stages=(((0, client),),), groups=(0,))

    def before(self, run: Run, state: State, plan: Plan) -> None:
        """Note the update's staleness, which decides its weight."""
        state.values["staleness"] = self.event(run, state)[1]

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Keep the new version in the place of the oldest."""
        versions = state.server["versions"]
        versions[(state.round + 1) % len(versions)] = state.model

    def columns(self, state: State) -> dict[str, float]:
        """Report the last update's staleness."""
        return {"staleness": state.values["staleness"]}

    def event(self, run: Run, state: State) -> tuple[int, int]:
        """Return the coming update's client and staleness."""
        given = run.spec.participation.events
        if given is not None:
            client, staleness = given[state.round % len(given)]
        else:
            rng = run.streams.get("event", state.round)
            client = int(rng.choice(run.problem.active))
            staleness = int(rng.integers(1, self.max_staleness, endpoint=True)) if self.max_staleness else 0
        return client, min(staleness, state.round)
