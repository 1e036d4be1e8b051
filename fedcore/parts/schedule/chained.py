"""Clients one after another: each starts from the model that the one before it left."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.parts import Plan, Run, Schedule, State


@dataclass(frozen=True)
class Chained(Schedule):
    """One slot that visits the cohort in client-id order; every client's result is merged.

    What the released code of DL-opt and FedOMW does, for its baselines too: one model object is trained by
    all clients in turn, and a copy is kept after each.
    """

    label: str = "chained"

    def plan(self, run: Run, state: State) -> Plan:
        """Plan one stage a client."""
        cohort = run.recipe.select.cohort(run, state)
        return Plan(
            cohort=cohort,
            starts=(state.model,),
            stages=tuple(((0, client),) for client in cohort),
            groups=(0,),
            every_stage=True,
        )
